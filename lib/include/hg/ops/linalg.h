// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/linalg.cpp and eig.cpp: linear systems and matrix decompositions in f32 or
// f64. All dims but the last two are batch dims. The run fails for a matrix without a solution
// (singular, not positive definite).
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// Solves a x = b. a: [..., n, n], b: [..., n, k].
inline Value solve(const Value& a, const Value& b) { return a.graph()->call("solve", {a, b}); }
// Solves a x = b using one triangle of a. If unitriangular, its diagonal is taken to be ones.
inline Value solve_triangular(const Value& a, const Value& b, bool upper,
                              bool unitriangular = false) {
  return a.graph()->call("solve_triangular", {a, b},
                         {{"upper", upper}, {"unitriangular", unitriangular}});
}
inline Value det(const Value& x) { return x.graph()->call("det", {x}); }
// Returns the sign of the determinant and the logarithm of its absolute value.
inline std::vector<Value> slogdet(const Value& x) { return x.graph()->calls("slogdet", {x}); }
// Returns the lower triangle l with x = l l^T, or the upper triangle l^T.
inline Value cholesky(const Value& x, bool upper = false) {
  return x.graph()->call("cholesky", {x}, {{"upper", upper}});
}
// x = q r. With k = min(m, n): q [..., m, k], r [..., k, n].
inline std::vector<Value> qr(const Value& x) { return x.graph()->calls("qr", {x}); }
// The same decomposition as Householder reflections 1 - tau v v^T. Returns r with the v below its
// diagonal (v starts with an implicit 1), and tau [..., k].
inline std::vector<Value> geqrf(const Value& x) { return x.graph()->calls("geqrf", {x}); }
// Returns the eigenvalues of a symmetric matrix in ascending order, and the eigenvectors as
// columns. Uses the lower triangle, or the upper one.
inline std::vector<Value> eigh(const Value& x, bool upper = false) {
  return x.graph()->calls("eigh", {x}, {{"upper", upper}});
}
// Returns the eigenvalues [..., n, 2] of a square matrix and the eigenvectors as columns [..., n,
// n, 2], both as real and imaginary parts. If `complex`, x is [..., n, n, 2] as well. Eigenvectors
// have length 1, and their largest element is real and positive.
inline std::vector<Value> eig(const Value& x, bool complex = false) {
  return x.graph()->calls("eig", {x}, {{"complex", complex}});
}
inline Value eigvals(const Value& x, bool complex = false) {
  return x.graph()->call("eigvals", {x}, {{"complex", complex}});
}
// x = u diag(s) vh, s in descending order: u [..., m, k], s [..., k], vh [..., k, n].
inline std::vector<Value> svd(const Value& x) { return x.graph()->calls("svd", {x}); }
// p x = l u. Returns l (without its unit diagonal) and u in one matrix of x's shape, the successive
// row exchanges (i32, from 1), and the resulting order of the rows (i64 [..., m]).
inline std::vector<Value> lu(const Value& x) { return x.graph()->calls("lu", {x}); }
// Returns the order of n rows that these exchanges produce.
inline Value lu_rows(const Value& pivots, Dim n) {
  return pivots.graph()->call("lu_rows", {pivots}, {{"n", n}});
}
// x = l d l^T with reordered rows, for symmetric x (lower triangle). Returns d (diagonal blocks of
// one or two rows) with l below it in one matrix of x's shape, and LAPACK's pivots (i32 [..., n]),
// negative in blocks of two rows.
inline std::vector<Value> ldl_factor(const Value& x) { return x.graph()->calls("ldl_factor", {x}); }
// Solves a x = b from the factors of a. b: [..., n, k].
inline Value ldl_solve(const Value& ld, const Value& b, const Value& pivots) {
  return ld.graph()->call("ldl_solve", {ld, b, pivots});
}
// e^x of a square matrix.
inline Value matrix_exp(const Value& x) { return x.graph()->call("matrix_exp", {x}); }
// Pseudoinverse [..., n, m]. Singular values up to `bound` count as 0; bound broadcasts to [...,
// 1]. hermitian: x is symmetric, and only its lower triangle is read.
inline Value pinv(const Value& x, const Value& bound, bool hermitian = false) {
  return x.graph()->call("pinv", {x, bound}, {{"hermitian", hermitian}});
}

}  // namespace hg
