// SPDX-License-Identifier: Apache-2.0
// Linear systems and decompositions of matrices. Signs of eigenvectors and singular vectors are
// free: where the model shows them, the check sees that libtorch chose others.
#include "hg/ops/linalg.h"

#include <cmath>

#include "converter/rows.h"
#include "hg/op.h"
#include "hg/ops/binary.h"
#include "hg/ops/compare.h"
#include "hg/ops/matmul.h"
#include "hg/ops/movement.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

Value matrices(Call& call, std::string_view argument) {
  const Value x = call.tensor(argument);
  if (x.dtype() != f32 && x.dtype() != f64)
    call.refuse(argument, text("is ", x.dtype(), "; matrices must be f32 or f64"));
  if (x.rank() < 2) call.refuse(argument, text("has the shape ", x.shape(), ", not of a matrix"));
  return x;
}
// Older schemas call the same argument self.
Value self_or_a(Call& call) { return matrices(call, call.has("A") ? "A" : "self"); }

Shape batch_of(const Value& x) { return Shape(x.shape().begin(), x.shape().end() - 2); }
Shape with(Shape batch, std::initializer_list<Dim> dims) {
  batch.insert(batch.end(), dims);
  return batch;
}
Value transposed(const Value& x) {
  std::vector<Dim> dims;
  for (int i = 0; i < x.rank(); ++i) dims.emplace_back(i);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return permute(x, std::move(dims));
}
Value widened(const Value& x, int from_end) {  // one more dim of size 1
  Shape shape = x.shape();
  shape.insert(shape.end() - from_end, Dim(1));
  return reshape(x, std::move(shape));
}
Value identity(const Value& x, const Dim& n) {
  const Value one = x.graph()->call("eye", {}, {{"n", n}, {"m", n}, {"dtype", x.dtype()}});
  return expand(one, with(batch_of(x), {n, n}));
}
// "No error", for each matrix.
Value no_error(const Value& x) {
  return convert::cast(expand(number_like(x, 0), batch_of(x)), i32);
}
// Both with the batch dims of both.
void share_batch(Call& call, std::string_view argument, Value& a, Value& b) {
  const Result<Shape> batch = broadcast(batch_of(a), batch_of(b));
  if (!batch.ok()) call.refuse(argument, std::string(batch.status().message()));
  a = expand(a, with(*batch, {a.dim(-2), a.dim(-1)}));
  b = expand(b, with(*batch, {b.dim(-2), b.dim(-1)}));
}

Value inverse_value(const Value& x) { return solve(x, identity(x, x.dim(-1))); }
void inverse(Call& call) { call.returns(inverse_value(self_or_a(call))); }
void inverse_ex(Call& call) {
  const Value x = self_or_a(call);
  call.returns(Values{inverse_value(x), no_error(x)});
}

// b is a batch of vectors where it has one dim, or all dims of a but the last.
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
// triangular_solve(self = b, A) -> solution, A
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
// NaN for a negative determinant
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
// The answer for l l^T, or for u^T u.
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

// Whether the full matrices are those that the ops give; refuses where they are not.
void refuse_full(Call& call, std::string_view argument, bool fits) {
  if (!fits) call.refuse(argument, "asks for more vectors than the decomposition has");
}
bool surely_at_most(const Dim& a, const Dim& b) {
  return a == b || (a.is_constant() && b.is_constant() && a.constant() <= b.constant());
}
void qr_of(Call& call) {
  const Value x = self_or_a(call);
  const std::string mode = call.has("mode")          ? call.string("mode")
                           : call.flag("some", true) ? "reduced"
                                                     : "complete";
  if (mode == "complete")
    refuse_full(call, call.has("mode") ? "mode" : "some", surely_at_most(x.dim(-2), x.dim(-1)));
  Values v = qr(x);
  if (mode == "r") v[0] = expand(number_like(x, 0), Shape{0});
  call.returns(v);
}

