// SPDX-License-Identifier: Apache-2.0
// Sequences that join and leave a batch at random.
#pragma once

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "hg/batch_generator.h"
#include "tests/support/must.h"

namespace hg {

struct Asked {
  std::vector<int32_t> prompt;
  int64_t max_tokens;
};

// Adds and ends sequences at random. Calls `check` with each that has ended: what was asked, the
// sequence, and whether end() ended it.
template <class Check>
void run_at_random(BatchGenerator& batch, uint32_t seed, int64_t words, int steps, Check&& check) {
  std::mt19937 random(seed);
  std::map<int64_t, Asked> running;
  std::vector<int32_t> last;
  int collected = 0, added = 0;
  const auto collect = [&] {
    for (const EndedSequence& ended : batch.ended()) {
      const auto found = running.find(ended.id);
      if (found == running.end()) continue;  // ended by end(), and collected before
      EXPECT_TRUE(ended.status.ok()) << ended.status.message();
      check(found->second, ended.sequence, ended.sequence.finish == Finish::stop);
      running.erase(found);
      ++collected;
    }
  };
  for (int i = 0; i < steps || batch.running() > 0; ++i) {
    while (i < steps && batch.running() < batch.rows() && random() % 3 == 0) {
      const uint32_t most_tokens = random() % 4 == 0 ? 60 : 12;
      Asked asked{{}, static_cast<int64_t>(random() % most_tokens)};
      if (random() % 3 == 0)  // shares a beginning with the prompt before it
        asked.prompt.assign(last.begin(), last.begin() + random() % (last.size() + 1));
      const uint32_t most_more = random() % 4 == 0 ? 40 : 5;
      const size_t more = 1 + random() % most_more;
      for (size_t k = 0; k < more; ++k)
        asked.prompt.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(words)));
      if (asked.prompt.size() > 100) asked.prompt.resize(50);
      last = asked.prompt;
      const int64_t id = must(batch.add(
          asked.prompt, {.max_tokens = asked.max_tokens, .reuse_past = random() % 2 == 0}));
      EXPECT_EQ(id, added++);
      running.emplace(id, std::move(asked));
      collect();
    }
    const size_t before = running.size();
    const std::span<const GeneratedToken> tokens = must(batch.step());
    EXPECT_EQ(tokens.size(), before) << "step " << i;
    collect();
    if (!running.empty() && random() % 8 == 0) {
      const auto gone = std::next(running.begin(), random() % running.size());
      EXPECT_TRUE(batch.end(gone->first).ok());
      collect();
    }
    EXPECT_EQ(batch.running(), static_cast<int64_t>(running.size()));
  }
  EXPECT_EQ(collected, added);
  EXPECT_GT(added, steps / 20);
}

}  // namespace hg
