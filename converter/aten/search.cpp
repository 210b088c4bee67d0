// SPDX-License-Identifier: Apache-2.0
// Ops that find or count elements.
#include "hg/ops/search.h"

#include "converter/rows/rows.h"
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
void histc_of(Call& call) {
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
