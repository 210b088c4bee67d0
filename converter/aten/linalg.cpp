// SPDX-License-Identifier: Apache-2.0
// Linear systems and decompositions. The signs of eigenvectors and singular vectors are arbitrary.
// If the model exposes them, the check detects differences from libtorch.
#include "hg/ops/linalg.h"

#include <algorithm>
#include <cmath>

#include "converter/aten/matrices.h"
#include "converter/rows/scalar.h"
#include "hg/op.h"
#include "hg/ops/compare.h"
#include "hg/ops/eig.h"
#include "hg/ops/index.h"
#include "hg/ops/matmul.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

Value identity(const Value& x, const Dim& n) {
  const Value one = x.graph()->call("eye", {}, {{"n", n}, {"m", n}, {"dtype", x.dtype()}});
  return expand(one, with(batch_of(x), {n, n}));
}
// Returns the info "no error" for each matrix.
Value no_error(const Value& x) {
  return convert::cast(expand(number_like(x, 0), batch_of(x)), i32);
}
Value inverse_value(const Value& x) { return solve(x, identity(x, x.dim(-1))); }
void inverse(Call& call) { call.returns(inverse_value(self_or_a(call))); }
void inverse_ex(Call& call) {
  const Value x = self_or_a(call);
  call.returns(Values{inverse_value(x), no_error(x)});
}

// b is a batch of vectors if it has one dim, or all dims of a except the last.
Value solve_value(Call& call) {
  Value a = matrices(call, "A"), b = call.tensor("B");
  const bool vector = b.rank() == 1 || (b.rank() == a.rank() - 1 &&
                                        b.shape() == Shape(a.shape().begin(), a.shape().end() - 1));
  const bool left = call.flag("left", true);
  if (vector && !left) call.refuse("left", "is false for vectors");
  if (vector) b = widened(b, 0);
  if (!left) {
    a = transposed(a);
    b = transposed(b);
  }
  share_batch(call, "B", a, b);
  Value x = solve(a, b);
  if (!left) x = transposed(x);
  return vector ? reshape(x, Shape(x.shape().begin(), x.shape().end() - 1)) : x;
}
void linalg_solve(Call& call) { call.returns(solve_value(call)); }
void linalg_solve_ex(Call& call) {
  const Value x = solve_value(call);
  call.returns(Values{x, no_error(matrices(call, "A"))});
}

void linalg_solve_triangular(Call& call) {
  Value a = matrices(call, "self"), b = matrices(call, "B");
  bool upper = call.flag("upper");
  const bool left = call.flag("left", true), unit = call.flag("unitriangular", false);
  if (!left) {
    a = transposed(a);
    b = transposed(b);
    upper = !upper;
  }
  share_batch(call, "B", a, b);
  const Value x = solve_triangular(a, b, upper, unit);
  call.returns(left ? x : transposed(x));
}
// triangular_solve(self = b, A) returns the solution and A.
void triangular_solve(Call& call) {
  Value a = matrices(call, "A"), b = matrices(call, "self");
  share_batch(call, "A", a, b);
  const bool upper = call.flag("upper", true), turn = call.flag("transpose", false);
  call.returns(Values{solve_triangular(turn ? transposed(a) : a, b, upper != turn,
                                       call.flag("unitriangular", false)),
                      a});
}

void det_of(Call& call) { call.returns(det(self_or_a(call))); }
void slogdet_of(Call& call) { call.returns(slogdet(self_or_a(call))); }
// Returns NaN for a negative determinant.
void logdet(Call& call) {
  const Values v = slogdet(self_or_a(call));
  call.returns(where(lt(v[0], number_like(v[0], 0)), number_like(v[1], NAN), v[1]));
}

