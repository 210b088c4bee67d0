// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of general matrices: real ones or, with `complex`, pairs along an
// additional last dim. Results are complex, as pairs of reals.
#include "hg/op.h"
#include "lib/ops/matrices.h"
#include "lib/ops/row.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using term::transpose_last, term::widen;

// A complex value as its real and imaginary parts.
struct Complex {
  Value re, im;
};

Complex parts_of(const Value& pairs) {
  const auto part = [&](int k) {
    Shape shape = pairs.shape();
    shape.pop_back();
    return term::reshape(term::slice(pairs, pairs.rank() - 1, k, k + 1), std::move(shape));
  };
  return {part(0), part(1)};
}
Value pairs_of(const Complex& x) {
  return x.re.graph()->call("concat", {widen(x.re, 0), widen(x.im, 0)}, {{"dim", x.re.rank()}});
}
Complex adjoint(const Complex& x) { return {transpose_last(x.re), -transpose_last(x.im)}; }
Complex product(const Complex& a, const Complex& b) {
  using term::product;
  return {product(a.re, b.re) - product(a.im, b.im), product(a.re, b.im) + product(a.im, b.re)};
}
// Solves a y = b for y, with [re -im; im re] of a and the parts of y and b stacked
Complex solved(const Complex& a, const Complex& b) {
  Graph& g = *a.re.graph();
  const int rows = a.re.rank() - 2, columns = rows + 1;
  const auto joined = [&](const Value& first, const Value& second, int dim) {
    return g.call("concat", {first, second}, {{"dim", dim}});
  };
  const Value y =
      term::solved(joined(joined(a.re, -a.im, columns), joined(a.im, a.re, columns), rows),
                   joined(b.re, b.im, rows));
  const Dim n = a.re.dim(-1);
  return {term::slice(y, rows, 0, n), term::slice(y, rows, n, n + n)};
}

// ---- shape rules ----

Status eigvals_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const bool complex = c.attrs().flag("complex");
  if (x.dtype != f32 && x.dtype != f64)
    return c.fail("matrices must be f32 or f64, but are ", x.dtype);
  if (x.rank() < 2 + complex)
    return c.fail("a matrix has at least two dims", complex ? ", and one of pairs" : "",
                  ", this has the shape ", x.shape);
  if (complex && !c.require_equal(x.shape.back(), 2))
    return c.fail("x is ", x, ", but its last dim must hold real and imaginary parts: 2");
  const auto rows = x.shape.end() - 2 - complex;
  if (!c.require_equal(rows[0], rows[1]))
    return c.fail("the matrices must be square, but their shape is ", x.shape);
  c.out(0) = {x.dtype, term::with(Shape(x.shape.begin(), rows), {rows[1], 2})};
  return {};
}
Status eig_infer(InferContext& c) {
  HG_TRY(eigvals_infer(c));
  c.out(1) = c.in(0);
  if (!c.attrs().flag("complex")) c.out(1).shape.emplace_back(2);
  return {};
}

// ---- gradients ----

// x = v diag(w) v^-1: dx = v^-H middle v^H; for a real x, its real part
Value gradient(const Complex& v, const Complex& middle, bool complex) {
  const Complex vh = adjoint(v), dx = solved(vh, product(middle, vh));
  return complex ? pairs_of(dx) : dx.re;
}
Complex diagonal(const Complex& x) {
  const Value one = term::identity(x.re, x.re.dim(-1));
  return {one * widen(x.re, 1), one * widen(x.im, 1)};
}
Status eigvals_grad(GradContext& c) {
  const bool complex = c.attrs().flag("complex");
  const Value vectors = c.graph().calls("eig", {c.in(0)}, {{"complex", complex}})[1];
  c.set_grad(0, gradient(parts_of(vectors), diagonal(parts_of(c.dout(0))), complex));
  return {};
}
// A change of the vectors is v f, where f has no diagonal, plus a multiple of v that keeps its
// length 1 and the imaginary part of its largest element, at position k, 0. With s = v^H dv for
// each vector, dv therefore contributes e = dv - re(s) v - i im(s) / v_k for element k, and middle
// = diag(dw) + v^H e / conj(w_j - w_i). PyTorch requires im(s) = 0.
Status eig_grad(GradContext& c) {
  const bool complex = c.attrs().flag("complex");
  const Complex w = parts_of(c.out(0)), v = parts_of(c.out(1));
  Complex middle = diagonal(parts_of(c.dout(0)));
  const Dim n = w.re.dim(-1);
  if (c.has_dout(1) && !(n == Dim(0))) {
    Graph& g = c.graph();
    const int rows = v.re.rank() - 2;
    const auto over_rows = [&](const Value& x) { return hg::sum(x, {rows}, true); };
    const Complex dv = parts_of(c.dout(1));
    const Value score = hg::cast(eq(v.im, term::number(v.im, 0)), v.re.dtype()) * v.re * v.re;
    const Value k = g.call("argmax", {score}, {{"dim", rows}, {"keepdim", true}});
    const Value is_k = hg::cast(eq(k, widen(g.call("arange", {}, {{"end", n}}), 0)), v.re.dtype());
    const Value re = over_rows(v.re * dv.re + v.im * dv.im);
    const Value im = over_rows(v.re * dv.im - v.im * dv.re) / over_rows(is_k * v.re);
    const Complex e = {dv.re - re * v.re, dv.im - re * v.im - im * is_k};
    const Complex f = product(adjoint(v), e);
    const Value one = term::identity(w.re, n);
    const Complex gap = {term::differences(w.re) + one, term::differences(w.im)};
    const Value factor = (1.0 - one) / (gap.re * gap.re + gap.im * gap.im);
    middle.re = middle.re + (f.re * gap.re - f.im * gap.im) * factor;
    middle.im = middle.im + (f.re * gap.im + f.im * gap.re) * factor;
  }
  c.set_grad(0, gradient(v, middle, complex));
  return {};
}

// Linear systems and matrix decompositions in f32 or f64. All dims but the last two are batch dims.
// The run fails for a matrix without a solution (singular, not positive definite).
constexpr OpDef kOps[] = {
    // Eigenvalues [..., n, 2] of a square matrix as real and imaginary parts, in the order in which
    // QR steps find them. Conjugate eigenvalues of a real matrix are adjacent, the one with the
    // positive imaginary part first. If `complex`, x is [..., n, n, 2].
    row("eigvals(x, complex: bool = false) -> values", eigvals_infer, eigvals_grad),
    // Eigenvalues [..., n, 2] of a square matrix in the order of eigvals, and the eigenvectors as
    // columns [..., n, n, 2], both as real and imaginary parts. If `complex`, x is [..., n, n, 2].
    // Eigenvectors have length 1, and their largest element is real and positive.
    row("eig(x, complex: bool = false) -> values, vectors", eig_infer, eig_grad),
};

}  // namespace

std::span<const OpDef> eig() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
