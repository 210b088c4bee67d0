// SPDX-License-Identifier: Apache-2.0
// Ops that find or count elements.
#include "hg/ops/search.h"

#include <limits>

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

Values unique_values(Call& call, bool consecutive) {
  NamedAttrs attrs = {{"consecutive", consecutive}};
  if (call.has("dim")) attrs.push_back({"dim", call.integer("dim")});
  return call.graph().calls("unique", {call.tensor("self")}, attrs);
}
// torch returns inverse and counts with size 0 if they are not requested.
void returns_asked(Call& call, Values v, bool inverse, bool counts) {
  const auto empty = [&] {
    return call.graph().call(
        "slice", {call.graph().call("reshape", {v[1]}, {{"shape", Shape{count(v[1].shape())}}})},
        {{"dim", 0}, {"start", 0}, {"end", 0}});
  };
  if (!inverse || !counts) {
    const Value nothing = empty();
    if (!inverse) v[1] = nothing;
    if (!counts) v[2] = nothing;
  }
  call.returns(v);
}
// `sorted` = false allows any order, including the sorted one.
void unique2(Call& call) {
  const Values v = unique_values(call, false);
  returns_asked(call, v, call.flag("return_inverse", false) || call.flag("return_counts", false),
                call.flag("return_counts", false));
}
void unique1(Call& call) {
  const Values v = unique_values(call, false);
  call.returns(Values{v[0], v[1]});
}
void unique_dim(Call& call) { call.returns(unique_values(call, false)); }
void unique_consecutive(Call& call) {
  const Values v = unique_values(call, true);
  returns_asked(call, v, call.flag("return_inverse", false), call.flag("return_counts", false));
}

Value placed(Call& call, std::string_view sequence, std::string_view values) {
  const Values v = call.promoted({sequence, values});
  Value sorted = v[0];
  if (call.has("sorter"))
    sorted = call.graph().call("gather", {sorted, call.tensor("sorter")}, {{"dim", -1}});
  const std::string side = call.string("side", "");
  const Value y = hg::searchsorted(sorted, v[1], call.flag("right", false) || side == "right");
  return call.flag("out_int32", false) ? convert::cast(y, i32) : y;
}
void searchsorted_of(Call& call) { call.returns(placed(call, "sorted_sequence", "self")); }
void bucketize(Call& call) { call.returns(placed(call, "boundaries", "self")); }

void isin_of(Call& call) {
  const std::string_view x = call.has("elements") ? "elements" : "element";
  const std::string_view test = call.has("test_elements") ? "test_elements" : "test_element";
  const Values v = call.promoted({x, test});
  const Value y = hg::isin(v[0], v[1]);
  call.returns(call.flag("invert", false) ? logical_not(y) : y);
}

void bincount(Call& call) {
  const Value x = call.tensor("self");
  if (is_float(x.dtype()) || x.dtype() == boolean) call.refuse("self", "must be integers");
  Value weights = call.tensor_or_none("weights");
  if (weights && weights.dtype() != f32) weights = convert::cast(weights, f64);
  call.returns(call.graph().call("bincount", {convert::cast(x, i64), weights},
                                 {{"minlength", call.size("minlength", 0)}}));
}
// Bins between numbers of data, in the arithmetic of the op `histc`.
Value histc_between(Call& call, const Real& least, const Real& most) {
  Graph& g = call.graph();
  const Value given = call.tensor("self");
  const Dim bins = call.size("bins", 100), size = count(given.shape());
  const DType dtype = given.dtype() == f64 ? f64 : f32;
  const Value x = g.call("reshape", {convert::cast(given, dtype)}, {{"shape", Shape{size}}});
  const auto number_of = [&](const Dim& dim) {
    return g.call("reshape", {g.call("dims", {}, {{"values", Shape{dim}}})}, {{"shape", Shape{}}});
  };
  const Value one = g.scalar(1.0, dtype), zero = g.scalar(int64_t{0}, i64);
  Value low = least.as(g, dtype), high = most.as(g, dtype);
  assert_true(le(low, high), "histc: 'max' is below 'min'");
  // Equal ends stand for the least and the largest element. The filler is for x without elements.
  const Value is_auto = logical_and(eq(low, high), gt(number_of(size), zero));
  const auto extreme = [&](const char* op, double filler) {
    const Value end = g.call("reshape", {g.scalar(filler, dtype)}, {{"shape", Shape{1}}});
    return g.call(op, {g.call("concat", {x, end}, {{"dim", 0}})});
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Value from = hg::where(is_auto, extreme("amin", kInfinity), low);
  const Value to = hg::where(is_auto, extreme("amax", -kInfinity), high);
  const Value is_one_place = eq(from, to);
  low = hg::where(is_one_place, from - one, from);
  high = hg::where(is_one_place, to + one, to);
  assert_true(lt(abs(high - low), g.scalar(kInfinity, dtype)), "histc: the range is not finite");
  const Value inside = logical_and(ge(x, low), le(x, high));
  const Value place = (x - low) / (high - low) * convert::cast(number_of(bins), dtype);
  const Value bin = minimum(convert::cast(hg::where(inside, place, g.scalar(0.0, dtype)), i64),
                            number_of(bins - 1));
  const Value none = g.call("full", {}, {{"shape", Shape{bins}}, {"value", 0.0}, {"dtype", dtype}});
  const Value y = g.call("index_reduce", {none, bin, convert::cast(inside, dtype)},
                         {{"dim", 0}, {"reduce", "add"}});
  return convert::cast(y, given.dtype());
}
void histc_of(Call& call) {
  const Real least = scalar(call, "min", 0), most = scalar(call, "max", 0);
  if (!least.is_known() || !most.is_known()) return call.returns(histc_between(call, least, most));
  call.returns(hg::histc(call.tensor("self"), call.size("bins", 100), call.real("min", 0),
                         call.real("max", 0)));
}
void trace(Call& call) {
  const Value x = call.tensor("self");
  if (x.rank() != 2) call.refuse("self", "must have two dims");
  call.returns(call.graph().call("sum", {call.graph().call("diagonal", {x})}));
}

constexpr Row kRows[] = {
    {"aten::_unique2", unique2},
    {"aten::_unique", unique1},
    {"aten::unique_dim", unique_dim},
    {"aten::unique_consecutive", unique_consecutive},
    {"aten::searchsorted", searchsorted_of},
    {"aten::bucketize", bucketize},
    {"aten::isin", isin_of},
    {"aten::bincount", bincount},
    {"aten::histc", histc_of},
    {"aten::trace", trace, OnComplex::parts},
};

}  // namespace

std::span<const Row> search() { return kRows; }

}  // namespace hg::convert::rows
