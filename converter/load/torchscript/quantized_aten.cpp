// SPDX-License-Identifier: Apache-2.0
// Ops of aten:: on quantized tensors.
#include <algorithm>
#include <utility>

#include "converter/load/torchscript/quantized_lowering.h"

namespace hg::convert::quantized {
namespace {

// How a result of an op on a quantized tensor is rounded.
enum class Rounding {
  plain,  // it is not quantized
  none,   // its elements are elements of the argument; further results are not quantized
  same,   // to the levels of the argument
  steps,  // to those levels; it is linear, so it is computed in whole numbers of levels
  unit,   // to 256 levels from 0 to 1
  sign,   // to 256 levels from -1 to 1
};
constexpr std::pair<Rounding, std::string_view> kRoundings[] = {
    {Rounding::plain, " eq ge gt le lt ne "},
    {Rounding::none,
     " _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
     "adaptive_max_pool2d alias broadcast_to channel_shuffle chunk clone contiguous detach expand "
     "expand_as flatten flip index index_select max max_pool1d max_pool2d max_pool3d min movedim "
     "narrow permute pixel_shuffle pixel_unshuffle relu repeat replication_pad1d replication_pad2d "
     "replication_pad3d reflection_pad1d reflection_pad2d reshape reshape_as select slice sort "
     "split split_with_sizes squeeze swapaxes t tile transpose unbind unflatten unsqueeze "
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d view view_as "},
    {Rounding::same,
     " cat clamp constant_pad_nd gelu hardtanh masked_fill pad relu6 stack std threshold "},
    {Rounding::steps,
     " adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d "
     "avg_pool3d leaky_relu mean upsample_bilinear2d "},
    {Rounding::unit, " hardsigmoid sigmoid "},
    {Rounding::sign, " tanh "},
};
std::optional<Rounding> rounding_of(const std::string& op) {
  for (const auto& [rounding, ops] : kRoundings)
    if (ops.find(" " + op + " ") != std::string_view::npos) return rounding;
  return std::nullopt;
}

}  // namespace

void Lowering::lower_aten(ScriptNode&& node) {
  const auto x = std::find_if(node.inputs.begin(), node.inputs.end(),
                              [&](ScriptId id) { return is_quantized(id); });
  ScriptId source = *x;
  if (const auto list = lists_.find(source); list != lists_.end()) {
    if (node.kind == "aten::__getitem__") return keep_item(std::move(node));
    if (!list->second.empty()) source = list->second[0];
  }
  const ScriptId result = node.outputs.empty() ? -1 : node.outputs[0];
  const auto found = levels_.find(source);
  if (found == levels_.end())
    return refuse(std::move(node), "the op is not supported for tensors quantized by channels");
  const Levels levels = found->second;
  if (node.kind == "aten::q_scale" || node.kind == "aten::q_zero_point") {
    ScriptNode& number = emit(node, "prim::Constant", {}, result);
    number.constant = node.kind == "aten::q_scale" ? Item(levels.scale) : Item(levels.zero_point);
    known_.set(result, number.constant);
    return;
  }
  if (node.kind == "prim::is_quantized") {
    emit(node, "prim::Constant", {}, result).constant = true;
    return;
  }
  if (node.kind == "aten::int_repr") {
    integers_of(node, source, levels, result);
    return;
  }
  std::string op = node.kind.starts_with("aten::") ? node.kind.substr(6) : node.kind;
  const bool in_place = is_in_place(node) && removes(op, "_");
  const std::optional<Rounding> rounding = rounding_of(op);
  if (!rounding || node.outputs.empty() || !node.outs.empty() || node.overload == "other" ||
      (node.outputs.size() > 1 && *rounding != Rounding::none) ||
      (*rounding == Rounding::plain ? in_place : x != node.inputs.begin()))
    return refuse(std::move(node),
                  "the op is not supported for quantized tensors; dequantize them before it");
  if (*rounding == Rounding::plain) return keep(std::move(node));
  if (*rounding == Rounding::none) {
    levels_[result] = levels;
    return keep(std::move(node));
  }
  Levels to = levels;
  if (*rounding == Rounding::unit)
    to = {1.0 / 256, levels.dtype == kQInt8 ? -128 : 0, levels.dtype};
  if (*rounding == Rounding::sign) to = {2.0 / 256, levels.dtype == kQInt8 ? 0 : 128, levels.dtype};
  if (in_place && !(to == levels))
    return refuse(std::move(node), "the op gives its tensor other levels");
  const ScriptNode at = node;
  ScriptNode inner = std::move(node);
  inner.kind = "aten::" + op;
  const Levels counted{1, levels.zero_point, levels.dtype};
  if (*rounding == Rounding::steps) {
    const ScriptId count = program_.value_count++;
    real_of(at, integers_of(at, source, levels), counted, count);
    std::replace(inner.inputs.begin(), inner.inputs.end(), source, count);
  }
  inner.outputs = {program_.value_count++};
  const ScriptId y = inner.outputs[0], rounded = in_place ? program_.value_count++ : result;
  keep(std::move(inner));
  real_of(at, integers_of(at, y, *rounding == Rounding::steps ? counted : to), to, rounded);
  if (in_place) emit(at, "aten::copy_", {{"self", source}, {"src", rounded}}, result);
  levels_[result] = to;
}

void Lowering::keep_item(ScriptNode&& node) {
  const auto part = part_of(node);
  if (!part)
    return refuse(std::move(node), "the place in a list of quantized tensors must be a constant");
  give(node.outputs[0], *part);
  keep(std::move(node));
}

}  // namespace hg::convert::quantized
