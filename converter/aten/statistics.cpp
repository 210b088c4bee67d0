// SPDX-License-Identifier: Apache-2.0
// Integrals, covariances, and distances and combinations of the rows of one tensor.
#include <cmath>

#include "converter/aten/complex.h"
#include "converter/aten/distance.h"
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"
#include "hg/op.h"
#include "hg/ops/compare.h"
#include "hg/ops/copy.h"
#include "hg/ops/index.h"
#include "hg/ops/matmul.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

int dim_argument(Call& call, const Value& x, int64_t fallback) {
  const Result<int> axis = normalize_axis(call.number("dim", fallback), x.rank());
  if (!axis.ok() || x.rank() == 0) call.refuse("dim", "is not a dim of the tensor");
  return *axis;
}

// All elements along the dim except the first, or the last; empty for an empty dim.
Value later(const Value& v, int axis) {
  return slice(v, axis, v.dim(axis) - max(v.dim(axis) - 1, 0), v.dim(axis));
}
Value earlier(const Value& v, int axis) { return slice(v, axis, 0, max(v.dim(axis) - 1, 0)); }

Value as_float(const Value& v) { return is_float(v.dtype()) ? v : convert::cast(v, f32); }

// The differences x_{i+1} - x_i, for coordinates of one dim or of the shape of y.
Value steps_of(Call& call, const Value& y, int axis) {
  Value x = call.tensor("x");
  if (x.dtype() == boolean) call.refuse("x", "must not be bool");
  if (x.rank() == 1) {
    Shape shape(y.rank(), 1);
    shape[axis] = x.dim(0);
    x = reshape(x, std::move(shape));
  } else if (x.rank() != y.rank()) {
    call.refuse("x", str_cat("has the shape ", x.shape(), ", y has ", y.shape()));
  }
  return later(x, axis) - earlier(x, axis);
}

// (y_i + y_{i+1}) times the steps of x, if given. As in torch, integers wrap before they become
// floats.
Value doubled_areas(Call& call, const Value& y, int axis) {
  const Value sums = later(y, axis) + earlier(y, axis);
  if (!call.has("x")) return sums;
  const Value steps = steps_of(call, y, axis);
  const DType dtype = promote(sums.dtype(), steps.dtype());
  return convert::cast(sums, dtype) * convert::cast(steps, dtype);
}

void trapezoid(Call& call) {
  const Value y = call.tensor("y");
  const int axis = dim_argument(call, y, -1);
  const Dim n = y.dim(axis);
  if (n == 0) return call.returns(convert::cast(sum(y, {axis}), y.dtype()));
  if (call.has("x")) return call.returns(as_float(sum(doubled_areas(call, y, axis), {axis})) * 0.5);
  const Value ends = slice(y, axis, 0, min(n, 1)) + slice(y, axis, max(n - 1, 0), n);
  call.returns((as_float(sum(y, {axis})) - sum(as_float(ends), {axis}) * 0.5) *
               scalar(call, "dx", 1));
}
void cumulative_trapezoid(Call& call) {
  const Value y = call.tensor("y");
  const int axis = dim_argument(call, y, -1);
  Value areas = doubled_areas(call, y, axis);
  if (!is_float(areas.dtype())) areas = convert::cast(areas, i64);
  const Value sums = call.graph().call("cumsum", {areas}, {{"dim", axis}});
  const Real half = call.has("x") ? Real(0.5) : scalar(call, "dx", 1) / 2;
  call.returns(as_float(sums) * half);
}

