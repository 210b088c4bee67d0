// SPDX-License-Identifier: Apache-2.0
// The arena planner on random lifetimes, against a brute-force check of every pair.
#include "lib/plan/memory.h"

#include <gtest/gtest.h>

#include <random>

namespace hg {
namespace {

bool share_a_step(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(MemoryPlan, NoTwoLiveBlocksOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int steps = 1 + static_cast<int>(random() % 40);
    std::vector<Lifetime> blocks(random() % 60);
    for (Lifetime& block : blocks) {
      block.first = static_cast<int>(random() % static_cast<unsigned>(steps));
      block.last = block.first + static_cast<int>(random() % 10);
      block.bytes = random() % 8 == 0 ? 0 : static_cast<int64_t>(random() % 5000);
    }
    const Arena arena = plan_memory(blocks);
    ASSERT_EQ(arena.offsets.size(), blocks.size());
    ASSERT_GE(arena.bytes, arena.lower_bound);
    for (size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_EQ(arena.offsets[i] % kAlignment, 0);
      ASSERT_LE(arena.offsets[i] + blocks[i].bytes, arena.bytes);
      for (size_t j = 0; j < i; ++j) {
        if (!share_a_step(blocks[i], blocks[j])) continue;
        const bool apart = arena.offsets[i] + blocks[i].bytes <= arena.offsets[j] ||
                           arena.offsets[j] + blocks[j].bytes <= arena.offsets[i];
        ASSERT_TRUE(apart || blocks[i].bytes == 0 || blocks[j].bytes == 0)
            << "round " << round << ": blocks " << j << " and " << i;
      }
    }
  }
}

TEST(MemoryPlan, AChainNeedsTwoBlocks) {
  std::vector<Lifetime> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back({i, i + 1, 1000});
  const Arena arena = plan_memory(blocks);
  EXPECT_EQ(arena.bytes, 2 * align_up(1000));
  EXPECT_EQ(arena.lower_bound, 2 * align_up(1000));
}

TEST(MemoryPlan, NothingNeedsNothing) {
  const Arena arena = plan_memory({});
  EXPECT_EQ(arena.bytes, 0);
  EXPECT_EQ(arena.lower_bound, 0);
}

}  // namespace
}  // namespace hg
