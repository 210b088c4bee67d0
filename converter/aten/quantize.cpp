// SPDX-License-Identifier: Apache-2.0
// Quantization-aware training: tensors are rounded to the levels of the later integers. The
// gradient is that of x where the level is in range, and 0 elsewhere. Also the decomposed ops of
// torch.ao.quantization, which round as in PyTorch and have no gradient.
#include <cmath>
#include <limits>

#include "converter/aten/pointwise.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "hg/ops/compare.h"
#include "hg/ops/control.h"
#include "hg/ops/integer.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"
#include "hg/promotion.h"

namespace hg::convert::rows {
namespace {

struct Rounded {
  Value y, in_range;
};

// level = zero_point + round(x / scale), y = (clamp(level) - zero_point) scale; parameters
// broadcast.
Rounded rounded(Call& call, const Value& given, const Value& scale, const Value& zero_point) {
  Graph& g = call.graph();
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
  return rounded(call, call.tensor("self"), call.tensor_or_number("scale", f32),
                 call.tensor_or_number("zero_point", f32));
}

Rounded of_channels(Call& call) {
  const int rank = call.tensor("self").rank();
  const Result<int> axis = normalize_axis(call.number("axis"), rank);
  if (!axis.ok()) call.refuse("axis", axis.status().message());
  const auto along = [&](std::string_view argument) {
    const Value v = call.tensor(argument);
    Shape shape(rank, Dim(1));
    shape[*axis] = v.dim(0);
    return reshaped(convert::cast(v, f32), shape);
  };
  if (is_float(call.tensor("zero_point").dtype())) call.refuse("zero_point", "must be integers");
  return rounded(call, call.tensor("self"), along("scale"), along("zero_point"));
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
  const Value on = reshaped(call.tensor("fake_quant_enabled"), {});
  const Value is_on = call.graph().call("ne", {on, call.graph().scalar(int64_t{0}, on.dtype())});
  const Value all = call.graph().call("logical_not", {is_on});
  call.returns({where(is_on, both.y, x), call.graph().call("logical_or", {all, both.in_range})});
}

// The integer dtype of the levels, and their smallest and largest value.
struct Levels {
  DType dtype;
  double least, most;
};
Levels levels_of(Call& call) {
  switch (const DType dtype = call.dtype("dtype")) {
    case u8:
      return {dtype, 0, 255};
    case i8:
      return {dtype, -128, 127};
    case i16:
      return {dtype, -32768, 32767};
    case i32:
      return {dtype, -2147483648.0, 2147483647.0};
    default:
      call.refuse("dtype", str_cat("is ", dtype, ", which holds no levels"));
  }
}

// The bounds of the levels. PyTorch rejects bounds that the dtype cannot represent.
struct Range {
  double low, high;
};
Range range_of(Call& call, const Levels& levels) {
  const Range range = {static_cast<double>(call.number("quant_min")),
                       static_cast<double>(call.number("quant_max"))};
  if (range.low < levels.least) call.refuse("quant_min", "is less than the dtype holds");
  if (range.high > levels.most) call.refuse("quant_max", "is more than the dtype holds");
  return range;
}
Value clamped(const Value& x, const Range& range) {
  return clamp(x, number_like(x, range.low), number_like(x, range.high));
}

void expect(const Call& call, const Value& holds, std::string_view what) {
  assert_true(holds, str_cat(call.kind(), ": ", what));
}

// Applies an elementwise op in the promoted dtype of two tensors.
Value in_common(std::string_view op, const Value& a, const Value& b) {
  Promotion common;
  common.add_tensor(a.dtype(), a.rank());
  common.add_tensor(b.dtype(), b.rank());
  return a.graph()->call(op,
                         {convert::cast(a, common.result()), convert::cast(b, common.result())});
}
Value inverse(const Value& scale) {
  const Value x = is_float(scale.dtype()) ? scale : convert::cast(scale, f32);
  return 1.0 / x;
}

// These ops have no gradient.
Value input_of(Call& call) { return detach(call.tensor("input")); }
Value scales_of(Call& call) { return detach(call.tensor("scales")); }
// Returns the f32 tensor to quantize; 16-bit floats become f32.
Value narrow_input(Call& call) {
  const Value x = input_of(call);
  if (!is_float(x.dtype()) || x.dtype() == f64) call.refuse("input", "must be f32, f16 or bf16");
  return x;
}
Value level_input(Call& call, const Levels& levels) {
  const Value x = call.tensor("input");
  if (x.dtype() != levels.dtype)
    call.refuse("input", str_cat("is ", x.dtype(), ", but dtype says ", levels.dtype));
  return x;
}

// Returns a Python number, or the only element of a tensor, in this dtype.
Value one_number(Call& call, std::string_view argument, DType dtype) {
  if (!call.find(argument)->is_tensor()) return number_as(call, argument, dtype);
  const Value v = detach(call.tensor(argument));
  if (!(count(v.shape()) == Dim(1))) call.refuse(argument, "must have one element");
  return convert::cast(reshaped(v, {}), dtype);
}

// clamp(round(x / scale) + zero_point) with a scale in f64.
void quantize_per_tensor(Call& call) {
  Graph& g = call.graph();
  const Levels levels = levels_of(call);
  const Value x = convert::cast(narrow_input(call), f32);
  const Value scale = one_number(call, "scale", f64);
  if (call.find("scale")->is_tensor())
    expect(call, g.call("ne", {scale, g.scalar(0.0, f64)}), "the scale is 0");
  else if (call.real("scale") == 0)
    call.refuse("scale", "must not be 0");
  const Value level =
      round(x * convert::cast(inverse(scale), f32)) + one_number(call, "zero_point", f32);
  if (!call.find("quant_min")->is_tensor())
    return call.returns(convert::cast(clamped(level, range_of(call, levels)), levels.dtype));
  const Value low = one_number(call, "quant_min", f64), high = one_number(call, "quant_max", f64);
  expect(call,
         g.call("logical_and", {g.call("ge", {low, g.scalar(levels.least, f64)}),
                                g.call("le", {high, g.scalar(levels.most, f64)})}),
         "quant_min or quant_max is out of range of the dtype");
  call.returns(
      convert::cast(clamp(level, convert::cast(low, f32), convert::cast(high, f32)), levels.dtype));
}

// (x - zero_point) scale, each step rounded to out_dtype.
void dequantize_per_tensor(Call& call) {
  const Value x = level_input(call, levels_of(call));
  const DType to = call.dtype("out_dtype", f32), wide = to == f64 ? f64 : f32;
  if (!is_float(to)) call.refuse("out_dtype", "must be a float dtype");
  const auto rounded_to = [&](const Value& v) { return convert::cast(convert::cast(v, to), wide); };
  const Value centred = rounded_to(rounded_to(x) - one_number(call, "zero_point", wide));
  call.returns(convert::cast(centred * one_number(call, "scale", wide), to));
}

// Reshapes per-channel parameters to broadcast to a tensor of this rank.
struct ChannelShape {
  int rank, axis;
  Dim channels;

