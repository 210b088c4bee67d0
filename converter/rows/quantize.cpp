// SPDX-License-Identifier: Apache-2.0
// Quantisation-aware training: tensors rounded to the levels that integers will have. The gradient
// is that of x where the level is in range, and 0 elsewhere.
#include "converter/rows/pointwise.h"
#include "converter/rows/view.h"
#include "hg/ops/binary.h"
#include "hg/ops/compare.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

struct Rounded {
  Value y, in_range;
};

// level = zero_point + round(x / scale), y = (clamp(level) - zero_point) scale; parameters
// broadcast.
Rounded rounded(Call& call, const Value& scale, const Value& zero_point) {
  Graph& g = call.graph();
  const Value given = call.tensor("self");
  if (!is_float(given.dtype())) call.refuse("self", "must be of a float dtype");
  const Value x = convert::cast(given, f32);
  const Value low = g.scalar(static_cast<double>(call.number("quant_min"))),
              high = g.scalar(static_cast<double>(call.number("quant_max")));
  const Value level = zero_point + round(x * (g.scalar(1.0) / scale));
  const Value y = (clamp(level, low, high) - zero_point) * scale;
  const Value in_range =
      g.call("logical_and", {g.call("ge", {level, low}), g.call("le", {level, high})});
  const Value passed = where(in_range, x, g.scalar(0.0));
  return {convert::cast(detach(y) + (passed - detach(passed)), given.dtype()), in_range};
}

Rounded of_tensor(Call& call) {
  return rounded(call, convert::cast(call.tensor_or_number("scale"), f32),
                 convert::cast(call.tensor_or_number("zero_point"), f32));
}

Rounded of_channels(Call& call) {
  const int rank = call.tensor("self").rank();
  const Result<int> axis = normalize_axis(call.number("axis"), rank);
  if (!axis.ok()) call.refuse("axis", axis.status().message());
  const auto along = [&](std::string_view argument) {
    const Value v = call.tensor(argument);
    Shape shape(rank, Dim(1));
    shape[*axis] = v.dim(0);
    return reshape(convert::cast(v, f32), shape);
  };
  if (is_float(call.tensor("zero_point").dtype())) call.refuse("zero_point", "must be integers");
  return rounded(call, along("scale"), along("zero_point"));
}

template <Rounded (*make)(Call&)>
void values(Call& call) {
  call.returns(make(call).y);
}
template <Rounded (*make)(Call&)>
void values_and_mask(Call& call) {
  const Rounded both = make(call);
  call.returns({both.y, both.in_range});
}

void when_enabled(Call& call) {
  const Rounded both = of_tensor(call);
  const Value x = call.tensor("self");
  const Value on = reshape(call.tensor("fake_quant_enabled"), {});
  const Value is_on = call.graph().call("ne", {on, call.graph().scalar(int64_t{0}, on.dtype())});
  const Value all = call.graph().call("logical_not", {is_on});
  call.returns({where(is_on, both.y, x), call.graph().call("logical_or", {all, both.in_range})});
}

constexpr Row kRows[] = {
    {"aten::fake_quantize_per_tensor_affine", values<of_tensor>},
    {"aten::fake_quantize_per_tensor_affine_cachemask", values_and_mask<of_tensor>},
    {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", when_enabled},
    {"aten::fake_quantize_per_channel_affine", values<of_channels>},
    {"aten::fake_quantize_per_channel_affine_cachemask", values_and_mask<of_channels>},
};

}  // namespace

std::span<const Row> quantize() { return kRows; }

}  // namespace hg::convert::rows