// Rows are variables; columns are observations.
Value covariance(Call& call, const Real& correction) {
  Value x = call.tensor("self");
  if (x.rank() > 2) call.refuse("self", "has more than two dims");
  if (!is_float(x.dtype())) x = convert::cast(x, f32);
  const bool single =
      x.rank() < 2 || call.is_one(x.dim(0), "one variable alone, which gives a number", false);
  x = reshape(x, {single ? Dim(1) : x.dim(0), x.rank() == 0 ? Dim(1) : x.dim(-1)});
  const Value often = call.tensor_or_none("fweights"), much = call.tensor_or_none("aweights");
  Value weights, total;  // of the observations
  for (const Value& each : {often, much}) {
    if (!each) continue;
    if (each.rank() > 1) call.refuse(each == often ? "fweights" : "aweights", "has not one dim");
    const Value w = expand(convert::cast(each, x.dtype()), Shape{x.dim(1)});
    weights = weights ? weights * w : w;
  }
  if (weights)
    total = sum(weights, {0});
  else
    total = convert::cast(
        reshape(call.graph().call("dims", {}, {{"values", Shape{x.dim(1)}}}), Shape{}), x.dtype());
  const Value d = x - (weights ? sum(x * weights, {-1}, true) / total : mean(x, {-1}, true));
  Value left = total - correction;
  if (much && !correction.is(0))
    left = total - sum(weights * convert::cast(much, x.dtype()), {0}) / total * correction;
  const Value freedom = maximum(left, number_like(x, 0));
  const Value y = matmul(d, permute(weights ? d * weights : d, {1, 0})) / freedom;
  return single ? reshape(y, Shape{}) : y;
}
void cov(Call& call) { call.returns(covariance(call, scalar(call, "correction", 1))); }
void corrcoef(Call& call) {
  const Value c = covariance(call, 1);
  if (c.rank() == 0) return call.returns(c / c);
  const Value d = sqrt(diagonal(c));
  const Value y = c / reshape(d, {d.dim(0), 1}) / reshape(d, {1, d.dim(0)});
  call.returns(clamp(y, number_like(y, -1), number_like(y, 1)));
}

// Returns the indices of all combinations of r of n elements; list r has the index of the r-th
// element.
std::vector<std::vector<int64_t>> combinations_of(int64_t n, int64_t r, bool again) {
  std::vector<std::vector<int64_t>> places(r);
  std::vector<int64_t> chosen;
  const auto choose = [&](const auto& self, int64_t from) -> void {
    if (chosen.size() == static_cast<size_t>(r)) {
      for (size_t i = 0; i < chosen.size(); ++i) places[i].push_back(chosen[i]);
      return;
    }
    for (int64_t i = from; i < n; ++i) {
      chosen.push_back(i);
      self(self, again ? i : i + 1);
      chosen.pop_back();
    }
  };
  choose(choose, 0);
  return places;
}
Value chosen(Call& call, const Value& x, const std::vector<int64_t>& places) {
  Result<TensorData> data = TensorData::allocate(i64, {static_cast<int64_t>(places.size())});
  if (!data.ok()) call.refuse("self", std::string(data.status().message()));
  std::copy(places.begin(), places.end(), data->tensor.as<int64_t>());
  return index_select(x, call.graph().constant(*std::move(data)), 0);
}
constexpr int64_t kMostRows = int64_t{1} << 23;  // limit of index rows stored in the file
void check_known(Call& call, const Value& x, int64_t r, bool again) {
  if (x.rank() == 0 || !x.dim(0).is_constant())
    call.refuse("self", "has a symbolic first dim: give it as a number");
  double rows = 1;  // binomial coefficient of n, or n + r - 1, over r
  for (int64_t i = 0; i < r; ++i)
    rows *=
        static_cast<double>(x.dim(0).constant() + (again ? i : -i)) / static_cast<double>(i + 1);
  if (rows > static_cast<double>(kMostRows))
    call.refuse("self", str_cat("has ", x.dim(0), " rows and so ", rows, " choices of ", r,
                                ", at most ", kMostRows, " are supported"));
}
void combinations(Call& call) {
  const Value x = call.tensor("self");
  const int64_t r = call.number("r", 2);
  const bool again = call.flag("with_replacement", false);
  if (r < 0) call.refuse("r", str_cat("is ", r));
  check_known(call, x, r, again);
  if (x.rank() != 1) call.refuse("self", "must have one dim");
  if (r == 0) return call.returns(slice(x, 0, 0, 0));
  std::vector<Value> columns;
  for (const auto& places : combinations_of(x.dim(0).constant(), r, again))
    columns.push_back(reshape(chosen(call, x, places), {static_cast<int64_t>(places.size()), 1}));
  call.returns(concat(columns, 1));
}
// Distances between all pairs of rows: the part above the diagonal of cdist. In torch, the largest
// difference is NaN here if any is NaN, whereas cdist ignores NaN.
void pdist(Call& call) {
  const Value x = call.tensor("self");
  check_known(call, x, 2, false);
  if (x.rank() != 2 || !is_float(x.dtype())) call.refuse("self", "must be a float matrix");
  const int64_t n = x.dim(0).constant();
  const Real p = scalar(call, "p", 2);
  const auto pairs = combinations_of(n, 2, false);
  if (!p.is_known() || std::isinf(p.known())) {
    const Value d = chosen(call, x, pairs[0]) - chosen(call, x, pairs[1]);
    if (!p.is_known()) return call.returns(distance_of(d, p, false));
    return call.returns(
        call_with(call.graph(), "norm", {d}, {{"ord", p}}, {{"dim", std::vector<Dim>{1}}}));
  }
  std::vector<int64_t> above;
  for (size_t i = 0; i < pairs[0].size(); ++i) above.push_back(pairs[0][i] * n + pairs[1][i]);
  const Value all = call.graph().call("cdist", {x, x}, {{"p", p.known()}});
  call.returns(chosen(call, reshape(all, {n * n}), above));
}

