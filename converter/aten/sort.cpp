// SPDX-License-Identifier: Apache-2.0
// Sorting and selection along one dim.
#include "hg/ops/sort.h"

#include "converter/containers/container_ops.h"
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"
#include "hg/ops/compare.h"
#include "hg/ops/control.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

Values sorted(Call& call, const Dim& fallback) {
  return call.graph().calls(
      "sort", {call.tensor("self")},
      {{"dim", call.integer("dim", fallback)}, {"descending", call.flag("descending", false)}});
}
// The sort is always stable.
void sort_of(Call& call) { call.returns(sorted(call, -1)); }
void argsort(Call& call) { call.returns(sorted(call, -1)[1]); }
void msort(Call& call) { call.returns(sorted(call, 0)[0]); }

// `sorted` = false allows any order, including the sorted one.
void topk_of(Call& call) {
  call.returns(call.graph().calls("topk", {call.tensor("self")},
                                  {{"k", call.size("k")},
                                   {"dim", call.integer("dim", -1)},
                                   {"largest", call.flag("largest", true)}}));
}
void kthvalue_of(Call& call) {
  call.returns(call.graph().calls("kthvalue", {call.tensor("self")},
                                  {{"k", call.size("k")},
                                   {"dim", call.integer("dim", -1)},
                                   {"keepdim", call.flag("keepdim", false)}}));
}
void median_of(Call& call) { call.returns(hg::median(call.tensor("self"))[0]); }
void nanmedian_of(Call& call) { call.returns(hg::nanmedian(call.tensor("self"))[0]); }
void median_dim(Call& call) {
  call.returns(hg::median(call.tensor("self"), call.integer("dim"), call.flag("keepdim", false)));
}
void nanmedian_dim(Call& call) {
  call.returns(
      hg::nanmedian(call.tensor("self"), call.integer("dim"), call.flag("keepdim", false)));
}
void mode_of(Call& call) {
  call.returns(call.graph().calls(
      "mode", {call.tensor("self")},
      {{"dim", call.integer("dim", -1)}, {"keepdim", call.flag("keepdim", false)}}));
}

// The numbers at fractional places of sorted lines. s: [lines..., n], place: [lines..., places]
Value interpolated(Call& call, const Value& s, const Value& place) {
  const std::string kind = call.string("interpolation", "linear");
  const auto at = [&](const Value& p) {
    return call.graph().call("gather", {s, hg::cast(p, i64)}, {{"dim", -1}});
  };
  if (kind == "lower") return at(floor(place));
  if (kind == "higher") return at(ceil(place));
  if (kind == "nearest") return at(round(place));
  if (kind != "linear" && kind != "midpoint")
    call.refuse("interpolation", "must be linear, lower, higher, midpoint or nearest");
  const Value below = floor(place);
  const Value weight = kind == "linear"
                           ? place - below
                           : hg::where(eq(place, below), number_like(s, 0), number_like(s, 0.5));
  const Value low = at(below), high = at(ceil(place));
  return hg::lerp(low, high, weight);
}

