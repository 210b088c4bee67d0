// SPDX-License-Identifier: Apache-2.0
// Matrix products in f64, i64 and i32, block by block.
#pragma once

#include <cstdint>

namespace hg::kernels {

// y[rows, columns] (+)= a[rows, k] panel[k, columns of the panel], where rows <= 4.
template <class T>
struct PanelProduct {
  int64_t rows, columns, k;
  const T* a;
  int64_t a_row, a_col;
  const T* panel;
  T* y;
  int64_t y_row;
  bool add;
};
template <class T>
struct PanelProducts {
  int64_t columns;  // of a panel
  void (*block)(const PanelProduct<T>& b);
  // The sum of the products of a[k] and b[k].
  T (*dot)(const T* a, const T* b, int64_t k);
};
const PanelProducts<double>& double_panels();

}  // namespace hg::kernels
