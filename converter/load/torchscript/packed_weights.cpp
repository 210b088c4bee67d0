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

#include "converter/load/torchscript/quantized.h"

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

// The weights of a recurrent layer's direction, as the pickler sees them.
Unpacked recurrent_cell(const c10::IValue& object) {
  const auto state = object.toObject()->type()->getMethod("__getstate__")({object});
  const auto& parts = state.toTupleRef().elements();
  const auto packed = parts.at(4).toListRef();
  Unpacked result{kPackedCell, {{"kind", parts.at(0)}}};
  if (parts.at(0).toStringRef() != "quantized_dynamic") return result;
  const auto longs = parts.at(3).toListRef();
  result.values.emplace_back("reduce_range", !longs.empty() && longs[0].toInt() != 0);
  result.values.emplace_back("ih", packed.at(0));
  result.values.emplace_back("hh", packed.at(1));
  return result;
}

// The levels of the rows. FBGEMM adds -scale * zero_point, rounded to f32; for 4 bits it rounds
// this and the scale to f16.
Unpacked embedding(const c10::IValue& object) {
  const at::Tensor weight = of("embedding_bag_unpack", object).at(0).toTensor();
  const bool is_half = weight.scalar_type() == at::kQUInt4x2;
  at::Tensor levels = at::int_repr(weight);
  if (is_half) {  // two in a byte, the first one in the low bits
    if (levels.numel() * 2 != weight.numel()) return {kPackedEmbedding, {}};
    levels = at::stack({levels.bitwise_and(15), levels.div(16, "floor")}, -1).view(weight.sizes());
  } else if (weight.scalar_type() != at::kQUInt8) {
    return {kPackedEmbedding, {}};
  }
  at::Tensor scale = at::q_per_channel_scales(weight).to(at::kFloat);
  const at::Tensor zero_point = at::q_per_channel_zero_points(weight).to(at::kFloat);
  at::Tensor offset = scale.mul(zero_point).neg();
  if (is_half) {
    scale = scale.to(at::kHalf).to(at::kFloat);
    offset = offset.to(at::kHalf).to(at::kFloat);
  }
  return {kPackedEmbedding,
          {{"bits", is_half ? 4 : 8},
           {"weight", levels},
           {"scale", scale.unsqueeze(1)},
           {"offset", offset.unsqueeze(1)}}};
}

}  // namespace

std::optional<Unpacked> unpacked(const c10::IValue& object) {
  const auto& name = object.toObjectRef().type()->name();
  const std::string type = name ? name->qualifiedName() : "";
  if (type == "__torch__.torch.classes.rnn.CellParamsBase") return recurrent_cell(object);
  if (type == "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase")
    return embedding(object);
  constexpr std::pair<const char*, const char*> kLayers[] = {
      {"__torch__.torch.classes.quantized.LinearPackedParamsBase", "linear"},
      {"__torch__.torch.classes.quantized.Conv2dPackedParamsBase", "conv2d"},
      {"__torch__.torch.classes.quantized.Conv3dPackedParamsBase", "conv3d"}};
  std::string layer;
  for (const auto& [base, ops] : kLayers)
    if (type == base) layer = ops;
  if (layer.empty()) return std::nullopt;
  Unpacked packed{kPackedWeights, {}};
  auto& result = packed.values;
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
  if (layer == "linear") return packed;
  for (const char* each : {"stride", "padding", "output_padding", "dilation", "groups"})
    result.emplace_back(each, of(layer + "_" + each, object).at(0));
  result.emplace_back("transpose", of(layer + "_transpose", object).at(0).toInt() != 0);
  return packed;
}

bool is_unpackable(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_quantized() && tensor.layout() == at::kStrided &&
         tensor.qscheme() == c10::kPerTensorAffine &&
         (tensor.scalar_type() == at::kQInt8 || tensor.scalar_type() == at::kQUInt8 ||
          tensor.scalar_type() == at::kQInt32);
}

Unpacked unpacked_tensor(const at::Tensor& tensor) {
  return {kQuantizedTensor,
          {{"weight", at::int_repr(tensor)},
           {"scale", at::q_scale(tensor)},
           {"zero_point", at::q_zero_point(tensor)},
           {"dtype", static_cast<int64_t>(tensor.scalar_type())}}};
}

}  // namespace hg::convert
