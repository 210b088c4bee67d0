// SPDX-License-Identifier: Apache-2.0
// What one block of queries keeps while it walks over the keys; lives on the stack (about 110 KiB).
#pragma once

#include <cstdint>

namespace hg::kernels {

inline constexpr int64_t kQueryBlock = 32, kKeyBlock = 64, kMaxHeadDim = 128;
inline constexpr int64_t kColumnStep = 16;  // a multiple of every target's lanes

struct AttentionBlock {
  alignas(64) float queries[kQueryBlock * kMaxHeadDim];  // scaled: [queries, dim]
  alignas(64) float keys[kMaxHeadDim * kKeyBlock];       // transposed: [dim, keys]
  alignas(64) float values[kKeyBlock * kMaxHeadDim];     // [keys, padded_value_dim]
  alignas(64) float scores[kQueryBlock * kKeyBlock];
  alignas(64) float gathered[kQueryBlock * kMaxHeadDim];  // [queries, padded_value_dim]
  float top[kQueryBlock];                                 // largest score so far
  float sum[kQueryBlock];                                 // of exp(score - top)
  int64_t padded_value_dim;
};

// The steps of a block, for one instruction set.
struct AttentionTable {
  void (*scores)(AttentionBlock& block, int64_t dim);
  void (*values)(AttentionBlock& block, int64_t keys, int64_t padded_keys);
};

}  // namespace hg::kernels