  Value operator()(const Value& v) const {
    Shape shape(rank, Dim(1));
    shape[axis] = channels;
    return reshaped(v, shape);
  }
};
ChannelShape along_channels(Call& call, int rank, const Value& scales) {
  const Result<int> axis = normalize_axis(call.number("axis"), rank);
  if (!axis.ok()) call.refuse("axis", axis.status().message());
  if (scales.rank() == 0) call.refuse("scales", "must have a dim");
  return {rank, *axis, scales.dim(0)};
}

void quantize_per_channel(Call& call) {
  const Levels levels = levels_of(call);
  const Range range = range_of(call, levels);
  const Value x = convert::cast(narrow_input(call), f32), scales = scales_of(call);
  const ChannelShape along = along_channels(call, x.rank(), scales);
  const Value level = in_common("add", round(in_common("mul", x, inverse(along(scales)))),
                                along(detach(call.tensor("zero_points"))));
  call.returns(convert::cast(clamped(level, range), levels.dtype));
}

// Differences of integers are computed in their promoted integer dtype and wrap around.
Value dequantized(const Value& x, const Value& zero_points, const Value& scales) {
  return in_common("mul", zero_points ? in_common("sub", x, zero_points) : x, scales);
}

void dequantize_per_channel(Call& call) {
  const Levels levels = levels_of(call);
  range_of(call, levels);
  const Value x = level_input(call, levels), scales = scales_of(call);
  const ChannelShape along = along_channels(call, x.rank(), scales);
  const Value zero_points = call.tensor_or_none("zero_points");
  call.returns(convert::cast(
      dequantized(x, zero_points ? along(detach(zero_points)) : Value(), along(scales)),
      call.dtype("out_dtype", f32)));
}

// clamp(round(x / scale + zero_point))
Value level_of_sum(const Value& x, const Value& scales, const Value& zero_points) {
  return round(in_common("add", in_common("mul", x, inverse(scales)), zero_points));
}

void quantize_per_token(Call& call) {
  const Levels levels = levels_of(call);
  const Range range = range_of(call, levels);
  const Value x = input_of(call), scales = scales_of(call),
              zero_points = detach(call.tensor("zero_points"));
  Dim tokens = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) tokens = tokens * x.dim(i);
  if (!(count(scales.shape()) == tokens)) call.refuse("scales", "must be one for each token");
  if (!(count(zero_points.shape()) == tokens))
    call.refuse("zero_points", "must be one for each token");
  const Value level = level_of_sum(x, scales, zero_points);
  call.returns(convert::cast(clamped(level, range), levels.dtype));
}

void dequantize_per_token(Call& call) {
  const Value x = input_of(call);
  if (x.dtype() == boolean) call.refuse("input", "must not be bool");
  call.returns(convert::cast(dequantized(x, detach(call.tensor("zero_points")), scales_of(call)),
                             call.dtype("output_dtype")));
}

// Reshapes rows into groups that share one scale.
Value in_groups(Call& call, const Value& x, const Value& scales) {
  if (x.rank() != 2) call.refuse("input", "must have 2 dims");
  if (!x.dim(1).is_constant()) call.refuse("input", "must have a size of dim 1 that is known");
  if (scales.rank() == 0) call.refuse("scales", "must have a dim");
  const int64_t width = x.dim(1).constant();
  int64_t size = call.number("group_size");
  if (size <= 1) call.refuse("group_size", "must be more than 1");
  if (size > width && scales.dim(scales.rank() - 1) == Dim(1)) size = width;
  if (size == 0 || width % size != 0) call.refuse("group_size", "must divide the size of dim 1");
  return reshaped(x, {x.dim(0) * Dim(width / size), Dim(size)});
}
Value of_groups(const Value& v) { return reshaped(v, {count(v.shape()), Dim(1)}); }

void quantize_per_channel_group(Call& call) {
  Graph& g = call.graph();
  const DType dtype = call.dtype("dtype");
  const Value x = input_of(call), scales = scales_of(call), groups = in_groups(call, x, scales);
  if (is_float(x.dtype()))
    expect(call, g.call("logical_not", {any(g.call("ne", {x, x}))}), "the input has NaN");
  const Value level =
      level_of_sum(groups, of_groups(scales), of_groups(detach(call.tensor("zero_points"))));
  const Range range = {static_cast<double>(call.number("quant_min")),
                       static_cast<double>(call.number("quant_max"))};
  call.returns(reshaped(convert::cast(clamped(level, range), dtype), x.shape()));
}

void dequantize_per_channel_group(Call& call) {
  const Value x = input_of(call), scales = scales_of(call), groups = in_groups(call, x, scales);
  if (x.dtype() == boolean) call.refuse("input", "must not be bool");
  const Value zero_points = call.tensor_or_none("zero_points");
  const Value y = dequantized(groups, zero_points ? of_groups(detach(zero_points)) : Value(),
                              of_groups(scales));
  call.returns(convert::cast(reshaped(y, x.shape()), call.dtype("output_dtype")));
}

Rounded of_scales(Call& call) {
  const Value x = call.tensor("input"), scales = convert::cast(scales_of(call), f32);
  if (x.dtype() != f32) call.refuse("input", "must be f32");
  if (call.number("axis") < 0) call.refuse("axis", "must not be negative");
  const ChannelShape along = along_channels(call, x.rank(), scales);
  const Value zero_points = convert::cast(detach(call.tensor("zero_points")), i32);
  return rounded(call, x, along(scales), along(convert::cast(zero_points, f32)));
}

// Rounds sums and quotients to the dtype of a tensor, as ops of that dtype do.
struct Rounding {
  DType dtype, wide = dtype == f64 ? f64 : f32;
  Value operator()(const Value& v) const { return convert::cast(convert::cast(v, dtype), wide); }
};

// Returns the scale, f64[1], and the zero point, i64[1], for all numbers of a tensor.
template <bool is_symmetric>
void choose_qparams(Call& call) {
  Graph& g = call.graph();
  const Levels levels = levels_of(call);
  const Range range = {static_cast<double>(call.number("quant_min")),
                       static_cast<double>(call.number("quant_max"))};
  if (range.low > 0 || range.high < 0) call.refuse("quant_min", "and quant_max must include 0");
  if (range.low >= range.high) call.refuse("quant_min", "must be less than quant_max");
  const Value x = narrow_input(call), zero = g.scalar(0.0);
  const Rounding to_dtype = {x.dtype()};
  const double steps = range.high - range.low;
  const Value low = minimum(convert::cast(amin(x), f32), zero);
  Value high = maximum(convert::cast(amax(x), f32), zero);
  if (is_symmetric) high = maximum(-low, high);
  Value scale =
      is_symmetric ? to_dtype(high / (steps / 2)) : to_dtype(to_dtype(high - low) / steps);
  scale = maximum(scale, scalar(call, "eps").as(g, f32));
  Value zero_point = g.scalar(levels.dtype == u8 ? int64_t{128} : int64_t{0}, i64);
  if (!is_symmetric) {
    const Value below = convert::cast(round(low / scale), i32);
    zero_point =
        convert::cast(clamped(g.scalar(static_cast<int64_t>(range.low), i32) - below, range), i64);
  }
  call.returns({reshaped(convert::cast(scale, f64), {Dim(1)}), reshaped(zero_point, {Dim(1)})});
}

Value token_reduced(std::string_view op, const Value& x) {
  return x.rank() == 0 ? x : x.graph()->call(op, {x}, {{"dim", Dims{Dim(-1)}}, {"keepdim", true}});
}

void choose_qparams_per_token(Call& call) {
  if (call.dtype("dtype") != i8) call.refuse("dtype", "must be i8");
  const Value x = input_of(call);
  if (!is_float(x.dtype())) call.refuse("input", "must be of a float dtype");
  const Value most = token_reduced("amax", abs(x));
  const Rounding to_dtype = {x.dtype() == f16 ? f32 : x.dtype()};
  const Value scales = maximum(to_dtype(most), to_dtype(number_like(to_dtype(most), 1e-5))) / 127.0;
  const Value y = convert::cast(scales, to_dtype.dtype);
  call.returns({y, expanded(call.graph().scalar(0.0, y.dtype()), y.shape())});
}

void choose_qparams_per_token_asymmetric(Call& call) {
  const Value x = input_of(call);
  if (!is_float(x.dtype())) call.refuse("input", "must be of a float dtype");
  const Rounding to_dtype = {x.dtype()};
  const Value zero = call.graph().scalar(0.0, to_dtype.wide);
  const Value low = minimum(to_dtype(token_reduced("amin", x)), zero);
  const Value high = maximum(to_dtype(token_reduced("amax", x)), zero);
  const Value eps = to_dtype(number_like(zero, double{std::numeric_limits<float>::epsilon()}));
  const Value scale = maximum(to_dtype(to_dtype(high - low) / 255.0), eps);
  const Value below = to_dtype(low / scale), above = to_dtype(high / scale);
  const Value errors = to_dtype(to_dtype(-128.0 + below) + to_dtype(127.0 + above));
  const Value zero_point = where(call.graph().call("gt", {errors, zero}), to_dtype(-128.0 - below),
                                 to_dtype(127.0 - above));
  call.returns(
      {convert::cast(scale, f64), convert::cast(round(clamped(zero_point, {-128, 127})), i64)});
}

void convert_element_type(Call& call) {
  call.returns(convert::cast(input_of(call), call.dtype("dtype")));
}

// A number, or one per output channel.
Value number_or_list(Call& call, std::string_view argument, DType dtype) {
  const Value v = call.tensor_or_number(argument, dtype);
  return v.rank() == 1 && v.dim(0) == Dim(1) ? reshaped(v, {}) : convert::cast(v, dtype);
}
// What load/levels.h makes of a product of dequantized tensors: its sums are exact. A `scale`
// rounds the result to levels of 8 bits.
IntegerOptions integer_options(Call& call) {
  const DType x = call.tensor("x").dtype(), weight = call.tensor("weight").dtype();
  IntegerOptions options;
  options.x_zero = one_number(call, "x_zero", x);
  if (call.has("weight_zero")) options.weight_zero = number_or_list(call, "weight_zero", weight);
  options.scale = one_number(call, "x_scale", f32) * number_or_list(call, "weight_scale", f32);
  if (!call.has("scale")) return options;
  if (call.has("bias")) {
    const Value bias = convert::cast(call.tensor("bias"), f64);
    options.bias = convert::cast(round(bias / convert::cast(options.scale, f64)), i32);
  }
  options.scale = options.scale / one_number(call, "scale", f32);
  options.zero = one_number(call, "zero_point", call.dtype("dtype"));
  return options;
}
// Adds the bias to sums that are not rounded.
Value with_bias(Call& call, const Value& y, int axis) {
  if (call.has("scale") || !call.has("bias")) return y;
  if (axis < 0 || axis >= y.rank()) return y;  // the product was refused
  const Value bias = convert::cast(call.tensor("bias"), f32);
  Shape shape(y.rank(), Dim(1));
  shape[axis] = bias.dim(0);
  return y + reshaped(bias, shape);
}
void integer_linear(Call& call) {
  const Value x = call.tensor("x"), weight = call.tensor("weight");
  if (weight.rank() != 2 || x.rank() == 0) call.refuse("weight", "must be a matrix");
  const bool row = x.rank() == 1;
  Value y = matmul_integer(row ? reshaped(x, {Dim(1), x.dim(0)}) : x, permute(weight, {1, 0}),
                           integer_options(call));
  y = with_bias(call, y, y.rank() - 1);
  call.returns(row ? reshaped(y, {y.dim(1)}) : y);
}
void integer_convolution(Call& call) {
  const Value x = call.tensor("x"), weight = call.tensor("weight");
  const int dims = weight.rank() - 2;
  const ConvIntegerOptions windows = {call.sizes("stride", dims), call.sizes("padding", dims),
                                      call.sizes("dilation", dims), call.size("groups", Dim(1))};
  const bool one = x.rank() == dims + 1;
  Shape shape = x.shape();
  if (one) shape.insert(shape.begin(), Dim(1));
  Value y = conv_integer(one ? reshaped(x, shape) : x, weight, integer_options(call), windows);
  y = with_bias(call, y, 1);
  call.returns(one ? reshaped(y, Shape(y.shape().begin() + 1, y.shape().end())) : y);
}

constexpr Row kRows[] = {
    {"hologram::integer_linear", integer_linear},
    {"hologram::integer_convolution", integer_convolution},
    {"aten::fake_quantize_per_tensor_affine", values<of_tensor>},
    {"aten::fake_quantize_per_tensor_affine_cachemask", values_and_mask<of_tensor>},
    {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", when_enabled},
    {"aten::fake_quantize_per_channel_affine", values<of_channels>},
    {"aten::fake_quantize_per_channel_affine_cachemask", values_and_mask<of_channels>},
    {"quantized_decomposed::quantize_per_tensor", quantize_per_tensor},
    {"quantized_decomposed::dequantize_per_tensor", dequantize_per_tensor},
    {"quantized_decomposed::quantize_per_channel", quantize_per_channel},
    {"quantized_decomposed::dequantize_per_channel", dequantize_per_channel},
    {"quantized_decomposed::quantize_per_token", quantize_per_token},
    {"quantized_decomposed::dequantize_per_token", dequantize_per_token},
    {"quantized_decomposed::quantize_per_channel_group", quantize_per_channel_group},
    {"quantized_decomposed::dequantize_per_channel_group", dequantize_per_channel_group},
    {"quantized_decomposed::fake_quant_per_channel", values<of_scales>},
    {"quantized_decomposed::choose_qparams", choose_qparams<false>},
    {"quantized_decomposed::choose_qparams_symmetric", choose_qparams<true>},
    {"quantized_decomposed::choose_qparams_per_token", choose_qparams_per_token},
    {"quantized_decomposed::choose_qparams_per_token_asymmetric",
     choose_qparams_per_token_asymmetric},
    {"quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
     choose_qparams_per_token_asymmetric},
    {"quantized_decomposed::convert_element_type", convert_element_type},
};

}  // namespace

std::span<const Row> quantize() { return kRows; }

}  // namespace hg::convert::rows
