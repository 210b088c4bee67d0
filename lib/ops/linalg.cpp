// SPDX-License-Identifier: Apache-2.0
// Decompositions and systems of linear equations, for batches of matrices in the last two dims:
// solve, solve_triangular, det, slogdet, cholesky, qr, geqrf, eigh, svd, lu, ldl, matrix_exp. All
// for f32 and f64; kernels compute in f64. Gradients follow from the differentials of the
// decompositions (Giles 2008).
#include "hg/op.h"
#include "lib/ops/matrices.h"
#include "lib/ops/row.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using term::identity, term::product, term::solved, term::transpose_last, term::widen, term::with;

// ---- formulas ----

Value solved_triangular(const Value& a, const Value& b, bool upper, bool unit = false) {
  return a.graph()->call("solve_triangular", {a, b}, {{"upper", upper}, {"unitriangular", unit}});
}
Value triangle(const Value& x, bool upper, int diagonal = 0) {
  return x.graph()->call(upper ? "triu" : "tril", {x}, {{"diagonal", diagonal}});
}
// x - x^T
Value skew(const Value& x) { return x - transpose_last(x); }
// e[i, j] = v[j] - v[i], 1 on the diagonal
Value gaps(const Value& v) { return term::differences(v) + identity(v, v.dim(-1)); }

// ---- shape rules ----

Shape batch_of(const TensorType& x) { return Shape(x.shape.begin(), x.shape.end() - 2); }

// a: [..., n, n], b: [..., n, k]
Status solve_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, true));
  HG_TRY(check_matrix(c, 1, false));
  const TensorType &a = c.in(0), &b = c.in(1);
  bool fits = a.dtype == b.dtype && a.rank() == b.rank();
  for (size_t d = 0; fits && d + 1 < a.shape.size(); ++d)
    fits = c.require_equal(a.shape[d], b.shape[d]);
  if (!fits) return c.fail("a is ", a, ", b is ", b, ": they do not fit each other");
  c.out(0) = b;
  return {};
}
Status det_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, true));
  for (int i = 0; i < c.output_count(); ++i) c.out(i) = {c.in(0).dtype, batch_of(c.in(0))};
  return {};
}
Status cholesky_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, true));
  c.out(0) = c.in(0);
  return {};
}
template <bool kVectors>
Status eigh_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, true));
  const TensorType& x = c.in(0);
  c.out(0) = {x.dtype, with(batch_of(x), {x.shape.back()})};
  if (kVectors) c.out(1) = x;
  return {};
}
Status qr_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, false));
  const TensorType& x = c.in(0);
  const Dim m = x.shape[x.shape.size() - 2], n = x.shape.back(), k = min(m, n);
  c.out(0) = {x.dtype, with(batch_of(x), {m, k})};
  c.out(1) = {x.dtype, with(batch_of(x), {k, n})};
  return {};
}
Status geqrf_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, false));
  const TensorType& x = c.in(0);
  c.out(0) = x;
  c.out(1) = {x.dtype, with(batch_of(x), {min(x.shape[x.shape.size() - 2], x.shape.back())})};
  return {};
}
template <bool kVectors>
Status svd_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, false));
  const TensorType& x = c.in(0);
  const Dim m = x.shape[x.shape.size() - 2], n = x.shape.back(), k = min(m, n);
  c.out(kVectors ? 1 : 0) = {x.dtype, with(batch_of(x), {k})};
  if (!kVectors) return {};
  c.out(0) = {x.dtype, with(batch_of(x), {m, k})};
  c.out(2) = {x.dtype, with(batch_of(x), {k, n})};
  return {};
}

