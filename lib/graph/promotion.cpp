// SPDX-License-Identifier: Apache-2.0
// The dtypes of calls whose inputs have different dtypes.
#include "hg/promotion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "lib/graph/element.h"

namespace hg {
namespace {

// The first of the inputs that must have the same dtype.
size_t first_alike(const Op& op) { return op.signature.find_input("condition") == 0 ? 1 : 0; }

bool takes_one_dtype(const Op& op) {
  return (op.def.traits & (kElementwise | kConcatenation)) != 0;
}

constexpr std::string_view kKeepIntegers[] = {"floor", "ceil", "trunc", "round", "nan_to_num"};

// For 16-bit tensors and a number, or a second operand of rank 0, torch computes these in f32
// without rounding the operand. A number that the last two divide is rounded.
constexpr std::string_view kScale[] = {"mul", "div", "lerp", "floor_divide", "trunc_divide"};

bool scales_in_f32(const Op& op, DType common, std::span<const std::optional<DType>> numbers) {
  const bool divides_number = !numbers.empty() && numbers[0];
  const auto end = std::end(kScale) - (divides_number ? 2 : 0);
  return (common == f16 || common == bf16) && std::find(std::begin(kScale), end, op.name()) != end;
}

constexpr std::string_view kNoBool = "sub";

// Tests of u8 return u8, as in torch before it had bool.
bool keeps_bytes(std::string_view op) { return op == "all" || op == "any"; }

// Whether the op accepts inputs of this dtype; false if that depends on more than dtypes.
bool accepts(const Op& op, std::span<const Value> inputs,
             std::span<const std::optional<DType>> numbers, DType dtype) {
  const auto known = std::find_if(inputs.begin(), inputs.end(), [](const Value& x) { return x; });
  if (known == inputs.end()) return true;
  Graph graph(known->graph()->registry());
  std::vector<Value> values(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] || (i < numbers.size() && numbers[i]))
      values[i] = graph.input(str_cat("x", int64_t(i)), i < first_alike(op) ? boolean : dtype, {});
  graph.calls(op.name(), values);
  return graph.take_status().ok();
}

bool is_complex_value(const Value& value) { return value && is_complex(value.dtype()); }

std::vector<Value> cast_inputs(const Op& op, std::span<const Value> inputs, DType dtype) {
  std::vector<Value> cast(inputs.begin(), inputs.end());
  for (size_t i = first_alike(op); i < cast.size(); ++i)
    if (cast[i] && cast[i].dtype() != dtype)
      cast[i] = cast[i].graph()->call("cast", {cast[i]}, {{"dtype", dtype}});
  return cast;
}

}  // namespace

bool keeps_integers(std::string_view op) {
  return std::find(std::begin(kKeepIntegers), std::end(kKeepIntegers), op) !=
         std::end(kKeepIntegers);
}

DType dtype_of_numbers(const Op& op, std::span<const Value> inputs,
                       std::span<const std::optional<DType>> numbers) {
  const bool has_complex = std::any_of(inputs.begin(), inputs.end(), is_complex_value);
  const bool is_common = takes_one_dtype(op) && !has_complex;
  Promotion of;
  for (size_t i = is_common ? first_alike(op) : 0; i < inputs.size(); ++i) {
    if (inputs[i] && !is_common && (!has_complex || is_complex_value(inputs[i])))
      return inputs[i].dtype();
    if (inputs[i]) of.add_tensor(inputs[i].dtype(), inputs[i].rank());
    if (i < numbers.size() && numbers[i]) of.add_number(*numbers[i]);
  }
  const DType common = of.result();
  const bool needs_floats = is_common && is_integer(common) && !keeps_integers(op.name()) &&
                            !accepts(op, inputs, numbers, common) &&
                            accepts(op, inputs, numbers, f32);
  return needs_floats || scales_in_f32(op, common, numbers) ? f32 : common;
}

NumberRange number_range(const Op& op, size_t input, DType dtype) {
  const bool is_half = dtype == f16 || dtype == bf16;
  if (!takes_one_dtype(op) || op.name() == "clamp") return NumberRange::dtype;
  if (op.name() == "where") return is_half ? NumberRange::any : NumberRange::dtype;
  if (op.name() != "pow" || input != 1) return NumberRange::any;
  return is_integer(dtype) ? NumberRange::not_negative
         : is_half         ? NumberRange::dtype
                           : NumberRange::any;
}

