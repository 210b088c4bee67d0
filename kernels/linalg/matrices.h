// SPDX-License-Identifier: Apache-2.0
// Kernels that take a batch of matrices, one task each, in f64 whatever the dtype.
#pragma once

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/lines.h"

namespace hg::kernels {

// Matrices of which every one is a task.
struct Matrices {
  int64_t count = 1;            // of matrices
  int64_t m = 0, n = 0, k = 0;  // rows and columns of x, columns of b
  bool upper = false, unit = false;
  int64_t lanes = 1, slot_bytes = 0;
};

inline int64_t rows_of(const Tensor& x) { return x.shape[x.rank() - 2]; }
inline int64_t columns_of(const Tensor& x) { return x.shape[x.rank() - 1]; }

// size(batch): how many doubles a task needs.
template <class Size>
Status prepare_matrices(PrepareContext& c, const Size& size, bool upper = false,
                        bool unit = false) {
  Matrices s;
  for (int d = 0; d + 2 < c.in(0).rank(); ++d) s.count *= c.in(0).shape[d];
  s.m = rows_of(c.in(0));
  s.n = columns_of(c.in(0));
  if (c.input_count() > 1) s.k = columns_of(c.in(1));
  s.lanes = tile_lanes(c, s.count);
  s.slot_bytes = size(s) * 8;
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  if (upper) s.upper = c.attrs().flag("upper");
  if (unit) s.unit = c.attrs().flag("unitriangular");
  c.make_state(s);
  return {};
}

// Calls body(state, index, slot, zero of the dtype) for every matrix.
template <class Body>
void each_matrix(const RunContext& c, const Body& body) {
  const Matrices& s = c.state<Matrices>();
  for_tiles(c, s.count, s.lanes, s.slot_bytes, [&](int64_t index, float* slot) {
    double* memory = reinterpret_cast<double*>(slot);
    if (c.in(0).dtype == f64)
      body(s, index, memory, double());
    else
      body(s, index, memory, float());
  });
}

template <class T>
void load(const Tensor& x, int64_t index, int64_t count, double* to) {
  std::copy_n(x.as<const T>() + index * count, count, to);
}
template <class T>
void save(const Tensor& y, int64_t index, int64_t count, const double* from) {
  T* to = y.as<T>() + index * count;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

}  // namespace hg::kernels