// x: [..., m, n]; row i of the product of the factors is row rows[i] of x.
Status lu_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, false));
  const TensorType& x = c.in(0);
  const Dim m = x.shape[x.shape.size() - 2], n = x.shape.back();
  c.out(0) = x;
  c.out(1) = {i32, with(batch_of(x), {min(m, n)})};
  c.out(2) = {i64, with(batch_of(x), {m})};
  return {};
}
Status ldl_factor_infer(InferContext& c) {
  HG_TRY(check_matrix(c, 0, true));
  const TensorType& x = c.in(0);
  c.out(0) = x;
  c.out(1) = {i32, with(batch_of(x), {x.shape.back()})};
  return {};
}
Status ldl_solve_infer(InferContext& c) {
  HG_TRY(solve_infer(c));
  const TensorType &ld = c.in(0), &pivots = c.in(2);
  bool fits = pivots.dtype == i32 && pivots.rank() + 1 == ld.rank();
  for (size_t d = 0; fits && d + 1 < ld.shape.size(); ++d)
    fits = c.require_equal(ld.shape[d], pivots.shape[d]);
  if (!fits)
    return c.fail("ld is ", ld, ", the pivots are ", pivots, ": they do not fit each other");
  return {};
}
Status lu_rows_infer(InferContext& c) {
  const TensorType& pivots = c.in(0);
  if (pivots.dtype != i32 || pivots.rank() < 1)
    return c.fail("pivots are ", pivots, ", but must be i32[..., k]");
  c.out(0) = {i64, pivots.shape};
  c.out(0).shape.back() = c.attrs().integer("n");
  return {};
}

// ---- gradients ----

// a x = b: db = a^-T dx, da = -db x^T
Status solve_grad(GradContext& c) {
  const Value db = solved(transpose_last(c.in(0)), c.dout(0));
  if (c.needs(1)) c.set_grad(1, db);
  if (c.needs(0)) c.set_grad(0, -product(db, transpose_last(c.out(0))));
  return {};
}
Status solve_triangular_grad(GradContext& c) {
  const bool upper = c.attrs().flag("upper"), unit = c.attrs().flag("unitriangular");
  const Value db = solved_triangular(transpose_last(c.in(0)), c.dout(0), !upper, unit);
  if (c.needs(1)) c.set_grad(1, db);
  if (c.needs(0))
    c.set_grad(0, triangle(-product(db, transpose_last(c.out(0))), upper,
                           !unit   ? 0
                           : upper ? 1
                                   : -1));
  return {};
}
// a^-T
Value inverse_transposed(const Value& a) {
  Graph& g = *a.graph();
  const Value one = term::expand(identity(a, a.dim(-1)), a.shape());
  return g.call("solve", {transpose_last(a), one});
}
Status det_grad(GradContext& c) {
  c.set_grad(0, widen(widen(c.dout(0), 0), 0) * c.graph().call("det_grad", {c.in(0)}));
  return {};
}
Status slogdet_grad(GradContext& c) {
  c.set_grad(0, widen(widen(c.dout(1), 0), 0) * inverse_transposed(c.in(0)));
  return {};
}
// a = l l^T: da = l^-T phi(l^T dl) l^-1. phi takes the lower triangle and halves the diagonal. Both
// triangles receive the same gradient.
Status cholesky_grad(GradContext& c) {
  const bool upper = c.attrs().flag("upper");
  const Value l = upper ? transpose_last(c.out(0)) : c.out(0);
  const Value dl = upper ? transpose_last(c.dout(0)) : c.dout(0);
  const Value inner = product(transpose_last(l), dl);
  const Value phi = (triangle(inner, false) + triangle(inner, false, -1)) * 0.5;
  const Value half = solved_triangular(transpose_last(l), phi, true);
  const Value da = transpose_last(solved_triangular(transpose_last(l), transpose_last(half), true));
  c.set_grad(0, (da + transpose_last(da)) * 0.5);
  return {};
}
// x = q r with square r: dx = (dq + q sym(triu(dr r^T - q^T dq))) r^-T. Columns y beyond it are q v
// with v = q^T y: dy = q dv, and dq gains y dv^T.
Status qr_grad(GradContext& c) {
  Value q = c.out(0), r = c.out(1), dq = c.dout(0), dr = c.dout(1), beyond;
  const Dim m = r.dim(-2), n = r.dim(-1);
  if (!(m == n)) {
    if (!m.is_constant() || !n.is_constant())
      return unsupported("qr has no gradient for matrices of symbolic sizes that may differ, of ",
                         "shape ", c.in(0).shape());
    const auto cut = [&](const Value& x, const Dim& start, const Dim& end) {
      return c.graph().call("slice", {x}, {{"dim", r.rank() - 1}, {"start", start}, {"end", end}});
    };
    const Value dv = cut(dr, m, n);
    dq = dq + product(cut(c.in(0), m, n), transpose_last(dv));
    beyond = product(q, dv);
    r = cut(r, 0, m);
    dr = cut(dr, 0, m);
  }
  const Value inner = product(dr, transpose_last(r)) - product(transpose_last(q), dq);
  const Value sides = triangle(inner, true, 1);
  const Value middle = triangle(triangle(inner, true), false);
  const Value b = dq + product(q, sides + transpose_last(sides) + middle);
  Value dx = transpose_last(solved_triangular(r, transpose_last(b), true));
  if (beyond) dx = c.graph().call("concat", {dx, beyond}, {{"dim", dx.rank() - 1}});
  c.set_grad(0, dx);
  return {};
}
// x = v diag(w) v^T: dx = v (diag(dw) + (v^T dv) / (w_j - w_i)) v^T; both triangles
// get the same.
Status eigh_grad(GradContext& c) {
  const Value w = c.out(0), v = c.out(1);
  const Value one = identity(w, w.dim(-1));
  Value middle = one * widen(c.dout(0), 1);
  if (c.has_dout(1))
    middle = middle + product(transpose_last(v), c.dout(1)) / gaps(w) * (1.0 - one);
  const Value dx = product(product(v, middle), transpose_last(v));
  c.set_grad(0, (dx + transpose_last(dx)) * 0.5);
  return {};
}
// x = u diag(s) vh, with e the gaps of s^2: dx = u [skew(u^T du) / e s + s skew(vh dvh^T) / e +
// diag(ds)] vh, plus the parts of du and dvh outside the spans of u and vh.
Status svd_grad(GradContext& c) {
  const Value u = c.out(0), s = c.out(1), vh = c.out(2);
  const Value one = identity(s, s.dim(-1)), row = widen(s, 1), column = widen(s, 0);
  Value middle = one * widen(c.dout(1), 1);
  const Value e = c.has_dout(0) || c.has_dout(2) ? gaps(s * s) : Value();
  if (c.has_dout(0)) middle = middle + skew(product(transpose_last(u), c.dout(0))) / e * row;
  if (c.has_dout(2)) middle = middle + column * (skew(product(vh, transpose_last(c.dout(2)))) / e);
  Value dx = product(product(u, middle), vh);
  if (c.has_dout(0) && !(u.dim(-1) == u.dim(-2))) {
    const Value du = c.dout(0) / row;
    dx = dx + product(du - product(u, product(transpose_last(u), du)), vh);
  }
  if (c.has_dout(2) && !(vh.dim(-1) == vh.dim(-2))) {
    const Value dvh = c.dout(2) / column;
    dx = dx + product(u, dvh - product(product(dvh, transpose_last(vh)), vh));
  }
  c.set_grad(0, dx);
  return {};
}

