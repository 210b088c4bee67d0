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
struct MatrixOrder {
  int m, n, k, least;  // rows and columns of x, columns of b, the smaller of m and n
  explicit MatrixOrder(const Matrices& s)
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

struct LapackTask : FastTask {
  int64_t least;  // rows and columns from which LAPACK is faster; OpenBLAS 0.3.21
};

template <const LapackTask& task>
bool lapack_accepts(const PrepareContext& c) {
  const Matrices s = matrices_of(c, task.loops);
  return s.count > 0 && s.m * s.n >= task.least * task.least && (c.input_count() == 1 || s.k > 0) &&
         fits_openblas(std::max({s.m, s.n, s.k, std::min(s.m, s.n) * std::min(s.m, s.n)})) &&
         openblas() != nullptr;
}
template <const LapackTask& task>
constexpr KernelDef lapack_row(std::string_view op) {
  return {.op = op,
          .name = "lapack",
          .accepts = lapack_accepts<task>,
          .prepare = prepare_fast<task>,
          .run = run_fast<task, OneThread>};
}

}  // namespace hg::kernels