void svd_of(Call& call) {
  const Value x = self_or_a(call);
  if (call.flag("full_matrices", true)) refuse_full(call, "full_matrices", x.dim(-2) == x.dim(-1));
  call.returns(svd(x));
}
// svd(self, some, compute_uv) -> u, s, v
void old_svd(Call& call) {
  const Value x = matrices(call, "self");
  if (!call.flag("compute_uv", true)) call.refuse("compute_uv", "is false: use linalg.svdvals");
  if (!call.flag("some", true)) refuse_full(call, "some", x.dim(-2) == x.dim(-1));
  const Values v = svd(x);
  call.returns(Values{v[0], v[1], transposed(v[2])});
}
void svdvals(Call& call) { call.returns(svd(self_or_a(call))[1]); }

Values eigen(Call& call) {
  const std::string triangle = call.string("UPLO", "L");
  return eigh(matrices(call, "self"), triangle == "U" || triangle == "u");
}
void eigh_of(Call& call) { call.returns(eigen(call)); }
void eigvalsh(Call& call) { call.returns(eigen(call)[0]); }

// Singular values up to this count as 0: max(atol, rtol times the largest), [..., 1] as s is [...,
// k].
Value bound_of(Call& call, const Value& x, const Value& s) {
  const auto limit = [&](std::string_view name) {
    const Item* item = call.find(name);
    if (item == nullptr || item->is_none()) return Value();
    if (!item->is_tensor()) return number_like(s, call.real(name));
    const Value v = convert::cast(call.tensor(name), s.dtype());
    return v.rank() == 0 ? v : widened(v, 0);
  };
  Value absolute = limit("atol"), relative = limit("rtol");
  if (!relative) relative = limit("rcond");
  if (!relative && !absolute) absolute = limit("tol");
  if (!relative) {
    const Dim &m = x.dim(-2), &n = x.dim(-1);
    if (!m.is_constant() || !n.is_constant())
      call.refuse("rtol", "is not given for a matrix of symbolic sizes");
    const double epsilon = x.dtype() == f64 ? 0x1p-52 : 0x1p-23;
    relative = number_like(s, epsilon * static_cast<double>(std::max(m.constant(), n.constant())));
    // An absolute limit above 0 stands alone.
    if (absolute) relative = where(gt(absolute, number_like(s, 0)), number_like(s, 0), relative);
  }
  Value bound = relative * hg::amax(s, {-1}, true);
  return absolute ? maximum(bound, absolute) : bound;
}
// Sizes of eigenvalues are singular values where the lower triangle stands for both.
Value hermitian_values(const Value& x) { return x.graph()->call("abs", {eigh(x, false)[0]}); }
void pinv(Call& call) {
  const Value x = matrices(call, "self");
  if (call.flag("hermitian", false))
    call.refuse("hermitian", "is true, which looks at one triangle only");
  if (x.dim(-1) == Dim(0) || x.dim(-2) == Dim(0))
    return call.returns(expand(number_like(x, 0), transposed(x).shape()));
  call.returns(x.graph()->call("pinv", {x, bound_of(call, x, svd(x)[1])}));
}
// The shortest of the best solutions: solution, residuals, rank, singular values. The drivers gelsy
// and gels alone leave the last of them empty, and the residuals for sizes that do not show.
void lstsq(Call& call) {
  Value a = matrices(call, "self"), b = call.tensor("b");
  const std::string driver = call.has("driver") ? call.string("driver") : "gelsy";
  if (driver != "gelsy" && driver != "gels")
    call.refuse("driver", text("is '", driver, "', not gelsy or gels"));
  const bool vector = b.rank() == a.rank() - 1;
  if (vector) b = widened(b, 0);
  share_batch(call, "b", a, b);
  const Dim &m = a.dim(-2), &n = a.dim(-1);
  if (!m.is_constant() || !n.is_constant())
    call.refuse("self", "has symbolic sizes, which decide how many singular values count as 0");
  const Value nothing = expand(number_like(a, 0), Shape{0});
  const bool empty = m == Dim(0) || n == Dim(0);
  if (empty) call.refuse("self", "has no elements");
  const double epsilon = a.dtype() == f64 ? 0x1p-52 : 0x1p-23;
  const double relative = call.has("rcond")
                              ? call.real("rcond")
                              : epsilon * static_cast<double>(std::max(m.constant(), n.constant()));
  const Value s = svd(a)[1];
  const Value bound = number_like(a, relative) * hg::amax(s, {-1}, true);
  const Value x = matmul(a.graph()->call("pinv", {a, bound}), b);
  Value residuals = nothing, rank = convert::cast(nothing, i64);
  if (driver == "gelsy") {
    rank = hg::sum(convert::cast(gt(s, bound), i64), {-1});
  } else if (m.constant() > n.constant()) {
    const Value left = matmul(a, x) - b;
    residuals = hg::sum(left * left, {-2});
  }
  call.returns(
      Values{vector ? reshape(x, Shape(x.shape().begin(), x.shape().end() - 1)) : x,
             vector && residuals.rank() > 1
                 ? reshape(residuals, Shape(residuals.shape().begin(), residuals.shape().end() - 1))
                 : residuals,
             rank, nothing});
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

// The first `ind` dims against the others.
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
  const Value a = call.tensor("self"), b = call.tensor("other");
  if (call.has("dims")) call.refuse("dims", "is given");
  if (b.rank() > a.rank()) call.refuse("other", "has more dims than self");
  const Shape result(a.shape().begin() + b.rank(), a.shape().end());
  const Value x =
      solve(reshape(a, {count(b.shape()), count(result)}), reshape(b, {count(b.shape()), 1}));
  call.returns(reshape(x, result));
}
// x^0 ... x^(N - 1) along a new last dim
void vander(Call& call) {
  const Value x = call.tensor("x");
  if (x.rank() == 0) call.refuse("x", "has no dim");
  const Dim n = call.integer("N", x.dim(-1));
  const DType dtype = is_float(x.dtype()) ? x.dtype() : i64;
  const Value powers =
      convert::cast(x.graph()->call("arange", {}, {{"start", 0}, {"end", n}}), dtype);
  call.returns(x.graph()->call("pow", {widened(convert::cast(x, dtype), 0), powers}));
}

