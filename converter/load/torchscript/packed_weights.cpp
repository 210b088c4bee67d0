// SPDX-License-Identifier: Apache-2.0
#include "converter/load/torchscript/packed_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/int_repr.h>
#include <ATen/ops/q_per_channel_axis.h>
#include <ATen/ops/q_per_channel_scales.h>
#include <ATen/ops/q_per_channel_zero_points.h>
#include <ATen/ops/q_scale.h>
#include <ATen/ops/q_zero_point.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace hg::convert {
namespace {

// Calls an op that takes packed weights alone. Returns its results, in order.
torch::jit::Stack of(const std::string& op, const c10::IValue& packed) {
  const auto& all = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("quantized::" + op));
  torch::jit::Stack stack = {packed};
  if (all.empty()) throw std::runtime_error("libtorch does not have quantized::" + op);
  all.front()->getOperation()(stack);
  return stack;
}

}  // namespace

std::optional<std::vector<std::pair<std::string, c10::IValue>>> unpacked(
    const c10::IValue& object) {
  const auto& name = object.toObjectRef().type()->name();
  const std::string type = name ? name->qualifiedName() : "";
  constexpr std::pair<const char*, const char*> kLayers[] = {
      {"__torch__.torch.classes.quantized.LinearPackedParamsBase", "linear"},
      {"__torch__.torch.classes.quantized.Conv2dPackedParamsBase", "conv2d"},
      {"__torch__.torch.classes.quantized.Conv3dPackedParamsBase", "conv3d"}};
  std::string layer;
  for (const auto& [base, ops] : kLayers)
    if (type == base) layer = ops;
  if (layer.empty()) return std::nullopt;
  std::vector<std::pair<std::string, c10::IValue>> result;
  const torch::jit::Stack parts = of(layer + "_unpack", object);
  const at::Tensor weight = parts.at(0).toTensor();
  if (weight.is_quantized()) {
    result.emplace_back("weight", at::int_repr(weight));
    if (weight.qscheme() == c10::kPerTensorAffine) {
      result.emplace_back("scale", at::q_scale(weight));
      result.emplace_back("zero_point", at::q_zero_point(weight));
    } else {
      result.emplace_back("scale", at::q_per_channel_scales(weight).to(at::kFloat));
      result.emplace_back("zero_point", at::q_per_channel_zero_points(weight).to(at::kLong));
      result.emplace_back("axis", at::q_per_channel_axis(weight));
    }
  } else {
    result.emplace_back("weight", weight);
  }
  result.emplace_back("bias", parts.at(1));
  if (layer == "linear") return result;
  for (const char* each : {"stride", "padding", "output_padding", "dilation", "groups"})
    result.emplace_back(each, of(layer + "_" + each, object).at(0));
  result.emplace_back("transpose", of(layer + "_transpose", object).at(0).toInt() != 0);
  return result;
}

}  // namespace hg::convert
