// SPDX-License-Identifier: Apache-2.0
// Copies rows of x with zero padding, in f32, for every instruction set. A separate table, so that
// programs that need only this link nothing else.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct PaddedRowsTable {
  // to[remainder, column] = from[column stride + remainder - padding], or 0 outside [0, count), for
  // `width` columns of each remainder below `remainders`, which is at most the stride.
  void (*pad_row)(const float* from, int64_t count, int64_t padding, int64_t stride,
                  int64_t remainders, int64_t width, float* to) = nullptr;
  void (*clear)(int64_t count, float* to) = nullptr;
  // to[row to_row + column] = from[row from_row + column]; up to a vector of zeros may follow each
  // row.
  void (*copy_rows)(int64_t rows, int64_t columns, const float* from, int64_t from_row, float* to,
                    int64_t to_row) = nullptr;
};

const PaddedRowsTable& padded_rows_table();

}  // namespace hg::kernels