// y = v diag(1 / s) u^T, where singular values up to bound[..., 1] count as 0 and stay 0. For a
// hermitian x the lower triangle represents both. Its gradient is that of the x that is given.
Status pinv_expand(ExpandContext& c) {
  Value x = c.in(0);
  if ((x.dtype() != f32 && x.dtype() != f64) || x.rank() < 2)
    return invalid_argument("pinv takes f32 or f64 matrices, not ", x.dtype(), x.shape());
  const Value bound = c.in(1);
  if (bound.rank() >= x.rank() || (bound.rank() > 0 && !(bound.dim(-1) == Dim(1))))
    return invalid_argument("pinv: bound is ", bound.shape(),
                            ", but must be one for each matrix of ", x.shape(),
                            ", with a last dim of 1");
  if (c.attrs().flag("hermitian") && !guard_equal(c, x.dim(-1), x.dim(-2)))
    return invalid_argument("pinv of hermitian matrices: they must be square, x is ", x.shape());
  if (c.attrs().flag("hermitian")) x = triangle(x, false) + transpose_last(triangle(x, false, -1));
  const std::vector<Value> parts = c.graph().calls("svd", {x});
  const Value s = parts[1], zero = c.graph().call("le", {s, bound});
  const Value one = term::full_like(s, 1);
  const Value inverse = c.graph().call(
      "where", {zero, term::full_like(s, 0), one / c.graph().call("where", {zero, one, s})});
  c.set_out(0, product(transpose_last(parts[2]) * widen(inverse, 1), transpose_last(parts[0])));
  return {};
}
// At constant rank (Golub, Pereyra 1973), with g = dy^T:
// dx = -(y g y)^T + (1 - x y) g y y^T + y^T y g (1 - y x)
Status pinv_grad(GradContext& c) {
  const Value x = c.in(0), y = c.out(0), yt = transpose_last(y), g = transpose_last(c.dout(0));
  const Value gy = product(g, y), yg = product(y, g);
  const Value left = product(gy, yt), right = product(yt, yg);
  c.set_grad(0, -transpose_last(product(y, gy)) + left - product(product(x, y), left) + right -
                    product(product(right, y), x));
  return {};
}

