// SPDX-License-Identifier: Apache-2.0
// Lines of a matrix of 16-bit floats in f32.
#pragma once

#include <tuple>
#include <utility>

#include "kernels/element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/simd/half_simd.h"

namespace hg::kernels {

// to[i, p] = from[i row + p column], with contiguous lines, in whichever direction they are
// contiguous in memory. Returns the distances of rows and columns in the result.
template <class T>
std::pair<int64_t, int64_t> widen(const HalfTable& half, int64_t rows, int64_t columns,
                                  const T* from, int64_t row, int64_t column, float* to) {
  if (column != 1 && row == 1) {
    for (int64_t p = 0; p < columns; ++p) half.widen(rows, from + p * column, to + p * rows);
    return {1, rows};
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (column == 1)
      half.widen(columns, from + i * row, to + i * columns);
    else
      for (int64_t p = 0; p < columns; ++p) to[i * columns + p] = load(from + i * row + p * column);
  }
  return {columns, 1};
}

// A matrix of f32, f16 or bf16, as it lies in memory.
struct StoredMatrix {
  DType dtype = DType::f32;
  const char* data = nullptr;

  explicit StoredMatrix(const Tensor& t) : dtype(t.dtype), data(t.as<const char>()) {}
  StoredMatrix(DType of, const char* at) : dtype(of), data(at) {}
  StoredMatrix at(int64_t element) const { return {dtype, data + element * size_of(dtype)}; }
  const float* floats() const { return reinterpret_cast<const float*>(data); }
  // Lines along k as contiguous floats. Returns the distances of lines and of their elements.
  std::pair<int64_t, int64_t> widen_to(float* to, int64_t rows, int64_t columns, int64_t row,
                                       int64_t column) const {
    const HalfTable& half = half_table();
    return dtype == f16
               ? widen(half, rows, columns, reinterpret_cast<const Half*>(data), row, column, to)
               : widen(half, rows, columns, reinterpret_cast<const BFloat16*>(data), row, column,
                       to);
  }
  // Copies b[k, columns] into adjacent panels; lines of 16 bits are widened in `room`, which has
  // k * columns floats.
  void pack(const GemmTable& table, int64_t k, int64_t columns, int64_t row, int64_t col, float* to,
            float* room) const {
    const float* lines = floats();
    if (dtype != f32) {
      lines = room;
      std::tie(col, row) = widen_to(room, columns, k, col, row);
    }
    table.pack(k, columns, lines, row, col, to, k * table.nr);
  }
};

}  // namespace hg::kernels
