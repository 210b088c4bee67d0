// SPDX-License-Identifier: Apache-2.0
// The dtypes of calls whose inputs have different dtypes.
#include "hg/promotion.h"

#include <algorithm>
#include <iterator>

namespace hg {
namespace {

// The first of the inputs that must have the same dtype.
size_t first_alike(const Op& op) { return op.signature.find_input("condition") == 0 ? 1 : 0; }

bool takes_one_dtype(const Op& op) {
  return (op.def.traits & (kElementwise | kConcatenation)) != 0;
}

constexpr std::string_view kKeepIntegers[] = {"floor", "ceil", "trunc", "round", "nan_to_num"};

// For 16-bit tensors and a number, or a second operand of rank 0, torch computes these in f32
// without rounding the operand.
constexpr std::string_view kScale[] = {"mul", "div", "floor_divide", "trunc_divide"};

bool scales_in_f32(const Op& op, DType common) {
  return (common == f16 || common == bf16) &&
         std::find(std::begin(kScale), std::end(kScale), op.name()) != std::end(kScale);
}

// Tests of u8 return u8, as in torch before it had bool.
bool keeps_bytes(std::string_view op) { return op == "all" || op == "any"; }

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
  return scales_in_f32(op, common) ? f32 : common;
}

std::vector<Value> promoted_calls(Graph& graph, const Op& op, std::span<const Value> inputs,
                                  const NamedAttrs& attrs,
                                  std::span<const std::optional<DType>> numbers) {
  if (!graph.status().ok()) return {};
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
  if (scales_in_f32(op, common) && (has_number || inputs[1].rank() == 0)) {
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