// Sorts n elements along the last dim. The q-quantile is at position q (n - 1), interpolated
// between two elements. With `skip_nan`, n is the number of elements of a line that are not NaN.
void quantile_of(Call& call, bool skip_nan) {
  Graph& g = call.graph();
  Value x = call.tensor("self");
  const Item* given = call.find("q");
  const bool is_tensor = given != nullptr && given->is_tensor() && !call.ref("q")->is_number();
  const Real number = is_tensor ? Real() : scalar(call, "q");
  Value q = is_tensor ? call.tensor("q") : number.like(x);
  if (!number.is_known()) {
    const Value in_range = logical_and(ge(q, number_like(q, 0)), le(q, number_like(q, 1)));
    assert_true(in_range, str_cat(call.kind(), ": 'q' is not in [0, 1]"));
  }
  for (const Dim& size : x.shape()) g.guard(size, Relation::ne, 0, "a quantile of no elements");
  const bool flat = !call.has("dim");
  const bool keepdim = call.flag("keepdim", false);
  const int rank = x.rank();
  int axis = flat || rank == 0 ? 0 : static_cast<int>(call.number("dim"));
  if (axis < 0) axis += rank;
  if (flat || rank == 0) {
    x = g.call("reshape", {x}, {{"shape", Shape{count(x.shape())}}});
  } else if (axis != rank - 1) {
    std::vector<Dim> order;
    for (int d = 0; d < rank; ++d)
      if (d != axis) order.emplace_back(d);
    order.emplace_back(axis);
    x = g.call("permute", {x}, {{"dims", order}});
  }
  // s: [lines..., n], places: [lines or 1..., number of q]
  const Value s = hg::sort(x, -1)[0];
  const Dim n = s.dim(-1);
  if (n == Dim(0)) call.refuse("self", "is empty");
  const bool many = q.rank() > 0;
  const Shape q_flat = {many ? q.dim(0) : Dim(1)};
  q = g.call("reshape", {q}, {{"shape", q_flat}});
  Shape lead(s.shape().begin(), s.shape().end() - 1);
  Shape wide = lead;
  wide.push_back(q_flat[0]);
  const auto as_last = [&](const Value& v) { return g.call("expand", {v}, {{"shape", wide}}); };
  const Value numbers = hg::cast(logical_not(isnan(s)), s.dtype());
  const Value present = g.call("sum", {numbers}, {{"dim", {-1}}, {"keepdim", true}});  // [lines, 1]
  Value size = present;
  if (!skip_nan)  // NaN sorts last and makes all quantiles of its line NaN
    size = g.call("sum", {hg::cast(eq(isnan(s), isnan(s)), s.dtype())},
                  {{"dim", {-1}}, {"keepdim", true}});
  const Value one = number_like(s, 1), zero = number_like(s, 0);
  Value place = as_last(q) * maximum(size - one, zero);
  if (!skip_nan) place = hg::where(lt(present, size), as_last(size - one), place);
  Value y = interpolated(call, s, place);
  // Restores [q..., dims...].
  Shape shape;
  if (flat && keepdim) shape.assign(rank, Dim(1));
  if (!flat)
    for (int d = 0, k = 0; d < rank; ++d) {
      if (d == axis && keepdim) shape.emplace_back(1);
      if (d != axis) shape.push_back(lead[k++]);
    }
  std::vector<Dim> order = {static_cast<int>(lead.size())};
  for (size_t d = 0; d < lead.size(); ++d) order.emplace_back(static_cast<int>(d));
  y = g.call("permute", {y}, {{"dims", order}});
  if (many) shape.insert(shape.begin(), q_flat[0]);
  call.returns(g.call("reshape", {y}, {{"shape", shape}}));
}
void quantile(Call& call) { quantile_of(call, false); }
void nanquantile(Call& call) { quantile_of(call, true); }

constexpr Row kRows[] = {
    {.op = "aten::sort",
     .run = sort_of,
     .layout = ResultLayout::elementwise,
     .script = {grown::by_data, lists::sort},
     .grown_list = grown::sort},
    {.op = "aten::argsort", .run = argsort, .layout = ResultLayout::elementwise},
    {.op = "aten::msort", .run = msort, .layout = ResultLayout::elementwise},
    {.op = "aten::topk", .run = topk_of, .layout = ResultLayout::row_major},
    {.op = "aten::kthvalue", .run = kthvalue_of, .layout = ResultLayout::row_major},
    {.op = "aten::median", .run = median_of, .layout = ResultLayout::row_major},
    {.op = "aten::median.dim", .run = median_dim, .layout = ResultLayout::row_major},
    {.op = "aten::nanmedian", .run = nanmedian_of, .layout = ResultLayout::row_major},
    {.op = "aten::nanmedian.dim", .run = nanmedian_dim, .layout = ResultLayout::row_major},
    {"aten::mode", mode_of},
    {"aten::quantile", quantile},
    {"aten::nanquantile", nanquantile},
};

}  // namespace

std::span<const Row> sort() { return kRows; }

}  // namespace hg::convert::rows
