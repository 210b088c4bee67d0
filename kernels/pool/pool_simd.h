// SPDX-License-Identifier: Apache-2.0
// Maxima, their positions, and sums of windows in f32, one row of windows at a time, for every
// instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

// One row of outputs: the maximum, or the sum, of `kernel` neighbors of rows of x that are first
// folded into one. Elements outside x are ignored.
struct WindowRow {
  const float* x = nullptr;  // the first row that the windows read
  int64_t rows = 0, row_step = 0;
  int64_t columns = 0;                          // of x, at most kMaxColumns with the padding
  int64_t padding = 0, kernel = 1, stride = 1;  // stride: 1, 2 or 4
  int64_t outputs = 0;
  float* y = nullptr;
  // Sums are divided by `height` times the width of each output.
  float height = 1;
  const float* widths = nullptr;
};

struct PoolTable {
  static constexpr int64_t kMaxColumns = 1024;
  static constexpr int kMaxRows = 4;
  // Computes `count` rows, which differ only in x, rows, y and height. Computes several at once,
  // because data just written to the first-level cache cannot be reloaded immediately at other
  // offsets.
  void (*max_rows)(const WindowRow* rows, int count) = nullptr;
  void (*sum_rows)(const WindowRow* rows, int count) = nullptr;
  // 2 x 2 windows without gaps: row r of `outputs` is computed from rows 2r and 2r + 1 of x, which
  // are twice as long, at most kMaxColumns. Maxima, and means.
  void (*max_pairs)(const float* x, int64_t rows, int64_t outputs, float* y) = nullptr;
  void (*mean_pairs)(const float* x, int64_t rows, int64_t outputs, float* y) = nullptr;
  // For strides of 1 and 2: the position of the maximum of each window of a row, the first of equal
  // ones, or of its last NaN, in a plane in which row.x is at `first`. May write kMoreWritten
  // numbers beyond the outputs.
  static constexpr int64_t kMoreWritten = 64;
  void (*max_places)(const WindowRow& row, int32_t first, int32_t* places) = nullptr;
};

const PoolTable& pool_table();

}  // namespace hg::kernels
