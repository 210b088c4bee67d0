// SPDX-License-Identifier: Apache-2.0
// Cumulative reductions along one dim.
#include "hg/ops/scan.h"

#include "converter/rows/rows.h"
#include "hg/ops/compare.h"
#include "hg/ops/control_flow.h"
#include "hg/ops/copy.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"

namespace hg::convert::rows {
namespace {

void total(Call& call, std::string_view op) {
  const Value x = call.tensor("self");
  const DType dtype = call.dtype("dtype", is_float(x.dtype()) ? x.dtype() : i64);
  const Value y = call.graph().call(op, {convert::cast(x, dtype)}, {{"dim", call.integer("dim")}});
  call.returns(convert::cast(y, dtype));
}
void cumsum_of(Call& call) { total(call, "cumsum"); }
void cumprod_of(Call& call) { total(call, "cumprod"); }
void extreme(Call& call, std::string_view op) {
  call.returns(call.graph().calls(op, {call.tensor("self")}, {{"dim", call.integer("dim")}}));
}
void cummax_of(Call& call) { extreme(call, "cummax"); }
void cummin_of(Call& call) { extreme(call, "cummin"); }
void logcumsumexp_of(Call& call) {
  call.returns(call.graph().call("logcumsumexp", {call.promoted({"self"}, true)[0]},
                                 {{"dim", call.integer("dim")}}));
}

Value difference(const Value& next, const Value& last) {
  return last.dtype() == boolean ? ne(next, last) : next - last;
}

// The n-th differences, where data decides n: each round leaves one more element without meaning at
// the end.
Value differences_of_data(Call& call, const Value& x, int axis, bool is_joined) {
  const Dim n = call.size("n"), size = x.dim(axis);
  // Without a difference nothing is concatenated, so that the result is another tensor.
  if (is_joined) call.graph().guard(1, Relation::le, n, "an order of diff");
  const std::vector<Value> values = while_loop(
      {convert::cast(call.tensor("n"), i64), x}, {},
      [](Graph& body, std::span<const Value> xs) {
        return std::vector{gt(xs[0], body.scalar(int64_t{0}, i64))};
      },
      [&](Graph& body, std::span<const Value> xs) {
        const Dim first = min(size, 1);
        const Value next =
            concat({slice(xs[1], axis, first, size), slice(xs[1], axis, 0, first)}, axis);
        return std::vector{xs[0] - body.scalar(int64_t{1}, i64), difference(next, xs[1])};
      });
  return values.size() == 2 ? slice(values[1], axis, 0, max(size - n, 0)) : Value();
}

// Returns the n-th differences along dim, with `prepend` and `append` concatenated to x.
void diff(Call& call) {
  Value x = call.tensor("self");
  if (x.rank() == 0) call.refuse("self", "must have at least one dim");
  int64_t dim = call.number("dim", -1);
  if (dim < 0) dim += x.rank();
  const int axis = static_cast<int>(dim);
  const bool is_of_data = call.is_of_data("n");
  if (!is_of_data && call.number("n", 1) == 0)
    return call.returns(x);  // nothing is concatenated either
  std::vector<Value> parts;
  if (call.has("prepend")) parts.push_back(call.tensor("prepend"));
  parts.push_back(x);
  if (call.has("append")) parts.push_back(call.tensor("append"));
  for (const Value& part : parts)
    if (part.dtype() != x.dtype()) call.refuse("prepend", "and append must have the dtype of self");
  if (parts.size() > 1) x = concat(parts, axis);
  if (is_of_data) return call.returns(differences_of_data(call, x, axis, parts.size() > 1));
  for (int64_t n = call.number("n", 1); n > 0; --n) {
    const Dim size = x.dim(axis), less = max(size - 1, 0);
    x = difference(slice(x, axis, size - less, size), slice(x, axis, 0, less));
  }
  call.returns(x);
}

constexpr SharedTraits kShared = {.layout = ResultLayout::row_major};
constexpr Row kRows[] = {
    {"aten::cumsum", cumsum_of, OnComplex::parts},
    {"aten::cumprod", cumprod_of},
    {"aten::cummax", cummax_of},
    {"aten::cummin", cummin_of},
    {"aten::logcumsumexp", logcumsumexp_of},
    {"aten::diff", diff, OnComplex::parts, ResultLayout::kept},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> scan() { return kTable; }

}  // namespace hg::convert::rows
