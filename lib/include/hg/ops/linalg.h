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
// x = u diag(s) vh, s descending: u [..., m, k], s [..., k], vh [..., k, n].
inline std::vector<Value> svd(const Value& x) { return x.graph()->calls("svd", {x}); }

}  // namespace hg