void cholesky_of(Call& call) {
  call.returns(cholesky(matrices(call, "self"), call.flag("upper", false)));
}
void cholesky_ex(Call& call) {
  const Value x = matrices(call, "self");
  call.returns(Values{cholesky(x, call.flag("upper", false)), no_error(x)});
}
// Solves with the matrix l l^T, or u^T u.
Value solved_by_factor(const Value& factor, bool upper, const Value& b) {
  const Value l = upper ? transposed(factor) : factor;
  return solve_triangular(transposed(l), solve_triangular(l, b, false), true);
}
void cholesky_solve(Call& call) {
  Value b = matrices(call, "self"), factor = matrices(call, "input2");
  share_batch(call, "input2", factor, b);
  call.returns(solved_by_factor(factor, call.flag("upper", false), b));
}
void cholesky_inverse(Call& call) {
  const Value factor = matrices(call, "self");
  call.returns(
      solved_by_factor(factor, call.flag("upper", false), identity(factor, factor.dim(-1))));
}

// Reflections h_i = 1 - tau_i v_i v_i^T. The v_i are the columns of x below its diagonal, with ones
// on the diagonal. h_1 h_2 ... h_k = 1 - v t v^T, where t = (1 + d u)^-1 d, d = diag(tau), and u is
// the part of v^T v above its diagonal (Schreiber and Van Loan, 1989).
struct Reflections {
  Value v, t;  // [..., m, k] and [..., k, k]
};
Reflections reflections(const Value& x, Value tau) {
  Graph& g = *x.graph();
  const Dim m = x.dim(-2), k = tau.dim(-1);
  tau = expand(tau, with(batch_of(x), {k}));
  const Value ones = g.call("eye", {}, {{"n", m}, {"m", k}, {"dtype", x.dtype()}});
  const Value below = g.call("tril", {slice(x, x.rank() - 1, 0, k)}, {{"diagonal", -1}});
  const Value v = below + ones;
  const Value u = g.call("triu", {matmul(transposed(v), v)}, {{"diagonal", 1}});
  const Value d = widened(tau, 0);  // scales rows
  return {v, solve_triangular(d * u, d * identity(u, k), true, true)};
}
// Returns the first `columns` columns of the product of the reflections.
Value product_of(const Reflections& r, const Dim& columns) {
  const auto& [v, t] = r;
  const Dim m = v.dim(-2);
  const Value one = v.graph()->call("eye", {}, {{"n", m}, {"m", columns}, {"dtype", v.dtype()}});
  const Value top = transposed(slice(v, v.rank() - 2, 0, columns));
  return one - matmul(v, matmul(t, top));
}
bool is_at_most(const Dim& a, const Dim& b) {
  return a == b || (a.is_constant() && b.is_constant() && a.constant() <= b.constant());
}
void qr_of(Call& call) {
  const Value x = self_or_a(call);
  const std::string mode = call.has("mode")          ? call.string("mode")
                           : call.flag("some", true) ? "reduced"
                                                     : "complete";
  if (mode == "complete" && !is_at_most(x.dim(-2), x.dim(-1))) {
    const Values v = geqrf(x);
    const Value r = x.graph()->call("triu", {v[0]}, {{"diagonal", 0}});
    return call.returns(Values{product_of(reflections(v[0], v[1]), x.dim(-2)), r});
  }
  Values v = qr(x);
  if (mode == "r") v[0] = expand(number_like(x, 0), Shape{0});
  call.returns(v);
}
void geqrf_of(Call& call) { call.returns(geqrf(matrices(call, "self"))); }

void householder_product(Call& call) {
  const Value x = matrices(call, call.has("input") ? "input" : "self");
  call.returns(
      product_of(reflections(x, call.tensor(call.has("tau") ? "tau" : "input2")), x.dim(-1)));
}
void ormqr(Call& call) {
  Value x = matrices(call, "self"), other = matrices(call, "input3");
  const auto r = reflections(x, call.tensor("input2"));
  const Value v = r.v, t = call.flag("transpose", false) ? transposed(r.t) : r.t;
  call.returns(call.flag("left", true)
                   ? other - matmul(v, matmul(t, matmul(transposed(v), other)))
                   : other - matmul(matmul(matmul(other, v), t), transposed(v)));
}