// p x = l u. For square l and u: p dx = l^-T (tril(l^T dl, -1) + triu(du u^T)) u^-T. Columns beyond
// them are l u', which adds l^-T du' and subtracts du' u'^T from l^T dl. Rows below are l' u, which
// adds dl' u^-T and subtracts l'^T dl' from du u^T.
Status lu_grad(GradContext& c) {
  const Value lu = c.out(0), d = c.dout(0);
  const Dim m = lu.dim(-2), n = lu.dim(-1);
  const bool wide = m.is_constant() && n.is_constant() && m.constant() < n.constant();
  const bool tall = m.is_constant() && n.is_constant() && m.constant() > n.constant();
  if (!(m == n) && !wide && !tall)
    return unsupported("lu has no gradient for matrices of symbolic sizes that differ, of shape ",
                       lu.shape());
  Graph& g = c.graph();
  const Dim k = wide ? m : n;
  const int rows = lu.rank() - 2, columns = lu.rank() - 1;
  const auto cut = [&](const Value& x, int dim, const Dim& start, const Dim& end) {
    return g.call("slice", {x}, {{"dim", dim}, {"start", start}, {"end", end}});
  };
  const auto square = [&](const Value& x) {
    return wide ? cut(x, columns, 0, k) : tall ? cut(x, rows, 0, k) : x;
  };
  const Value one = identity(lu, k);
  const Value l = triangle(square(lu), false, -1) + one, u = triangle(square(lu), true);
  const auto over_l = [&](const Value& x) {  // l^-T x
    return solved_triangular(transpose_last(l), x, true, true);
  };
  const auto over_u = [&](const Value& x) {  // x u^-T
    return transpose_last(solved_triangular(u, transpose_last(x), true));
  };
  Value of_l = product(transpose_last(l), triangle(square(d), false, -1));
  Value of_u = product(triangle(square(d), true), transpose_last(u));
  Value more;
  if (wide) {
    const Value du = cut(d, columns, k, n);
    of_l = of_l - product(du, transpose_last(cut(lu, columns, k, n)));
    more = over_l(du);
  }
  if (tall) {
    const Value dl = cut(d, rows, k, m);
    of_u = of_u - product(transpose_last(cut(lu, rows, k, m)), dl);
    more = over_u(dl);
  }
  Value dx = over_u(over_l(triangle(of_l, false, -1) + triangle(of_u, true)));
  if (more) dx = g.call("concat", {dx, more}, {{"dim", wide ? columns : rows}});
  const Value all = g.call("arange", {}, {{"end", m}});
  const Value p = cast(eq(widen(c.out(2), 0), all), lu.dtype());
  c.set_grad(0, product(transpose_last(p), dx));
  return {};
}
// The adjoint of the derivative of exp at x in the direction dy equals the derivative of exp at x^T
// in the direction dy, which is the upper right block of exp([x^T dy; 0 x^T]) (Mathias 1996).
Status matrix_exp_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value x = transpose_last(c.in(0)), dy = c.dout(0);
  const Dim n = x.dim(-1), twice = n + n;
  const int rows = x.rank() - 2, columns = x.rank() - 1;
  const auto beside = [&](const Value& a, const Value& b, int dim) {
    return g.call("concat", {a, b}, {{"dim", dim}});
  };
  const Value both =
      beside(beside(x, dy, columns), beside(term::full_like(x, 0), x, columns), rows);
  const Value y = g.call("matrix_exp", {both});
  const Value upper = g.call("slice", {y}, {{"dim", rows}, {"start", 0}, {"end", n}});
  c.set_grad(0, g.call("slice", {upper}, {{"dim", columns}, {"start", n}, {"end", twice}}));
  return {};
}

