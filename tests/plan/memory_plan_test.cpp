// SPDX-License-Identifier: Apache-2.0
// The arena planner on random lifetimes, with a brute-force check of every pair.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/plan/memory.h"

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

// More blocks than all attempts afford are placed in the order of their first steps.
TEST(MemoryPlan, ThousandsOfBlocksDoNotOverlap) {
  std::mt19937 random(2);
  for (const unsigned longest : {4u, 4000u}) {
    std::vector<Lifetime> blocks(4000);
    for (Lifetime& block : blocks) {
      block.first = static_cast<int>(random() % 5000);
      block.last = block.first + static_cast<int>(random() % longest);
      block.bytes = random() % 8 == 0 ? 0 : static_cast<int64_t>(random() % 5000);
    }
    const Arena arena = plan_memory(blocks);
    EXPECT_GE(arena.bytes, arena.lower_bound);
    EXPECT_LE(arena.bytes, 2 * arena.lower_bound);
    int64_t overlaps = 0;
    for (size_t i = 0; i < blocks.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        overlaps += share_a_step(blocks[i], blocks[j]) && blocks[i].bytes > 0 &&
                    blocks[j].bytes > 0 &&
                    arena.offsets[i] < arena.offsets[j] + align_up(blocks[j].bytes) &&
                    arena.offsets[j] < arena.offsets[i] + align_up(blocks[i].bytes);
    EXPECT_EQ(overlaps, 0);
  }
}

TEST(MemoryPlan, AChainNeedsTwoBlocks) {
  std::vector<Lifetime> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back({i, i + 1, 1000});
  const Arena arena = plan_memory(blocks);
  EXPECT_EQ(arena.bytes, 2 * align_up(1000));
  EXPECT_EQ(arena.lower_bound, 2 * align_up(1000));
}

// The layers of an encoder with two threads: products with workspaces of about two of their
// results, and a result of four times the size between two of them.
TEST(MemoryPlan, LayersOfAnEncoderNeedNoMoreThanIsAlive) {
  constexpr int64_t kValue = 196608, kPacked = 405888;
  std::vector<Lifetime> blocks = {{5, 69, 16384}, {0, 11, kValue}};
  for (int at = 0; at < 60; at += 10) {
    for (int i = 6; i < 9; ++i) {
      blocks.push_back({at + i, at + i, kPacked});
      blocks.push_back({at + i, at + 9, kValue});
    }
    blocks.push_back({at + 9, at + 9, 358272});
    blocks.push_back({at + 9, at + 10, kValue});
    blocks.push_back({at + 10, at + 11, kValue});
    blocks.push_back({at + 11, at + 11, kPacked});
    blocks.push_back({at + 11, at + 14, kValue});
    blocks.push_back({at + 13, at + 13, kPacked});
    blocks.push_back({at + 13, at + 14, 4 * kValue});
    blocks.push_back({at + 14, at + 14, 270592});
    blocks.push_back({at + 14, at + 21, kValue});
  }
  const Arena arena = plan_memory(blocks);
  EXPECT_EQ(arena.bytes, arena.lower_bound);
}

// Cuts a rectangle of steps and bytes into blocks, which therefore fit without gaps.
void cut(std::mt19937& random, int first, int last, int64_t units, std::vector<Lifetime>& blocks) {
  const bool by_steps = last > first && random() % 2 == 0;
  if (units < 8 && last - first < 4) {
    blocks.push_back({first, last, units * kAlignment});
  } else if (by_steps) {
    const int middle = first + static_cast<int>(random() % static_cast<unsigned>(last - first));
    cut(random, first, middle, units, blocks);
    cut(random, middle + 1, last, units, blocks);
  } else if (units > 1) {
    const auto part = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(units - 1));
    cut(random, first, last, part, blocks);
    cut(random, first, last, units - part, blocks);
  } else {
    blocks.push_back({first, last, units * kAlignment});
  }
}

TEST(MemoryPlan, IsCloseToTheBoundWhereThatCanBeReached) {
  std::mt19937 random(3);
  double total = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Lifetime> blocks;
    cut(random, 0, 30, 100, blocks);
    std::shuffle(blocks.begin(), blocks.end(), random);
    const Arena arena = plan_memory(blocks);
    ASSERT_EQ(arena.lower_bound, 100 * kAlignment);
    const double ratio = static_cast<double>(arena.bytes) / static_cast<double>(arena.lower_bound);
    EXPECT_LE(ratio, 1.16) << "round " << round << ", " << blocks.size() << " blocks";
    total += ratio;
  }
  EXPECT_LE(total / kRounds, 1.045);
}

// Placing from the bottom alone fails: the second block must be at the top.
TEST(MemoryPlan, PlacesFromBothEnds) {
  constexpr int64_t k = 1024;
  const std::vector<Lifetime> blocks = {{0, 1, 64 * k}, {1, 2, 64 * k}, {2, 3, 32 * k},
                                        {3, 4, 96 * k}, {1, 1, 9 * k},  {2, 2, 34 * k},
                                        {3, 3, 18 * k}};
  const Arena arena = plan_memory(blocks);
  EXPECT_EQ(arena.lower_bound, 146 * k);
  EXPECT_EQ(arena.bytes, arena.lower_bound);
}

TEST(MemoryPlan, NothingNeedsNothing) {
  const Arena arena = plan_memory({});
  EXPECT_EQ(arena.bytes, 0);
  EXPECT_EQ(arena.lower_bound, 0);
}

}  // namespace
}  // namespace hg