// Returns the orthonormal columns of u, followed by columns that complete them to a square matrix.
// Any such columns are valid, and as in torch, no gradient flows through them.
Value completed(const Value& u) {
  const Dim m = u.dim(-2), k = u.dim(-1);
  if (m == k) return u;
  const Values v = geqrf(u);
  const Value q = product_of(reflections(v[0], v[1]), m);
  const Value rest = detach(slice(q, q.rank() - 1, k, m));
  return u.graph()->call("concat", {u, rest}, {{"dim", -1}});
}
Values svd_value(const Value& x, bool full) {
  Values v = svd(x);
  if (full) v = {completed(v[0]), v[1], transposed(completed(transposed(v[2])))};
  return v;
}
void svd_of(Call& call) {
  call.returns(svd_value(self_or_a(call), call.flag("full_matrices", true)));
}
// svd(self, some, compute_uv) returns u, s, v.
void old_svd(Call& call) {
  const Value x = matrices(call, "self");
  if (!call.flag("compute_uv", true)) {
    const auto zeros = [&](const Dim& n) {
      return expand(number_like(x, 0), with(batch_of(x), {n, n}));
    };
    return call.returns(Values{zeros(x.dim(-2)), svd(x)[1], zeros(x.dim(-1))});
  }
  const Values v = svd_value(x, !call.flag("some", true));
  call.returns(Values{v[0], v[1], transposed(v[2])});
}
void svdvals(Call& call) { call.returns(svd(self_or_a(call))[1]); }

Values eigen(Call& call) {
  const std::string triangle = call.string("UPLO", "L");
  return eigh(self_or_a(call), triangle == "U" || triangle == "u");
}
void eigh_of(Call& call) { call.returns(eigen(call)); }
void eigvalsh(Call& call) { call.returns(eigen(call)[0]); }

// Eigenvalues of any square matrix are complex.
template <bool vectors>
void eig_of(Call& call) {
  const TensorRef& x = call.ref("self");
  const bool complex = call.is_complex(x);
  const Value pairs = complex ? call.read(x) : matrices(call, "self");
  if (complex && pairs.rank() < 3)
    call.refuse("self", str_cat("has the shape ", pairs.shape(), " of pairs, not of a matrix"));
  std::vector<Item> results;
  for (const Value& y : vectors ? eig(pairs, complex) : Values{eigvals(pairs, complex)})
    results.emplace_back(call.as_complex(call.make_tensor(y)));
  call.returns(std::move(results));
}

