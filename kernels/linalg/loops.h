// SPDX-License-Identifier: Apache-2.0
// The library's own loop for one matrix of each op. The loops are kernels, and the fallback for
// matrices that a LAPACK kernel does not support.
#pragma once

#include "kernels/linalg/matrices.h"

namespace hg::kernels {

extern const MatrixTask kSolveLoops, kSolveTriangularLoops, kDetLoops, kSlogdetLoops,
    kCholeskyLoops, kQrLoops, kGeqrfLoops, kLuLoops, kExpLoops;                // linalg.cpp
extern const MatrixTask kEighLoops, kSvdLoops, kEigvalshLoops, kSvdvalsLoops;  // jacobi.cpp
extern const MatrixTask kEigLoops, kEigvalsLoops;                              // eig.cpp
extern const MatrixTask kLdlFactorLoops, kLdlSolveLoops;                       // ldl.cpp

// A faster way to compute one matrix, with the loops for matrices that it does not support.
struct FastTask {
  const MatrixTask& loops;
  int64_t (*doubles)(const Matrices& s);
  // For one matrix. Returns false if the loops must compute it.
  bool (*run)(const RunContext& c, const Matrices& s, int64_t index, double* slot);
};
template <const auto& task>
Status prepare_fast(PrepareContext& c) {
  Matrices s = matrices_of(c, task.loops);
  s.slot_bytes = 8 * std::max(task.doubles(s), task.loops.doubles(s));
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(s);
  return {};
}
struct Nothing {};
// An object of type Around exists while a matrix is computed.
template <const auto& task, class Around = Nothing>
void run_fast(const RunContext& c) noexcept {
  const Matrices& s = c.state<Matrices>();
  for_tiles(c, s.count, s.lanes, s.slot_bytes, [&](int64_t index, float* slot) {
    double* const memory = reinterpret_cast<double*>(slot);
    [[maybe_unused]] const Around around;
    if (!task.run(c, s, index, memory)) task.loops.run(c, s, index, memory);
  });
}

inline bool is_finite(const double* x, int64_t count) {
  double sums[4] = {};  // 0, or NaN
  for (int64_t i = 0; i < count; ++i) sums[i % 4] += x[i] * 0;
  return sums[0] + sums[1] + sums[2] + sums[3] == 0;
}
// Whether pivots of a[n, n], whose rows are `stride` apart, may differ from 0 only because of
// rounding. The loops then decide whether the matrix is singular, in the same way on every machine.
inline bool is_doubtful(const double* a, int64_t n, int64_t stride) {
  double least = HUGE_VAL, most = 0;
  for (int64_t i = 0; i < n; ++i) {
    least = std::min(least, std::fabs(a[i * stride + i]));
    most = std::max(most, std::fabs(a[i * stride + i]));
  }
  return least <= static_cast<double>(n) * 0x1p-52 * most;
}

// Whether a factorization of n rows could produce these pivots.
bool are_ldl_pivots(const int32_t* pivots, int64_t n);

// y = a b of n rows and columns, rows being `stride` apart, with scratch memory of the same size.
using MatrixProduct = void (*)(const double* a, const double* b, int64_t n, int64_t stride,
                               double* y, double* work);

// e^x by Taylor's polynomial of x / 2^s, squared s times (Higham, Functions of Matrices, 10.3), in
// memory of matrix_exp_doubles. Elements beyond the columns of a row are 0.
int64_t matrix_exp_doubles(int64_t n, int64_t stride);
void matrix_exp(const RunContext& c, const Matrices& s, int64_t index, int64_t stride, double* x,
                MatrixProduct multiply);

}  // namespace hg::kernels