// Scales slices along dim down to the limit if their norm exceeds it.
void renorm(Call& call) {
  const Value x = call.tensor("self");
  const int axis = dim_argument(call, x, 0);
  std::vector<Dim> others;
  for (int d = 0; d < x.rank(); ++d)
    if (d != axis) others.emplace_back(d);
  const Real limit = scalar(call, "maxnorm");
  if (others.empty()) call.refuse("self", "must have two dims or more");
  const Value size = call_with(call.graph(), "norm", {x}, {{"ord", scalar(call, "p")}},
                               {{"dim", others}, {"keepdim", true}});
  call.returns(x * where(gt(size, limit.like(size)), limit / (size + 1e-7), number_like(size, 1)));
}

// 0 for positive and pi for negative numbers; NaN stays.
void angle(Call& call) {
  Value x = call.tensor("self");
  if (!is_float(x.dtype())) x = convert::cast(x, f32);
  const Value zero = number_like(x, 0);
  const Value y = where(lt(x, zero), number_like(x, 3.141592653589793), zero);
  call.returns(where(isnan(x), x, y));
}

// Moves the zero frequency to the middle, or back.
void shift_frequencies(Call& call, bool back) {
  const Value x = call.tensor("self");
  std::vector<Dim> dims = call.integers("dim", 1), shifts;
  if (dims.empty())
    for (int d = 0; d < x.rank(); ++d) dims.emplace_back(d);
  for (const Dim& dim : dims) {
    const Result<int> axis = normalize_axis(dim.constant(), x.rank());
    if (!axis.ok()) call.refuse("dim", std::string(axis.status().message()));
    shifts.push_back(floordiv(x.dim(*axis) + Dim(back ? 1 : 0), 2));
  }
  if (dims.empty()) return call.returns(x + 0.0);
  call.returns(call.graph().call("roll", {x}, {{"shifts", shifts}, {"dims", dims}}));
}
void fftshift(Call& call) { shift_frequencies(call, false); }
void ifftshift(Call& call) { shift_frequencies(call, true); }

constexpr Row kRows[] = {
    {"aten::trapezoid", trapezoid},
    {"aten::trapz", trapezoid},
    {"aten::cumulative_trapezoid", cumulative_trapezoid},
    {"aten::cov", cov},
    {"aten::corrcoef", corrcoef},
    {"aten::combinations", combinations},
    {"aten::pdist", pdist},
    {"aten::_pdist_forward", pdist},
    {"aten::renorm", renorm},
    {"aten::angle", angle, of_complex::angle},
    {"aten::fft_fftshift", fftshift, OnComplex::parts},
    {"aten::fft_ifftshift", ifftshift, OnComplex::parts},
};

}  // namespace

std::span<const Row> statistics() { return kRows; }

}  // namespace hg::convert::rows
