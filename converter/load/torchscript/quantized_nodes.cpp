// SPDX-License-Identifier: Apache-2.0
// The nodes that the pass adds, and the levels that they round to.
#include <utility>

#include "converter/load/torchscript/quantized_lowering.h"

namespace hg::convert::quantized {

bool removes(std::string& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.resize(text.size() - end.size());
  return true;
}

void Lowering::keep(ScriptNode&& node) { nodes_->push_back(std::move(node)); }

void Lowering::refuse(ScriptNode&& node, std::string why) {
  node.trouble = std::move(why);
  keep(std::move(node));
}

ScriptNode& Lowering::emit(const ScriptNode& at, std::string kind, const Arguments& arguments,
                           ScriptId result, std::string overload) {
  ScriptNode node;
  node.kind = std::move(kind);
  node.overload = std::move(overload);
  node.origin = at.origin;
  for (const auto& [name, id] : arguments) {
    node.argument_names.push_back(name);
    node.inputs.push_back(id);
  }
  node.outputs = {result >= 0 ? result : program_.value_count++};
  node.output_types = {"Tensor"};
  nodes_->push_back(std::move(node));
  return nodes_->back();
}

ScriptId Lowering::value(const ScriptNode& at, std::string kind, const Arguments& arguments,
                         std::string overload) {
  return emit(at, std::move(kind), arguments, -1, std::move(overload)).outputs[0];
}

ScriptId Lowering::constant(const ScriptNode& at, Item item) {
  ScriptNode& node = emit(at, "prim::Constant", {});
  node.constant = std::move(item);
  return node.outputs[0];
}

ScriptId Lowering::list_of(const ScriptNode& at, const std::vector<ScriptId>& parts) {
  ScriptNode& node = emit(at, "prim::ListConstruct", {});
  node.inputs = parts;
  node.output_types = {"Tensor[]"};
  return node.outputs[0];
}

Lowering::Arguments Lowering::arguments_of(const ScriptNode& at, ScriptId input, ScriptId scale,
                                           ScriptId zero, const Levels& levels) {
  return {{"input", input},
          {"scale", scale},
          {"zero_point", zero},
          {"quant_min", constant(at, levels.least())},
          {"quant_max", constant(at, levels.most())},
          {"dtype", constant(at, levels.integers())}};
}

Lowering::Arguments Lowering::arguments_of(const ScriptNode& at, ScriptId input,
                                           const Levels& levels) {
  return arguments_of(at, input, constant(at, levels.scale), constant(at, levels.zero_point),
                      levels);
}

ScriptId Lowering::integers_of(const ScriptNode& at, ScriptId x, const Levels& levels,
                               ScriptId result) {
  return emit(at, "quantized_decomposed::quantize_per_tensor", arguments_of(at, x, levels), result)
      .outputs[0];
}

void Lowering::real_of(const ScriptNode& at, ScriptId integers, const Levels& levels,
                       ScriptId result) {
  emit(at, "quantized_decomposed::dequantize_per_tensor", arguments_of(at, integers, levels),
       result);
}

void Lowering::round_to(const ScriptNode& at, ScriptId x, const Levels& levels, ScriptId result) {
  real_of(at, integers_of(at, x, levels), levels, result);
  levels_[result] = levels;
}

std::optional<double> Lowering::number(const ScriptNode& node, std::string_view name) const {
  const auto id = argument_of(node, name);
  return id ? known_.number(*id) : std::nullopt;
}

std::optional<Levels> Lowering::given_levels(const ScriptNode& node, int64_t dtype) const {
  std::optional<double> scale, zero;
  for (const char* name : {"output_scale", "Y_scale_i", "scale"})
    if (!scale && !(std::string_view(name) == "scale" && argument_of(node, "output_scale")))
      scale = number(node, name);
  for (const char* name : {"output_zero_point", "Y_zero_point_i", "zero_point"})
    if (!zero) zero = number(node, name);
  if (!scale || !zero) return std::nullopt;
  return Levels{*scale, static_cast<int64_t>(*zero), dtype};
}

}  // namespace hg::convert::quantized