// Returns the bound up to which singular values count as 0: max(atol, rtol * largest), [..., 1] for
// s [..., k].
Value bound_of(Call& call, const Value& x, const Value& s) {
  const auto limit = [&](std::string_view name) {
    const Item* item = call.find(name);
    if (item == nullptr || item->is_none()) return Value();
    if (!item->is_tensor()) return scalar(call, name).like(s);
    const Value v = convert::cast(call.tensor(name), s.dtype());
    return v.rank() == 0 ? v : widened(v, 0);
  };
  Value absolute = limit("atol"), relative = limit("rtol");
  if (!relative) relative = limit("rcond");
  if (!relative && !absolute) absolute = limit("tol");
  if (!relative) {
    const Dim longest = max(x.dim(-2), x.dim(-1));
    const double epsilon = x.dtype() == f64 ? 0x1p-52 : 0x1p-23;
    relative = convert::cast(size_value(call.graph(), longest), s.dtype()) * epsilon;
    // A positive absolute limit replaces the default relative limit.
    if (absolute) relative = where(gt(absolute, number_like(s, 0)), number_like(s, 0), relative);
  }
  Value bound = relative * hg::amax(s, {-1}, true);
  return absolute ? maximum(bound, absolute) : bound;
}
// If only the lower triangle is used, the absolute eigenvalues are the singular values.
Value hermitian_values(const Value& x) { return x.graph()->call("abs", {eigh(x, false)[0]}); }
void pinv(Call& call) {
  const Value x = matrices(call, "self");
  const bool hermitian = call.flag("hermitian", false);
  if (x.dim(-1) == Dim(0) || x.dim(-2) == Dim(0))
    return call.returns(expand(number_like(x, 0), transposed(x).shape()));
  const Value s = hermitian ? hermitian_values(x) : svd(x)[1];
  call.returns(x.graph()->call("pinv", {x, bound_of(call, x, s)}, {{"hermitian", hermitian}}));
}
// Returns the residuals of one matrix if it has full rank, otherwise an empty vector.
Value residuals_of_rank(const Value& full_rank, const Value& residuals) {
  const Value kept = nonzero(expand(full_rank, residuals.shape()));
  return index_select(residuals, reshape(kept, {kept.dim(0)}), 0);
}
// The minimum-norm least-squares solution: solution, residuals, rank, singular values. For gelsy
// and gels, the singular values are empty. The residuals are empty for sizes at which torch returns
// none.
void lstsq(Call& call) {
  Value a = matrices(call, "self"), b = call.tensor("b");
  const std::string driver = call.has("driver") ? call.string("driver") : "gelsy";
  const bool vector = b.rank() == a.rank() - 1;
  if (vector) b = widened(b, 0);
  share_batch(call, "b", a, b);
  const Dim &m = a.dim(-2), &n = a.dim(-1);
  if (!m.is_constant() || !n.is_constant())
    call.refuse("self", "has symbolic sizes, which decide how many singular values count as 0");
  const Value nothing = expand(number_like(a, 0), Shape{0});
  const bool empty = m == Dim(0) || n == Dim(0);
  if (empty) call.refuse("self", "has no elements");
  const bool values = driver == "gelsd" || driver == "gelss";
  if (!values && driver != "gelsy" && driver != "gels")
    call.refuse("driver", str_cat("is '", driver, "'"));
  if (values && m.constant() > n.constant() && a.rank() > 2)
    call.refuse("driver", str_cat("is '", driver,
                                  "', which has residuals of a batch only where data gives all its "
                                  "matrices full rank: take gelsy"));
  const double epsilon = a.dtype() == f64 ? 0x1p-52 : 0x1p-23;
  const Real relative = call.has("rcond")
                            ? scalar(call, "rcond")
                            : epsilon * static_cast<double>(std::max(m.constant(), n.constant()));
  const Value s = svd(a)[1];
  const Value bound = relative.like(a) * hg::amax(s, {-1}, true);
  const Value x = matmul(a.graph()->call("pinv", {a, bound}), b);
  Value residuals = nothing, rank = convert::cast(nothing, i64);
  if (driver != "gels") rank = hg::sum(convert::cast(gt(s, bound), i64), {-1});
  if (driver != "gelsy" && m.constant() > n.constant()) {
    const Value left = matmul(a, x) - b;
    residuals = hg::sum(left * left, {-2});
    if (values)
      residuals = residuals_of_rank(eq(rank, a.graph()->scalar(n.constant(), i64)), residuals);
  }
  call.returns(Values{vector ? reshape(x, Shape(x.shape().begin(), x.shape().end() - 1)) : x,
                      residuals, rank, values ? s : nothing});
}
// Factors the lower triangle as LAPACK does. x is real, so `hermitian` does not matter.
void ldl_factor_of(Call& call) { call.returns(ldl_factor(matrices(call, "self"))); }
void ldl_factor_ex(Call& call) {
  const Value x = matrices(call, "self");
  const Values v = ldl_factor(x);
  call.returns(Values{v[0], v[1], no_error(x)});
}
void ldl_solve_of(Call& call) {
  Value ld = matrices(call, "LD"), b = matrices(call, "B"), pivots = call.tensor("pivots");
  share_batch(call, "B", ld, b);
  Shape shape(ld.shape().begin(), ld.shape().end() - 1);
  if (!(pivots.shape() == shape)) pivots = expand(pivots, std::move(shape));
  call.returns(ldl_solve(ld, b, pivots));
}
void matrix_rank(Call& call) {
  const Value x = matrices(call, call.has("input") ? "input" : "self");
  if (x.dim(-1) == Dim(0) || x.dim(-2) == Dim(0))
    return call.returns(
        x.graph()->call("full", {}, {{"shape", batch_of(x)}, {"value", 0.0}, {"dtype", i64}}));
  const Value s = call.flag("hermitian", false) ? hermitian_values(x) : svd(x)[1];
  call.returns(hg::sum(convert::cast(gt(s, bound_of(call, x, s)), i64), {-1}));
}
void cond(Call& call) {
  const Value s = svd(matrices(call, "self"))[1];
  const Item* p = call.find("p");
  const double order = p == nullptr || p->is_none() ? 2 : p->is_string() ? 0 : call.real("p");
  if (std::abs(order) != 2) call.refuse("p", "must be 2 or -2");
  const Value most = hg::amax(s, {-1}), least = hg::amin(s, {-1});
  call.returns(order > 0 ? most / least : least / most);
}

