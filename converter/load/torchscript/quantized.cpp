// SPDX-License-Identifier: Apache-2.0
#include "converter/load/torchscript/quantized.h"

#include <algorithm>
#include <utility>

#include "converter/load/torchscript/quantized_lowering.h"

namespace hg::convert {
namespace quantized {
namespace {

// Ops that read no elements.
constexpr std::string_view kOnShapes[] = {"aten::size",   "aten::dim",        "aten::numel",
                                          "aten::len",    "aten::__is__",     "aten::__isnot__",
                                          "prim::device", "prim::isinstance", "prim::Print"};

}  // namespace

void Lowering::run() {
  lower(program_.body);
  nodes_ = &program_.body.nodes;
  for (const ScriptId id : program_.body.outputs)
    if (is_quantized(id)) {
      ScriptNode& node = emit(ScriptNode{}, "aten::dequantize", {{"self", id}});
      node.trouble = "an output is a quantized tensor; dequantize it in the model";
    }
}

void Lowering::lower(ScriptBlock& block) {
  std::vector<ScriptNode> nodes;
  std::swap(nodes, block.nodes);
  std::vector<ScriptNode>* const outer = std::exchange(nodes_, &block.nodes);
  for (ScriptNode& node : nodes) lower(std::move(node));
  for (ScriptId& id : block.outputs) id = renamed(id);
  nodes_ = outer;
}

ScriptId Lowering::renamed(ScriptId id) const {
  const auto found = renamed_.find(id);
  return found == renamed_.end() ? id : found->second;
}

void Lowering::lower(ScriptNode&& node) {
  for (ScriptId& id : node.inputs) id = renamed(id);
  known_.learn(node);
  if (node.kind == "prim::If") return lower_if(std::move(node));
  if (node.kind == "prim::Loop") return lower_loop(std::move(node));
  if (node.kind.starts_with("prim::") && lower_container(node)) return keep(std::move(node));
  if (node.kind.starts_with("quantized::")) return lower_quantized_op(std::move(node));
  if (node.kind.starts_with("aten::quantize_per_") || node.kind == "aten::dequantize")
    return lower_conversion(std::move(node));
  if (node.kind == "prim::GetAttr" || node.kind == "prim::Constant")
    if (const Object* tensor = object_of(node.outputs.at(0), kQuantizedTensor))
      return lower_tensor(node, *tensor);
  if (node.kind == "aten::quantized_lstm" || node.kind == "aten::quantized_gru")
    return lower_recurrent(std::move(node));
  if (!node.inputs.empty() && lists_.count(node.inputs[0]) > 0) follow_list(node);
  const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ScriptId id) { return is_quantized(id); });
  if (!reads || is_on_shape(node)) return keep(std::move(node));
  lower_aten(std::move(node));
}

bool Lowering::is_quantized(ScriptId id) const {
  if (levels_.count(id) > 0 || channels_.count(id) > 0) return true;
  const auto list = lists_.find(id);
  return list != lists_.end() && std::any_of(list->second.begin(), list->second.end(),
                                             [&](ScriptId each) { return is_quantized(each); });
}

bool Lowering::is_on_shape(const ScriptNode& node) {
  return std::find(std::begin(kOnShapes), std::end(kOnShapes), node.kind) != std::end(kOnShapes);
}

// ---- control flow and containers
void Lowering::lower_if(ScriptNode&& node) {
  if (const auto side = known_.number(node.inputs[0])) {  // only this side exists
    ScriptBlock& block = node.blocks[*side != 0 ? 0 : 1];
    for (ScriptNode& each : block.nodes) lower(std::move(each));
    for (size_t i = 0; i < node.outputs.size(); ++i)
      renamed_[node.outputs[i]] = renamed(block.outputs[i]);
    return;
  }
  for (ScriptBlock& block : node.blocks) lower(block);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ScriptId yes = node.blocks[0].outputs[i], no = node.blocks[1].outputs[i];
    if (!is_quantized(yes) && !is_quantized(no)) continue;
    const auto one = levels_.find(yes), other = levels_.find(no);
    if (one == levels_.end() || other == levels_.end() || !(one->second == other->second))
      node.trouble = "its sides give tensors with other levels";
    else
      give(node.outputs[i], yes);
  }
  keep(std::move(node));
}

void Lowering::lower_loop(ScriptNode&& node) {
  ScriptBlock& body = node.blocks.at(0);
  const size_t carried = body.inputs.size() - 1;
  for (size_t i = 0; i < carried; ++i)
    if (is_quantized(node.inputs[i + 2])) give(body.inputs[i + 1], node.inputs[i + 2]);
  lower(body);
  for (size_t i = 0; i < carried; ++i) {
    const ScriptId before = node.inputs[i + 2], after = body.outputs[i + 1];
    if (!is_quantized(before) && !is_quantized(after)) continue;
    if (levels_.count(before) == 0 || levels_.count(after) == 0 ||
        !(levels_[before] == levels_[after]))
      node.trouble = "it changes the levels of a quantized tensor";
    else
      give(node.outputs[i], after);
  }
  keep(std::move(node));
}

void Lowering::give(ScriptId to, ScriptId from) {
  if (const auto found = levels_.find(from); found != levels_.end()) levels_[to] = found->second;
  if (const auto found = channels_.find(from); found != channels_.end())
    channels_[to] = found->second;
  if (const auto found = lists_.find(from); found != lists_.end()) lists_[to] = found->second;
}

std::optional<ScriptId> Lowering::part_of(const ScriptNode& node) const {
  const auto list = lists_.find(node.inputs[0]);
  const auto at = known_.number(node.inputs.at(1));
  if (list == lists_.end() || !at) return std::nullopt;
  const auto size = static_cast<double>(list->second.size());
  const double place = *at < 0 ? *at + size : *at;
  if (place < 0 || place >= size) return std::nullopt;
  return list->second[static_cast<size_t>(place)];
}

