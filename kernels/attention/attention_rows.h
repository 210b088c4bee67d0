// SPDX-License-Identifier: Apache-2.0
// The numbers that the mask of attention kernels adds, for one block of keys.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/attention/attention_block.h"
#include "kernels/attention/attention_shape.h"

namespace hg::kernels {

enum class Shown { none, some, all };

// Which of the keys from `key` on a mask of bools shows to queries from `first` on.
template <class T>
Shown shown(const AttentionMask<T>& mask, int64_t first, int64_t key, const AttentionScores& w) {
  if (!mask.hides || mask.causal || mask.key != 1 || w.keys == 0) return Shown::some;
  bool any = false, all = true;
  for (int64_t i = 0; i < (mask.time == 0 ? 1 : w.queries); ++i) {
    const bool* const row = mask.hides + (first + i) * mask.time + key;
    const auto has = [&](bool what) {
      return std::memchr(row, what, static_cast<size_t>(w.keys)) != nullptr;
    };
    any = any || has(true);
    all = all && !has(false);
    if (any && !all) return Shown::some;
  }
  return any ? Shown::all : Shown::none;
}

// 0 where a mask shows a key, otherwise -infinity. Without a choice, loops over it are vectorized.
inline float added_to(bool shows) {
  return std::bit_cast<float>((static_cast<uint32_t>(shows) - 1) &
                              std::bit_cast<uint32_t>(-HUGE_VALF));
}

// Finds the numbers that the mask adds to the scores of queries from `first` and keys from `key`
// on. Returns false if it hides all of these keys.
template <class T>
bool find_added(const AttentionMask<T>& mask, int64_t first, int64_t key, float* buffer,
                AttentionScores& w) {
  if constexpr (std::is_same_v<T, float>) {
    if (mask.adds && !mask.causal && mask.key == 1) {
      w.added = mask.adds + first * mask.time + key;
      w.added_row = mask.time;
      return true;
    }
  }
  const Shown keys = shown(mask, first, key, w);
  w.added = nullptr;
  if (keys != Shown::some) return keys == Shown::all;
  const bool same_rows = !mask.causal && mask.time == 0;
  for (int64_t i = 0; i < (same_rows ? 1 : w.queries); ++i) {
    const int64_t t = first + i;
    float* row = buffer + i * kKeyBlock;
    if (mask.hides && mask.key == 1) {
      const bool* shows = mask.hides + t * mask.time + key;
      for (int64_t j = 0; j < w.keys; ++j) row[j] = added_to(shows[j]);
    } else {
      for (int64_t j = 0; j < w.keys; ++j) row[j] = static_cast<float>(mask(0, t, key + j));
    }
    if (mask.causal)
      for (int64_t j = std::max<int64_t>(0, t + 1 - key); j < w.keys; ++j) row[j] = -HUGE_VALF;
  }
  w.added = buffer;
  w.added_row = same_rows ? 0 : kKeyBlock;
  return true;
}

// Multiplies the numbers of keys, scores or weights, by the scales of k (0) or v (1), if any.
inline void scale_keys(const RunContext& c, const AttentionShape& s, const AttentionOffsets& o,
                       int of, int64_t first, int64_t keys, int64_t rows, float* numbers) {
  if (!c.has(4 + of) || c.in(1).dtype != i8) return;
  const int64_t step = s.scale_time[of];
  const float* const scales = c.in(4 + of).as<float>() + o.scale[of] + first * step;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < keys; ++j) numbers[i * kKeyBlock + j] *= scales[j * step];
}

}  // namespace hg::kernels