bool write_number(const Number& number, const Tensor& to, NumberRange range) {
  const bool must_fit = range != NumberRange::any;
  if (range == NumberRange::not_negative && number.real < 0) return false;
  const bool is_whole = number.kind != f64 || number.real == std::trunc(number.real);
  if (!is_float(to.dtype) && !is_complex(to.dtype)) {
    if (!is_whole || (to.dtype == boolean && number.real != 0 && number.real != 1)) return false;
    if (number.kind == f64 && std::abs(number.real) > 0x1p53) return false;
    if (must_fit && (to.dtype == i64 ? is_beyond_i64(number) : !holds(to.dtype, number.real)))
      return false;
  }
  if (number.kind != f64 && is_integer(to.dtype)) {
    std::memcpy(to.data, &number.whole, static_cast<size_t>(size_of(to.dtype)));  // little-endian
    return true;
  }
  set_element(to, 0, number.real);
  const double written = element(to, 0);
  return !must_fit || !std::isinf(written) || std::isinf(number.real);
}

std::vector<Value> promoted_calls(Graph& graph, const Op& op, std::span<const Value> inputs,
                                  const NamedAttrs& attrs,
                                  std::span<const std::optional<DType>> numbers) {
  if (!graph.status().ok()) return {};
  for (size_t i = 0; i < inputs.size() && op.name() == kNoBool; ++i)
    if (i < numbers.size() && numbers[i] ? *numbers[i] == boolean
                                         : inputs[i] && inputs[i].dtype() == boolean) {
      graph.fail(invalid_argument(op.name(), " does not take bool, as in torch: input ", int64_t(i),
                                  " is bool; use logical_xor or logical_not"));
      return {};
    }
  std::vector<Value> results = graph.calls(op.name(), inputs, attrs);
  if (graph.status().ok() && keeps_bytes(op.name()) && inputs[0].dtype() == u8)
    return {graph.call("cast", {results[0]}, {{"dtype", u8}})};
  if (graph.status().ok() || !takes_one_dtype(op) ||
      std::any_of(inputs.begin(), inputs.end(), is_complex_value))
    return results;
  const auto retry = [&](DType dtype) {
    Status refused = graph.take_status();
    results = graph.calls(op.name(), cast_inputs(op, inputs, dtype), attrs);
    return refused;
  };
  Promotion of;
  for (size_t i = first_alike(op); i < inputs.size(); ++i) {
    if (i < numbers.size() && numbers[i])
      of.add_number(*numbers[i]);
    else if (inputs[i])
      of.add_tensor(inputs[i].dtype(), inputs[i].rank());
  }
  const DType common = of.result();
  const bool has_number =
      std::any_of(numbers.begin(), numbers.end(), [](const auto& n) { return n.has_value(); });
  if (scales_in_f32(op, common, numbers) && (has_number || inputs[1].rank() == 0)) {
    (void)retry(f32);
    if (graph.status().ok()) return {graph.call("cast", {results[0]}, {{"dtype", common}})};
    return results;
  }
  (void)retry(common);
  if (graph.status().ok() || is_float(common)) return results;
  if (keeps_integers(op.name())) {
    const bool has_decimals = std::any_of(attrs.begin(), attrs.end(), [](const NamedAttr& attr) {
      return attr.name == "decimals" && !(attr.value == Attr(0));
    });
    Status refused = graph.take_status();
    if ((common == boolean && op.name() != "nan_to_num") || has_decimals) {
      graph.fail(std::move(refused));
      return {};
    }
    return {graph.call("contiguous", {inputs[0]})};
  }
  Status refused = retry(common == boolean ? i64 : f32);
  // Ops for numbers that do not support bool reject it, as in torch.
  const bool is_number_op = common == boolean && graph.status().ok();
  if (common == boolean && !is_number_op) (void)retry(f32);
  if (!graph.status().ok() || is_number_op) {
    (void)graph.take_status();
    graph.fail(std::move(refused));
    return {};
  }
  return results;
}

}  // namespace hg
