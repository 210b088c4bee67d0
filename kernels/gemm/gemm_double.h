// SPDX-License-Identifier: Apache-2.0
// Matrix products in f64, block by block.
#pragma once

#include <cstdint>

namespace hg::kernels {

// y[rows, columns] (+)= a[rows, k] panel[k, columns of the panel], where rows <= 4.
struct DoubleBlock {
  int64_t rows, columns, k;
  const double* a;
  int64_t a_row, a_col;
  const double* panel;
  double* y;
  int64_t y_row;
  bool add;
};
struct DoubleTable {
  int64_t columns;  // of a panel
  void (*block)(const DoubleBlock& b);
};
const DoubleTable& double_table();

}  // namespace hg::kernels
