// SPDX-License-Identifier: Apache-2.0
// The work of attention between its two matrix products, for one block of queries and one block of
// keys.
#pragma once

#include <cstdint>

namespace hg::kernels {

inline constexpr int64_t kQueryBlock = 112, kKeyBlock = 128, kMaxHeadDim = 1024;
// Multiplications, of scores and of results, below which one thread does all the work.
inline constexpr int64_t kLeastForThreads = 1 << 18;
inline constexpr int64_t kColumnStep = 16;  // a multiple of every target's lanes
inline int64_t padded_columns(int64_t columns) {
  return (columns + kColumnStep - 1) / kColumnStep * kColumnStep;
}

// Scores become weights exp(scale score + added - top). If a larger top is found, the values
// gathered so far are scaled down.
struct AttentionScores {
  int64_t queries = 0, keys = 0;
  float* scores = nullptr;  // [queries, kKeyBlock]
  float scale = 1;
  const float* added = nullptr;  // [queries, keys] with this distance between rows, or null
  int64_t added_row = 0;
  float* gathered = nullptr;  // [queries, padded_value_dim]
  int64_t padded_value_dim = 0;
  float* top = nullptr;  // largest score so far, of each query
  float* sum = nullptr;  // of the weights
};

struct AttentionTable {
  void (*weigh)(const AttentionScores& scores) = nullptr;
};
const AttentionTable& attention_table();

}  // namespace hg::kernels
