// SPDX-License-Identifier: Apache-2.0
// Offsets in one arena for blocks that live over ranges of steps. A pure function.
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
  int first = 0, last = 0;  // steps, both inclusive
  int64_t bytes = 0;
};

struct Arena {
  std::vector<int64_t> offsets;  // multiples of kAlignment, one for each lifetime
  int64_t bytes = 0;
  int64_t lower_bound = 0;  // largest sum of live bytes at one step
};

// Places every block so that blocks alive at the same step do not overlap. Greedy by several orders
// (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference", section 5);
// the smallest result wins.
Arena plan_memory(std::span<const Lifetime> blocks);

}  // namespace hg