// Linear systems and matrix decompositions in f32 or f64. All dims but the last two are batch dims.
// The run fails for a matrix without a solution (singular, not positive definite).
constexpr OpDef kOps[] = {
    // Solves a x = b. a: [..., n, n], b: [..., n, k].
    row("solve(a, b) -> x", solve_infer, solve_grad),
    // Solves a x = b using one triangle of a. If unitriangular, its diagonal is taken to be ones.
    row("solve_triangular(a, b, upper: bool, unitriangular: bool = false) -> x", solve_infer,
        solve_triangular_grad),
    // Determinant.
    row("det(x) -> y", det_infer, det_grad),
    // Sign of the determinant, and logarithm of its absolute value.
    row("slogdet(x) -> sign, logabsdet", det_infer, slogdet_grad),
    // The lower triangle l with x = l l^T, or the upper triangle l^T. The other triangle of x is
    // ignored.
    row("cholesky(x, upper: bool = false) -> y", cholesky_infer, cholesky_grad),
    // x = q r. With k = min(m, n): q [..., m, k], r [..., k, n].
    row("qr(x) -> q, r", qr_infer, qr_grad),
    // The decomposition of qr as Householder reflections 1 - tau v v^T, whose product is q. Returns
    // r with the v below its diagonal (v starts with an implicit 1), and tau [..., k].
    row("geqrf(x) -> a, tau", geqrf_infer),
    // Eigenvalues of a symmetric matrix in ascending order, and the eigenvectors as columns. Uses
    // the lower triangle, or the upper one. The largest element of each vector is positive.
    row("eigh(x, upper: bool = false) -> values, vectors", eigh_infer<true>, eigh_grad),
    // x = u diag(s) vh, s in descending order: u [..., m, k], s [..., k], vh [..., k, n]. The
    // largest element of each column of u is positive.
    row("svd(x) -> u, s, vh", svd_infer<true>, svd_grad),
    // The values alone.
    row<kInternal>("eigvalsh(x, upper: bool = false) -> values", eigh_infer<false>),
    row<kInternal>("svdvals(x) -> s", svd_infer<false>),
    // p x = l u. Returns l (without its unit diagonal) and u in one matrix of x's shape, the
    // successive row exchanges (i32, from 1), and the resulting order of the rows (i64 [..., m]).
    row("lu(x) -> lu, pivots, rows", lu_infer, lu_grad),
    // The order of n rows after the row exchanges of lu, in their order.
    row("lu_rows(pivots, n: int) -> rows", lu_rows_infer, nullptr),
    // x = l d l^T with reordered rows, for symmetric x (lower triangle). Returns d (diagonal blocks
    // of one or two rows) with l below it in one matrix of x's shape, and LAPACK's pivots (i32
    // [..., n]), which count from 1 and are negative in blocks of two rows.
    row("ldl_factor(x) -> ld, pivots", ldl_factor_infer),
    // Solves a x = b from the factors of a. b: [..., n, k].
    row("ldl_solve(ld, b, pivots) -> x", ldl_solve_infer),
    // e^x of a square matrix.
    row("matrix_exp(x) -> y", cholesky_infer, matrix_exp_grad),
    // Pseudoinverse [..., n, m]. Singular values up to `bound` count as 0; bound broadcasts to
    // [..., 1]. hermitian: x is symmetric, and only its lower triangle is read.
    {.signature = "pinv(x, bound, hermitian: bool = false) -> y",
     .grad = pinv_grad,
     .expand = pinv_expand},
};

}  // namespace

std::span<const OpDef> linalg() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
