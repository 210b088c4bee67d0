// SPDX-License-Identifier: Apache-2.0
// Random operations on pasts, compared with runs over the whole text without a past.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "hg/batch_generator.h"
#include "hg/generator.h"
#include "tests/must.h"
#include "tests/small_decoder.h"
#include "tests/temporary_file.h"

namespace hg {
namespace {

using namespace small_decoder;

void expect_near(std::span<const float> got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 2e-4) << i;
}

Ids joined(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// A generator and the tokens that it should have.
struct Branch {
  Generator generator;
  Ids ids = {};
};

// Continues all branches in a batch.
void expect_batch(BatchGenerator& batch, const std::vector<Branch>& branches, Whole& whole) {
  std::map<int64_t, Ids> wanted;
  for (const Branch& branch : branches) {
    const Ids prompt = joined(branch.ids, {5});
    const int64_t id = must(batch.add(prompt, {.max_tokens = 4, .reuse_past = true}));
    wanted[id] = whole.greedy(prompt, 4);
  }
  while (batch.running() > 0) {
    (void)must(batch.step());
    for (const EndedSequence& ended : batch.ended())
      EXPECT_EQ(ended.sequence.ids, wanted[ended.id]);
  }
}

void run_random_operations(const Form& form, uint32_t seed) {
  SCOPED_TRACE(str_cat("seed ", int64_t{seed}));
  std::mt19937 random(seed);
  Whole whole;
  const test::TemporaryFile file("past");
  Ids saved;
  bool has_saved = false;
  Result<BatchGenerator> batch = BatchGenerator::create(decoder(form), 4, {.threads = 1});
  std::vector<Branch> branches;
  branches.push_back({must(Generator::create(decoder(form), {.threads = 1}))});
  for (int step = 0; step < 60; ++step) {
    SCOPED_TRACE(str_cat("step ", int64_t{step}));
    Branch& branch = branches[random() % branches.size()];
    switch (random() % 7) {
      case 0:
      case 1: {
        const Ids more = random_ids(1 + random() % 9, random());
        if (branch.ids.size() + more.size() > 180) break;
        branch.ids = joined(branch.ids, more);
        expect_near(must(branch.generator.append(more)), whole.logits(branch.ids));
        break;
      }
      case 2: {
        const size_t length = random() % (branch.ids.size() + 1);
        branch.ids.resize(length);
        ASSERT_TRUE(branch.generator.truncate(static_cast<int64_t>(length)).ok());
        break;
      }
      case 3: {
        Generator copy = must(branch.generator.fork());
        Ids ids = branch.ids;
        if (branches.size() < 4)
          branches.push_back({std::move(copy), std::move(ids)});
        else
          branches[random() % 4] = {std::move(copy), std::move(ids)};
        break;
      }
      case 4:
        ASSERT_TRUE(branch.generator.save(file.path()).ok());
        saved = branch.ids;
        has_saved = true;
        break;
      case 5:
        if (!has_saved) break;
        ASSERT_TRUE(branch.generator.load(file.path()).ok());
        branch.ids = saved;
        break;
      default: {
        const Ids prompt = joined(branch.ids, random_ids(1 + random() % 3, random()));
        if (prompt.size() > 180) {
          branch.generator.reset();
          branch.ids.clear();
          break;
        }
        const Generation answer =
            must(branch.generator.generate({prompt}, {.max_tokens = 5, .reuse_past = true}));
        EXPECT_EQ(answer.sequences[0].ids, whole.greedy(prompt, 5));
        branch.ids = joined(prompt, answer.sequences[0].ids);
        branch.ids.pop_back();  // the last token is not read
      }
    }
    if (step % 10 == 9 && batch.ok()) expect_batch(*batch, branches, whole);
    for (const Branch& each : branches) {
      ASSERT_EQ(each.generator.length(), static_cast<int64_t>(each.ids.size()));
      ASSERT_EQ(must(each.generator.ids()), each.ids);
    }
  }
}

TEST(Past, RandomOperationsEqualRunsOfTheWholeText) {
  for (const uint32_t seed : {1U, 2U, 3U, 4U}) run_random_operations({}, seed);
  run_random_operations({.positions = false}, 5);
  run_random_operations({.batch = 1}, 6);
  run_random_operations({.mask = false}, 7);  // the session does not keep the past
  run_random_operations({.past = false, .mask = false}, 8);
}

TEST(Past, OfSeveralSequencesIsRefused) {
  Generator generator = must(Generator::create(decoder(), {.threads = 1}));
  const test::TemporaryFile file("past");
  (void)must(generator.generate({{1, 2}, {3}}, {.max_tokens = 2}));
  EXPECT_EQ(generator.length(), 0);
  for (const Status& status : {generator.truncate(0), generator.fork().status(),
                               generator.save(file.path()), generator.append(Ids{1}).status()})
    expect_refusal(status, Code::invalid_argument, "the past of 2 sequences; call reset()");
  generator.reset();
  EXPECT_EQ(must(generator.append(Ids{1, 2})).size(), size_t{kWords});
  expect_refusal(generator.truncate(3), Code::invalid_argument,
                 "cannot truncate a past of 2 tokens to 3");
  expect_refusal(generator.append(Ids{kWords}).status(), Code::invalid_argument, "has the id 61");
  expect_refusal(generator.append(Ids{}).status(), Code::invalid_argument, "there are no ids");
  expect_refusal(generator.append(Ids(199, 1)).status(), Code::invalid_argument, "200 positions");
  EXPECT_EQ(generator.length(), 2);
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(generator.append(Ids{3}, source.get_token()).status().code(), Code::cancelled);
  expect_near(must(generator.append(Ids{4})), Whole().logits({1, 2, 4}));
}

TEST(Past, DamagedAndOtherFilesAreRefused) {
  Generator generator = must(Generator::create(decoder(), {.threads = 1}));
  const Ids ids = random_ids(30, 1);
  (void)must(generator.append(ids));
  const test::TemporaryFile file("past");
  ASSERT_TRUE(generator.save(file.path()).ok());
  const std::string good = file.content();
  std::mt19937 random(4);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    file.set_content(bytes);
    if (generator.load(file.path()).ok()) {
      // The damaged byte is padding: the values are those that were saved.
      EXPECT_EQ(must(generator.ids()), ids);
    } else {
      ++refused;
      EXPECT_EQ(generator.length(), 30);
    }
    expect_near(must(generator.append(Ids{7})), Whole().logits(joined(ids, {7})));
    ASSERT_TRUE(generator.truncate(30).ok());
  }
  EXPECT_GT(refused, 250);
  file.set_content(good);
  Generator same = must(Generator::create(decoder(), {.threads = 1}));
  ASSERT_TRUE(same.load(file.path()).ok());
  Generator other = must(Generator::create(decoder({.positions = false}), {.threads = 1}));
  expect_refusal(other.load(file.path()), Code::invalid_argument, "belongs to another model");
  Generator rounded =
      must(Generator::create(decoder(), {.threads = 1, .precision = Precision::bf16}));
  expect_refusal(rounded.load(file.path()), Code::invalid_argument, "or precision");
  Generator table = must(Generator::create(decoder({.table = true}), {.threads = 1}));
  expect_refusal(table.load(file.path()), Code::invalid_argument, "belongs to another model");
  ASSERT_TRUE(decoder().save(file.path()).ok());
  expect_refusal(generator.load(file.path()), Code::invalid_argument, "holds no past");
  expect_refusal(generator.load(file.path() + ".missing"), Code::not_found, "missing");
}

TEST(Past, AKilledProcessLeavesAWholeFile) {
  const test::TemporaryFile file("past");
  Generator generator = must(Generator::create(decoder(), {.threads = 1}));
  const std::vector<Ids> texts = {random_ids(150, 1), random_ids(90, 2)};
  std::vector<Generator> both;
  for (const Ids& text : texts) {
    both.push_back(must(generator.fork()));
    (void)must(both.back().append(text));
  }
  ASSERT_TRUE(both[0].save(file.path()).ok());
  std::mt19937 random(6);
  int seen[2] = {};
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    for (size_t i = 1; child == 0; ++i)
      if (!both[i % 2].save(file.path()).ok()) _exit(1);
    usleep(500 + random() % 20000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    ASSERT_TRUE(generator.load(file.path()).ok()) << "round " << round;
    const Ids ids = must(generator.ids());
    const size_t which = ids == texts[0] ? 0 : 1;
    ASSERT_EQ(ids, texts[which]);
    ++seen[which];
    if (round % 10 == 9)
      expect_near(must(generator.append(Ids{7})), Whole().logits(joined(ids, {7})));
  }
  EXPECT_GT(seen[0], 0);
  EXPECT_GT(seen[1], 0);
}

}  // namespace
}  // namespace hg
