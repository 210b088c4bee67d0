// SPDX-License-Identifier: Apache-2.0
// Kernels over a batch of matrices, one task per matrix, in f64 for every dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/gemm/tiles.h"
#include "kernels/lines.h"

namespace hg::kernels {

// A batch of matrices, one task per matrix.
struct Matrices {
  int64_t count = 1;            // of matrices
  int64_t m = 0, n = 0, k = 0;  // rows and columns of x, columns of b
  bool upper = false, unit = false;
  bool complex = false;  // x has pairs along an additional dim
  int64_t lanes = 1, slot_bytes = 0;
};

inline int64_t columns_of(const Tensor& x) { return x.shape[x.rank() - 1]; }

// The work for each matrix, in a slot of `doubles(s)` doubles.
struct MatrixTask {
  int64_t (*doubles)(const Matrices& s);
  void (*run)(const RunContext& c, const Matrices& s, int64_t index, double* slot);
  // Attributes that the op has.
  bool reads_upper = false, reads_unitriangular = false, reads_complex = false;
};

inline Matrices matrices_of(const PrepareContext& c, const MatrixTask& task) {
  Matrices s;
  if (task.reads_complex) s.complex = c.attrs().flag("complex");
  const int batch = c.in(0).rank() - 2 - s.complex;
  for (int d = 0; d < batch; ++d) s.count *= c.in(0).shape[d];
  s.m = c.in(0).shape[batch];
  s.n = c.in(0).shape[batch + 1];
  if (c.input_count() > 1) s.k = columns_of(c.in(1));
  if (task.reads_upper) s.upper = c.attrs().flag("upper");
  if (task.reads_unitriangular) s.unit = c.attrs().flag("unitriangular");
  s.lanes = tile_lanes(c, s.count);
  return s;
}

template <const MatrixTask& task>
Status prepare_task(PrepareContext& c) {
  Matrices s = matrices_of(c, task);
  s.slot_bytes = task.doubles(s) * 8;
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(s);
  return {};
}
template <const MatrixTask& task>
void run_task(const RunContext& c) noexcept {
  const Matrices& s = c.state<Matrices>();
  for_tiles(c, s.count, s.lanes, s.slot_bytes, [&](int64_t index, float* slot) {
    task.run(c, s, index, reinterpret_cast<double*>(slot));
  });
}

// Matrix or vector `index` of an f32 or f64 tensor whose matrices have `count` elements.
void load(const Tensor& x, int64_t index, int64_t count, double* to);
void save(const Tensor& y, int64_t index, int64_t count, const double* from);
inline void put(const Tensor& y, int64_t at, double value) {
  if (y.dtype == f64)
    y.as<double>()[at] = value;
  else
    y.as<float>()[at] = static_cast<float>(value);
}

// to[columns, rows] = from[rows, columns]^T
void transpose(const double* from, int64_t rows, int64_t columns, double* to);
// Transposes a matrix: to[rows, columns] from from[columns, rows].
void load_transposed(const Tensor& x, int64_t index, int64_t rows, int64_t columns, double* to);
void save_transposed(const Tensor& y, int64_t index, int64_t rows, int64_t columns,
                     const double* from);

// Whether the largest element of a vector v[count] is negative. Among equal magnitudes, the first
// counts.
inline bool points_down(const double* v, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::fabs(v[i]) > std::fabs(largest) * (1 + 1e-10)) largest = v[i];
  return largest < 0;
}
inline void negate(double* v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) v[i] = -v[i];
}

// Multiplies x by a power of two so that squares of its elements fit f64. Returns its logarithm.
inline int rescale(double* x, int64_t count) {
  constexpr int kLargest = 300;
  double most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(x[i]));
  const int shift = most > 0 ? -std::ilogb(most) : 0;
  if (std::abs(shift) < kLargest) return 0;
  for (int64_t i = 0; i < count; ++i) x[i] = std::ldexp(x[i], shift);
  return shift;
}
inline void scale_back(double* x, int64_t count, int shift) {
  for (int64_t i = 0; i < count && shift != 0; ++i) x[i] = std::ldexp(x[i], -shift);
}

}  // namespace hg::kernels