bool Lowering::lower_container(const ScriptNode& node) {
  if (node.kind == "prim::ListConstruct" || node.kind == "prim::TupleConstruct") {
    lists_[node.outputs[0]] = node.inputs;
    built_in_[node.outputs[0]] = nodes_;
  } else if (node.kind == "prim::ListUnpack" || node.kind == "prim::TupleUnpack") {
    const auto list = lists_.find(node.inputs[0]);
    if (list != lists_.end() && list->second.size() == node.outputs.size()) {
      const std::vector<ScriptId> parts = list->second;
      for (size_t i = 0; i < parts.size(); ++i) give(node.outputs[i], parts[i]);
    } else {
      for (const ScriptId id : node.outputs) give(id, node.inputs[0]);
    }
  } else if (node.kind == "prim::TupleIndex") {
    if (const auto part = part_of(node)) give(node.outputs[0], *part);
  } else if (node.kind == "prim::unchecked_cast" ||
             node.kind == "prim::unchecked_unwrap_optional") {
    give(node.outputs[0], node.inputs[0]);
  } else {
    return false;
  }
  return true;
}

const std::vector<ScriptId>* Lowering::elements(ScriptId list) const {
  const auto found = lists_.find(list);
  return found == lists_.end() || changed_.count(list) > 0 ? nullptr : &found->second;
}

void Lowering::follow_list(const ScriptNode& node) {
  const ScriptId list = node.inputs[0];
  if (node.kind == "aten::append" && built_in_[list] == nodes_) {
    lists_[list].push_back(node.inputs.at(1));
    if (!node.outputs.empty()) lists_[node.outputs[0]] = lists_[list];
  } else if (node.kind == "aten::append" ||
             is_any(node, {"aten::insert", "aten::extend", "aten::pop", "aten::clear",
                           "aten::remove", "aten::reverse", "aten::sort", "aten::_set_item",
                           "aten::Delete", "aten::add_"})) {
    changed_.insert(list);
  }
}

// ---- conversions
void Lowering::lower_conversion(ScriptNode&& node) {
  const ScriptId result = node.outputs.at(0);
  if (node.kind == "aten::dequantize") {
    if (node.overload == "tensors" || node.overload == "list")
      return refuse(std::move(node), "lists of tensors are not supported");
    if (const auto found = channels_.find(node.inputs[0]); found != channels_.end()) {
      emit(node, "quantized_decomposed::dequantize_per_channel", found->second, result);
      return;
    }
    emit(node, "aten::clone", {{"self", node.inputs[0]}}, result);
    return;
  }
  const auto dtype = number(node, "dtype");
  if (!dtype || *dtype < kQInt8 || *dtype > kQInt32)
    return refuse(std::move(node), "the dtype is not qint8, quint8 or qint32");
  Levels levels{1, 0, static_cast<int64_t>(*dtype)};
  if (node.kind == "aten::quantize_per_tensor_dynamic") {
    const auto reduce = number(node, "reduce_range");
    if (!reduce || levels.dtype == kQInt32)
      return refuse(std::move(node), "reduce_range must be a constant, and dtype of 8 bits");
    return round_dynamic(node, node.inputs[0], levels, *reduce != 0, result);
  }
  if (node.kind == "aten::quantize_per_channel") {
    const auto scales = argument_of(node, "scales"), zeros = argument_of(node, "zero_points");
    Arguments all = {{"scales", *scales},
                     {"zero_points", *zeros},
                     {"axis", *argument_of(node, "axis")},
                     {"quant_min", constant(node, levels.least())},
                     {"quant_max", constant(node, levels.most())},
                     {"dtype", constant(node, levels.integers())}};
    Arguments to = all;
    to.insert(to.begin(), {"input", *argument_of(node, "self")});
    all.insert(
        all.begin(),
        {"input", emit(node, "quantized_decomposed::quantize_per_channel", to, result).outputs[0]});
    channels_[result] = all;
    return;
  }
  const auto given = given_levels(node, levels.dtype);
  if (node.kind != "aten::quantize_per_tensor" || !given)
    return refuse(std::move(node), "the scale and the zero point must be constants of the file");
  round_to(node, *argument_of(node, "self"), *given, result);
}

void Lowering::round_dynamic(const ScriptNode& at, ScriptId x, const Levels& levels, bool reduce,
                             ScriptId result) {
  // FBGEMM's ChooseQuantizationParams with 7 bits, or 8.
  const int64_t low = reduce ? levels.least() / 2 : levels.least(),
                high = reduce ? levels.most() / 2 : levels.most();
  ScriptNode& chosen = emit(at, "quantized_decomposed::choose_qparams",
                            {{"input", x},
                             {"quant_min", constant(at, low)},
                             {"quant_max", constant(at, high)},
                             {"eps", constant(at, 6.1e-5)},
                             {"dtype", constant(at, levels.integers())}},
                            -1, "tensor");
  chosen.outputs.push_back(program_.value_count++);
  chosen.output_types.push_back("Tensor");
  const ScriptId scale = chosen.outputs[0], zero = chosen.outputs[1];
  const ScriptId integers = value(at, "quantized_decomposed::quantize_per_tensor",
                                  arguments_of(at, x, scale, zero, levels), "tensor");
  emit(at, "quantized_decomposed::dequantize_per_tensor",
       arguments_of(at, integers, scale, zero, levels), result, "tensor");
}

}  // namespace quantized

void lower_quantized(ScriptProgram& program) { quantized::Lowering(program).run(); }

}  // namespace hg::convert
