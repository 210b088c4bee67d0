// SPDX-License-Identifier: Apache-2.0
// SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
#pragma once

#include <cstdint>

namespace hg {

inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;
inline constexpr uint64_t kSplitMixFirst = 0xbf58476d1ce4e5b9u,
                          kSplitMixSecond = 0x94d049bb133111ebu;

// The final mixing step: turns a counter into a random number.
inline uint64_t split_mix_finish(uint64_t z) {
  z = (z ^ (z >> 30)) * kSplitMixFirst;
  z = (z ^ (z >> 27)) * kSplitMixSecond;
  return z ^ (z >> 31);
}

// Returns the next number of the sequence.
inline uint64_t split_mix(uint64_t& state) { return split_mix_finish(state += kSplitMixStep); }

}  // namespace hg