// Inverts x as a matrix of the first `ind` dims and the others.
void tensorinv(Call& call) {
  const Value x = call.tensor("self");
  const int ind = static_cast<int>(call.number("ind", 2));
  if (ind < 1 || ind >= x.rank()) call.refuse("ind", "is not a place between two dims");
  const Shape first(x.shape().begin(), x.shape().begin() + ind);
  const Shape last(x.shape().begin() + ind, x.shape().end());
  const Value y = inverse_value(reshape(x, {count(first), count(last)}));
  Shape shape = last;
  shape.insert(shape.end(), first.begin(), first.end());
  call.returns(reshape(y, std::move(shape)));
}
void tensorsolve(Call& call) {
  Value a = call.tensor("self");
  const Value b = call.tensor("other");
  if (call.has("dims")) {  // these move to the end
    std::vector<Dim> order, last;
    for (const Dim& dim : call.integers("dims")) {
      const Result<int> axis = normalize_axis(dim.constant(), a.rank());
      if (!axis.ok()) call.refuse("dims", std::string(axis.status().message()));
      last.emplace_back(*axis);
    }
    for (int d = 0; d < a.rank(); ++d)
      if (std::find(last.begin(), last.end(), Dim(d)) == last.end()) order.emplace_back(d);
    order.insert(order.end(), last.begin(), last.end());
    a = permute(a, order);
  }
  if (b.rank() > a.rank()) call.refuse("other", "has more dims than self");
  const Shape result(a.shape().begin() + b.rank(), a.shape().end());
  const Value x =
      solve(reshape(a, {count(b.shape()), count(result)}), reshape(b, {count(b.shape()), 1}));
  call.returns(reshape(x, result));
}
// Returns x^0 ... x^(N - 1) along a new last dim.
Value powers_of(Call& call) {
  Value x = call.tensor("x");
  if (x.rank() == 0) x = widened(x, 0);
  const Dim n = call.size("N", x.dim(-1));
  const DType dtype = is_float(x.dtype()) ? x.dtype() : i64;
  const Value powers =
      convert::cast(x.graph()->call("arange", {}, {{"start", 0}, {"end", n}}), dtype);
  return x.graph()->call("pow", {widened(convert::cast(x, dtype), 0), powers});
}
void linalg_vander(Call& call) { call.returns(powers_of(call)); }
void vander(Call& call) {
  const Value powers = powers_of(call);
  call.returns(call.flag("increasing") ? powers : flip(powers, {-1}));
}

void matrix_exp(Call& call) {
  call.returns(call.graph().call("matrix_exp", {matrices(call, "self")}));
}

