// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of general matrices with LAPACK, real and complex.
#include "kernels/linalg/eig.h"
#include "kernels/linalg/lapack.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// The matrix, its eigenvectors, eigenvalues separately and as pairs, two numbers per row,
// workspace.
template <bool vectors>
struct Slot {
  double *a, *v, *re, *im, *rows, *work;
  Complex *values, *vector;
  int size;
  Slot(const Matrices& s, double* slot) {
    const int64_t n = s.n, square = n * n * (s.complex ? 2 : 1);
    a = slot;
    v = a + square;
    re = v + (vectors ? square : 0);
    im = re + n;
    values = reinterpret_cast<Complex*>(im + n);
    vector = values + n;
    rows = reinterpret_cast<double*>(vector + n);
    work = rows + 2 * n;
    size = work_size(s, work - slot);
  }
};

template <bool vectors>
void decompose(const Matrices& s, const Slot<vectors>& d, const int* size, int* info) {
  const int n = static_cast<int>(s.n), one = 1;
  double nothing = 0;
  const char* const wish = vectors ? "V" : "N";
  double* const v = vectors ? d.v : &nothing;
  const int* const of_v = vectors ? &n : &one;
  if (s.complex)
    blas().zgeev_("N", wish, &n, d.a, &n, &d.values->re, &nothing, &one, v, of_v, d.work, size,
                  d.rows, info, 1, 1);
  else
    blas().dgeev_("N", wish, &n, d.a, &n, d.re, d.im, &nothing, &one, v, of_v, d.work, size, info,
                  1, 1);
}

template <bool vectors>
int64_t doubles(const Matrices& s) {
  double sizes[2] = {};
  Slot<vectors> d(s, nullptr);
  const int64_t before = d.work - d.a;
  d.a = d.v = d.re = d.im = d.rows = d.work = sizes;
  d.values = reinterpret_cast<Complex*>(sizes);
  int info = 0;
  decompose(s, d, &kQuery, &info);
  return before + static_cast<int64_t>(sizes[0]) * (s.complex ? 2 : 1);
}

template <bool vectors>
bool run(const RunContext& c, const Matrices& s, int64_t index, double* slot) {
  const Slot<vectors> d(s, slot);
  const int64_t n = s.n, count = n * n * (s.complex ? 2 : 1);
  load_columns(c, s, index, d.a);
  if (!is_finite(d.a, count)) return false;
  const int size = s.complex ? d.size / 2 : d.size;
  int info = 0;
  decompose(s, d, &size, &info);
  if (info != 0) return false;
  for (int64_t i = 0; i < n && !s.complex; ++i) d.values[i] = {d.re[i], d.im[i]};
  save_values(c, s, index, d.values);
  for (int64_t j = 0; j < n && vectors; ++j) {
    const bool is_pair = !s.complex && d.values[j].im > 0;
    const double* const v = d.v + j * n * (s.complex ? 2 : 1);
    for (int64_t i = 0; i < n; ++i)
      d.vector[i] =
          s.complex ? Complex{v[2 * i], v[2 * i + 1]} : Complex{v[i], is_pair ? v[n + i] : 0};
    save_vector(c, s, index, j, d.vector, !s.complex && !is_pair);
    if (is_pair) save_conjugate(c, s, index, ++j);
  }
  return true;
}

constexpr LapackTask kEig = {{kEigLoops, doubles<true>, run<true>}, 1};
constexpr LapackTask kEigvals = {{kEigvalsLoops, doubles<false>, run<false>}, 1};

constexpr KernelDef kKernels[] = {
    lapack_row<kEig>("eig"),
    lapack_row<kEigvals>("eigvals"),
};

}  // namespace

std::span<const KernelDef> lapack_eig() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
