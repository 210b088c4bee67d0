// SPDX-License-Identifier: Apache-2.0
// The products of one or a few queries with a block of keys and values, which are read in place.
#pragma once

#include <cstdint>

#include "hg/tensor.h"

namespace hg::kernels {

// Rows of keys and values are contiguous, and the distance of two is given in elements. The loops
// prefetch the rows that follow, which are those of the next block.
struct FewTable {
  // scores[queries, kKeyBlock] = q[queries, padded_columns(dim)] k[keys, dim]^T. Padding of q must
  // be zeros; scores beyond the keys are undefined.
  void (*score)(int64_t queries, int64_t keys, int64_t dim, const float* q, const void* k,
                int64_t k_row, float* scores) = nullptr;
  // sums[queries, padded_columns(columns)] += weights[queries, kKeyBlock] v[keys, columns]
  void (*gather)(int64_t queries, int64_t keys, int64_t columns, const float* weights,
                 const void* v, int64_t v_row, float* sums) = nullptr;
};

// For keys and values of f32, f16, bf16 or i8.
const FewTable& few_table(DType dtype);

}  // namespace hg::kernels