// Forms of the ops above in decomposed programs. Their factors have no value here, because they
// depend on whether torch factors the matrix or its transpose, which memory layout decides.
void decomposed_det(Call& call) {
  call.returns({Item(call.make_tensor(det(self_or_a(call)))), Item(), Item()});
}
void decomposed_slogdet(Call& call) {
  const Values v = slogdet(self_or_a(call));
  call.returns({Item(call.make_tensor(v[0])), Item(call.make_tensor(v[1])), Item(), Item()});
}
void decomposed_solve(Call& call) {  // solution, factors, info
  call.returns({Item(call.make_tensor(solve_value(call))), Item(), Item(),
                Item(call.make_tensor(no_error(matrices(call, "A"))))});
}
void decomposed_svd(Call& call) {
  call.returns(svd_value(self_or_a(call), call.flag("full_matrices", false)));
}

constexpr Row kRows[] = {
    {"aten::_linalg_det", decomposed_det},
    {"aten::_linalg_slogdet", decomposed_slogdet},
    {"aten::_linalg_solve_ex", decomposed_solve},
    {"aten::_linalg_svd", decomposed_svd},
    {"aten::_linalg_eigh", eigh_of},
    {"aten::linalg_matrix_exp", matrix_exp},
    {"aten::matrix_exp", matrix_exp},
    {"aten::linalg_inv", inverse},
    {"aten::inverse", inverse},
    {"aten::linalg_inv_ex", inverse_ex},
    {"aten::linalg_solve", linalg_solve},
    {"aten::linalg_solve_ex", linalg_solve_ex},
    {"aten::linalg_solve_triangular", linalg_solve_triangular},
    {"aten::triangular_solve", triangular_solve},
    {"aten::linalg_det", det_of},
    {"aten::det", det_of},
    {"aten::linalg_slogdet", slogdet_of},
    {"aten::slogdet", slogdet_of},
    {"aten::logdet", logdet},
    {"aten::linalg_cholesky", cholesky_of},
    {"aten::cholesky", cholesky_of},
    {"aten::linalg_cholesky_ex", cholesky_ex},
    {"aten::cholesky_solve", cholesky_solve},
    {"aten::cholesky_inverse", cholesky_inverse},
    {"aten::linalg_qr", qr_of},
    {"aten::qr", qr_of},
    {"aten::geqrf", geqrf_of},
    {"aten::linalg_householder_product", householder_product},
    {"aten::orgqr", householder_product},
    {"aten::ormqr", ormqr},
    {"aten::linalg_svd", svd_of},
    {"aten::svd", old_svd},
    {"aten::linalg_svdvals", svdvals},
    {"aten::linalg_ldl_factor", ldl_factor_of},
    {"aten::linalg_ldl_factor_ex", ldl_factor_ex},
    {.op = "aten::linalg_ldl_solve",
     .run = ldl_solve_of,
     .numbers = {{{"pivots", DrawnNumbers::paired_pivots}}}},
    {"aten::linalg_eig", eig_of<true>, OnComplex::itself},
    {"aten::linalg_eigvals", eig_of<false>, OnComplex::itself},
    {"aten::_linalg_eigvals", eig_of<false>, OnComplex::itself},
    {"aten::linalg_eigh", eigh_of},
    {"aten::linalg_eigvalsh", eigvalsh},
    {"aten::linalg_lstsq", lstsq},
    {"aten::linalg_pinv", pinv},
    {"aten::pinverse", pinv},
    {"aten::linalg_matrix_rank", matrix_rank},
    {"aten::linalg_cond", cond},
    {"aten::linalg_tensorinv", tensorinv},
    {"aten::linalg_tensorsolve", tensorsolve},
    {"aten::linalg_vander", linalg_vander},
    {"aten::vander", vander},
};

}  // namespace

std::span<const Row> linalg() { return kRows; }

}  // namespace hg::convert::rows
