// SPDX-License-Identifier: Apache-2.0
// A matrix times one or a few vectors, and distances, for every instruction set. Reading b
// dominates the time, so b is read once, in place.
#pragma once

#include <cstdint>

#include "hg/tensor.h"

namespace hg::kernels {

// Maximum number of rows: with more, packing b costs less than it saves.
inline constexpr int64_t kGemvRows = 4;

struct GemvTable {
  // y[rows, columns] = a[rows, k] b[columns, k]^T; a and b are contiguous along k.
  void (*dots)(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t a_row,
               const void* b, int64_t b_row, float* y, int64_t y_row) = nullptr;
  // y[rows, columns] = a[rows, k] b[k, columns]; b is contiguous along columns.
  void (*combine)(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t a_row,
                  int64_t a_col, const void* b, int64_t b_row, float* y, int64_t y_row) = nullptr;
  // The sums of squared differences of a[k] and each row of b[columns, k], in f32.
  void (*distances)(int64_t columns, int64_t k, const float* a, const float* b, int64_t b_row,
                    float* y) = nullptr;
};

// For b in f32, f16 or bf16.
const GemvTable& gemv_table(DType b = DType::f32);

}  // namespace hg::kernels
