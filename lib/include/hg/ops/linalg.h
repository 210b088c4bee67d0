// SPDX-License-Identifier: Apache-2.0
// Typed builders: linear systems and decompositions of matrices, f32 or f64:
// all but the last two dims count matrices. A matrix that has no answer (singular, not positive
// definite) makes the run fail.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// a x = b. a: [..., n, n], b: [..., n, k]
inline Value solve(const Value& a, const Value& b) { return a.graph()->call("solve", {a, b}); }
// The same where one triangle of a is all that counts; with `unitriangular`, its diagonal is ones.
inline Value solve_triangular(const Value& a, const Value& b, bool upper,
                              bool unitriangular = false) {
  return a.graph()->call("solve_triangular", {a, b},
                         {{"upper", upper}, {"unitriangular", unitriangular}});
}
inline Value det(const Value& x) { return x.graph()->call("det", {x}); }
// The sign of the determinant, and the logarithm of its size.
inline std::vector<Value> slogdet(const Value& x) { return x.graph()->calls("slogdet", {x}); }
// The triangle l with x = l l^T, or u = l^T.
inline Value cholesky(const Value& x, bool upper = false) {
  return x.graph()->call("cholesky", {x}, {{"upper", upper}});
}
// x = q r; with k = min(m, n), q is [..., m, k] and r [..., k, n].
inline std::vector<Value> qr(const Value& x) { return x.graph()->calls("qr", {x}); }
// The same as reflections 1 - tau v v^T: r, and below its diagonal the v, whose first element is 1;
// tau is [..., k].
inline std::vector<Value> geqrf(const Value& x) { return x.graph()->calls("geqrf", {x}); }
// Eigenvalues of a symmetric matrix in ascending order, and its vectors as columns.
inline std::vector<Value> eigh(const Value& x, bool upper = false) {
  return x.graph()->calls("eigh", {x}, {{"upper", upper}});
}
// Eigenvalues [..., n, 2] of any square matrix and its vectors as columns, [..., n, n, 2]: pairs of
// real and imaginary parts, of which x, too, is with `complex`: [..., n, n, 2]. Vectors have length
// 1, and their largest element is real and positive.
inline std::vector<Value> eig(const Value& x, bool complex = false) {
  return x.graph()->calls("eig", {x}, {{"complex", complex}});
}
inline Value eigvals(const Value& x, bool complex = false) {
  return x.graph()->call("eigvals", {x}, {{"complex", complex}});
}
// x = u diag(s) vh, s descending: u [..., m, k], s [..., k], vh [..., k, n].
inline std::vector<Value> svd(const Value& x) { return x.graph()->calls("svd", {x}); }
// p x = l u: l, without its diagonal of ones, and u in one matrix of x's shape; the exchanges of
// rows one after the other, i32 from 1; and the order of rows that they make, i64 [..., m].
inline std::vector<Value> lu(const Value& x) { return x.graph()->calls("lu", {x}); }
// The order of n rows that such exchanges make.
inline Value lu_rows(const Value& pivots, Dim n) {
  return pivots.graph()->call("lu_rows", {pivots}, {{"n", n}});
}
// A symmetric x, of which the lower triangle counts, as l d l^T with rows in another order: d, of
// blocks of one or two rows, and l below them in one matrix of x's shape, and LAPACK's pivots, i32
// [..., n]: of a block of two rows they are negative.
inline std::vector<Value> ldl_factor(const Value& x) { return x.graph()->calls("ldl_factor", {x}); }
// x with a x = b, of the factors of a. b: [..., n, k]
inline Value ldl_solve(const Value& ld, const Value& b, const Value& pivots) {
  return ld.graph()->call("ldl_solve", {ld, b, pivots});
}
// e^x of square matrices.
inline Value matrix_exp(const Value& x) { return x.graph()->call("matrix_exp", {x}); }
// The pseudoinverse [..., n, m]: singular values up to `bound` count as 0; it broadcasts to [...,
// 1]. hermitian: x is symmetric, and only its lower triangle is looked at.
inline Value pinv(const Value& x, const Value& bound, bool hermitian = false) {
  return x.graph()->call("pinv", {x, bound}, {{"hermitian", hermitian}});
}

}  // namespace hg