// ---- LU factors ----

Values factors_of(Call& call) {
  if (!call.flag("pivot", true)) call.refuse("pivot", "is false");
  return call.graph().calls("lu", {self_or_a(call)});
}
// The first diagonal element of u that is 0, counted from 1; else 0.
Value first_zero(const Value& lu) {
  Graph& g = *lu.graph();
  const Value diagonal =
      g.call("diagonal", {lu}, {{"dim1", lu.rank() - 2}, {"dim2", lu.rank() - 1}});
  const Value zero = eq(diagonal, number_like(lu, 0));
  const Dim k = min(lu.dim(-2), lu.dim(-1));
  const Value place = g.call("arange", {}, {{"start", 1}, {"end", k + 1}});
  const Value none = g.call("dims", {}, {{"values", std::vector<Dim>{k + 1}}});
  const Value first = hg::amin(
      concat({where(zero, place, none), expand(none, with(batch_of(lu), {Dim(1)}))}, -1), {-1});
  const Value last = reshape(none, Shape());
  return convert::cast(where(eq(first, last), g.scalar(int64_t{0}, i64), first), i32);
}
void lu_factor(Call& call) {
  const Values v = factors_of(call);
  call.returns(Values{v[0], v[1]});
}
void lu_factor_ex(Call& call) {
  const Values v = factors_of(call);
  call.returns(Values{v[0], v[1], first_zero(v[0])});
}
// p[j, i] = 1 where j = rows[i]
Value permutation(const Value& rows, DType dtype) {
  const Dim n = rows.dim(-1);
  const Value all = rows.graph()->call("arange", {}, {{"end", n}});
  return convert::cast(eq(reshape(all, {n, 1}), widened(rows, 1)), dtype);
}
Value lower_of(const Value& lu) {  // [m, k], ones on the diagonal
  Graph& g = *lu.graph();
  const Dim m = lu.dim(-2), k = min(m, lu.dim(-1));
  const Value one = g.call("eye", {}, {{"n", m}, {"m", k}, {"dtype", lu.dtype()}});
  return g.call("tril", {slice(lu, lu.rank() - 1, 0, k)}, {{"diagonal", -1}}) + one;
}
Value upper_of(const Value& lu) {  // [k, n]
  const Dim k = min(lu.dim(-2), lu.dim(-1));
  return lu.graph()->call("triu", {slice(lu, lu.rank() - 2, 0, k)}, {{"diagonal", 0}});
}
void linalg_lu(Call& call) {  // x = p l u
  const Values v = factors_of(call);
  call.returns(Values{permutation(v[2], v[0].dtype()), lower_of(v[0]), upper_of(v[0])});
}
Value rows_of(Call& call, std::string_view pivots, const Value& lu) {
  return call.graph().call("lu_rows", {convert::cast(call.tensor(pivots), i32)},
                           {{"n", lu.dim(-2)}});
}
void lu_unpack(Call& call) {
  const Value lu = matrices(call, "LU_data");
  const Value none = expand(number_like(lu, 0), Shape{0});
  const bool data = call.flag("unpack_data", true), pivots = call.flag("unpack_pivots", true);
  call.returns(Values{pivots ? permutation(rows_of(call, "LU_pivots", lu), lu.dtype()) : none,
                      data ? lower_of(lu) : none, data ? upper_of(lu) : none});
}
// p l u x = b; with `turn`, its transpose
Value solved_by_lu(Value lu, Value p, const Value& b, bool turn) {
  if (turn) {
    const Value y = solve_triangular(transposed(upper_of(lu)), b, false);
    return matmul(p, solve_triangular(transposed(lower_of(lu)), y, true, true));
  }
  const Value y = solve_triangular(lower_of(lu), matmul(transposed(p), b), false, true);
  return solve_triangular(upper_of(lu), y, true);
}
void lu_solve_with(Call& call, std::string_view factors, std::string_view pivots,
                   std::string_view right) {
  Value lu = matrices(call, factors), b = matrices(call, right);
  Value p = permutation(rows_of(call, pivots, lu), lu.dtype());
  const bool left = call.flag("left", true), adjoint = call.flag("adjoint", false);
  if (!left) b = transposed(b);
  share_batch(call, right, lu, b);
  p = expand(p, with(batch_of(lu), {lu.dim(-2), lu.dim(-2)}));
  const Value x = solved_by_lu(lu, p, b, adjoint == left);
  call.returns(left ? x : transposed(x));
}
void linalg_lu_solve(Call& call) { lu_solve_with(call, "LU", "pivots", "B"); }
void lu_solve(Call& call) { lu_solve_with(call, "LU_data", "LU_pivots", "self"); }

