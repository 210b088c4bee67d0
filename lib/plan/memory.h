// SPDX-License-Identifier: Apache-2.0
// Assigns arena offsets to blocks with lifetimes in steps. A pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hg {

inline constexpr int64_t kAlignment = 64;  // bytes: a cache line, and the widest vector

constexpr int64_t align_up(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Lifetime {
  int first = 0, last = 0;  // both inclusive
  int64_t bytes = 0;
};

struct Arena {
  std::vector<int64_t> offsets;  // multiples of kAlignment, one per lifetime
  int64_t bytes = 0;
  int64_t lower_bound = 0;  // largest sum of live bytes at one step
};

// Places all blocks so that blocks live at the same step do not overlap. Greedy with several orders
// (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference", section 5);
// returns the smallest result.
Arena plan_memory(std::span<const Lifetime> blocks);

}  // namespace hg
