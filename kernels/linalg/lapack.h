// SPDX-License-Identifier: Apache-2.0
// Shared by kernels that call LAPACK, in f64. LAPACK's matrices are column-major, so a matrix
// appears transposed. Matrices that are not finite, and those for which LAPACK fails, are passed to
// the library's own loops, so that results are the same. Small matrices also use the loops, because
// they are faster.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gemm/openblas.h"
#include "kernels/linalg/loops.h"

namespace hg::kernels {

inline const OpenBlas& blas() { return *openblas(); }

constexpr int kQuery = -1;  // as a workspace size: queries it

// Sizes of one matrix, in LAPACK's integers.
struct Order {
  int m, n, k, least;  // rows and columns of x, columns of b, the smaller of m and n
  explicit Order(const Matrices& s)
      : m(static_cast<int>(s.m)),
        n(static_cast<int>(s.n)),
        k(static_cast<int>(s.k)),
        least(std::min(m, n)) {}
};

inline int64_t doubles_of_ints(int64_t count) { return (count + 1) / 2; }
inline int* ints(double* memory) { return reinterpret_cast<int*>(memory); }

// Doubles that are left in the slot after `used`.
inline int work_size(const Matrices& s, int64_t used) {
  return static_cast<int>(
      std::min<int64_t>(s.slot_bytes / 8 - used, std::numeric_limits<int>::max()));
}

inline bool is_finite(const double* x, int64_t count) {
  double sums[4] = {};  // 0, or NaN
  for (int64_t i = 0; i < count; ++i) sums[i % 4] += x[i] * 0;
  return sums[0] + sums[1] + sums[2] + sums[3] == 0;
}

struct LapackTask {
  const MatrixTask& loops;
  int64_t least;  // rows and columns from which LAPACK is faster; AVX2, OpenBLAS 0.3.21
  int64_t (*doubles)(const Matrices& s);
  // For one matrix. Returns false if the loops must compute it.
  bool (*run)(const RunContext& c, const Matrices& s, int64_t index, double* slot);
};

template <const LapackTask& task>
bool lapack_accepts(const PrepareContext& c) {
  const Matrices s = matrices_of(c, task.loops);
  return s.count > 0 && s.m * s.n >= task.least * task.least && (c.input_count() == 1 || s.k > 0) &&
         fits_openblas(std::max({s.m, s.n, s.k, std::min(s.m, s.n) * std::min(s.m, s.n)})) &&
         openblas() != nullptr;
}
template <const LapackTask& task>
Status prepare_lapack(PrepareContext& c) {
  Matrices s = matrices_of(c, task.loops);
  s.slot_bytes = 8 * std::max(task.doubles(s), task.loops.doubles(s));
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(s);
  return {};
}
template <const LapackTask& task>
void run_lapack(const RunContext& c) noexcept {
  const Matrices& s = c.state<Matrices>();
  for_tiles(c, s.count, s.lanes, s.slot_bytes, [&](int64_t index, float* slot) {
    double* const memory = reinterpret_cast<double*>(slot);
    const OneThread one_thread;
    if (!task.run(c, s, index, memory)) task.loops.run(c, s, index, memory);
  });
}

template <const LapackTask& task>
constexpr KernelDef lapack_row(std::string_view op) {
  return {.op = op,
          .name = "lapack",
          .accepts = lapack_accepts<task>,
          .prepare = prepare_lapack<task>,
          .run = run_lapack<task>};
}

}  // namespace hg::kernels