void matrix_exp(Call& call) {
  call.returns(call.graph().call("matrix_exp", {matrices(call, "self")}));
}

constexpr Row kRows[] = {
    {"aten::linalg_lu_factor", lu_factor},
    {"aten::linalg_lu_factor_ex", lu_factor_ex},
    {"aten::_lu_with_info", lu_factor_ex},
    {"aten::linalg_lu", linalg_lu},
    {"aten::lu_unpack", lu_unpack},
    {"aten::linalg_lu_solve", linalg_lu_solve},
    {"aten::lu_solve", lu_solve},
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
    {"aten::linalg_svd", svd_of},
    {"aten::svd", old_svd},
    {"aten::linalg_svdvals", svdvals},
    {"aten::linalg_eigh", eigh_of},
    {"aten::linalg_eigvalsh", eigvalsh},
    {"aten::linalg_lstsq", lstsq},
    {"aten::linalg_pinv", pinv},
    {"aten::pinverse", pinv},
    {"aten::linalg_matrix_rank", matrix_rank},
    {"aten::linalg_cond", cond},
    {"aten::linalg_tensorinv", tensorinv},
    {"aten::linalg_tensorsolve", tensorsolve},
    {"aten::linalg_vander", vander},
};

}  // namespace

std::span<const Row> linalg() { return kRows; }

}  // namespace hg::convert::rows
