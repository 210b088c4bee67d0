// SPDX-License-Identifier: Apache-2.0
// Folds inference batch_norm into the preceding convolution or linear layer:
//   scale = gamma / sqrt(var + eps);  weight' = weight * scale;  bias' = (bias - mean) * scale +
//   beta
// Of a quantized weight, the scales and offsets are multiplied.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "lib/compile/passes.h"
#include "lib/graph/element.h"
#include "lib/graph/later_data.h"

namespace hg {
namespace {

const Attr& attr(const Node& node, std::string_view name) {
  return node.attrs[node.op->signature.find_attribute(name)];
}

// What a layer multiplies, and where its other inputs are.
struct Layer {
  std::vector<size_t> factors;  // the weight, or the scales and offsets of a quantized one
  size_t bias = 2, residual = 3;
  int channel_dim = 0;  // of the factors, which counts output channels; -1 if no single dim does
};

std::optional<Layer> layer_of(const Node& node) {
  const std::string_view op = node.op->name();
  if (op == "linear") return Layer{{1}};
  if (op == "quantized_linear" || op == "quantized_conv") return Layer{{2, 3}, 4, 5};
  if (op != "conv") return {};
  if (attr(node, "transposed") == Attr(false)) return Layer{{1}};
  return Layer{.factors = {1}, .channel_dim = attr(node, "groups") == Attr(1) ? 1 : -1};
}

// The numbers times the factor of each index of a dim. Parameters: the dim, and the factors.
void multiply(const LaterData::Origin& origin, const Tensor& to) {
  const Tensor& from = origin.source.tensor;
  const auto dim = static_cast<int>(origin.parameters[0]);
  const int64_t channels = from.shape[dim], outer = dim == 0 ? 1 : from.shape[0];
  const int64_t inner = channels == 0 || outer == 0 ? 0 : from.count() / channels / outer;
  for (int64_t line = 0; line < outer * channels; ++line) {
    const double scale = origin.parameters[static_cast<size_t>(line % channels) + 1];
    scaled_copy(from, line * inner, (line + 1) * inner, scale, to);
  }
}

class BatchNormFolder {
 public:
  BatchNormFolder(Graph& graph, const CompileContext& context)
      : graph_(graph), context_(context), uses_(use_counts(graph)) {}

  Status run() {
    return rewrite(graph_, [&](const Node& node) { return visit(node); });
  }

 private:
  using Replacement = std::optional<std::vector<Value>>;

  int uses(ValueId id) const { return static_cast<size_t>(id) < uses_.size() ? uses_[id] : 0; }

  Result<Replacement> visit(const Node& norm) {
    if (norm.op->name() != "batch_norm" || !(attr(norm, "training") == Attr(false)))
      return Replacement();
    const ValueId x = norm.inputs[0];
    const int32_t index = graph_.value_info(x).node;
    if (index < 0 || uses(x) != 1 || uses(norm.outputs[1]) + uses(norm.outputs[2]) > 0)
      return Replacement();
    const Node producer = graph_.nodes()[index];
    const std::optional<Layer> layer = layer_of(producer);
    if (!layer || layer->channel_dim < 0) return Replacement();
    // Channels are the dim 1.
    const bool is_linear = producer.op->name().ends_with("linear");
    if (is_linear && graph_.value_info(x).type.rank() != 2) return Replacement();
    const bool plain = input(producer, layer->residual) == kNoValue &&
                       attr(producer, "activation") == Attr("none");
    if (!plain || !all_fixed(norm, producer, *layer)) return Replacement();
    return fold(norm, producer, *layer);
  }

  static ValueId input(const Node& node, size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : kNoValue;
  }

  bool all_fixed(const Node& norm, const Node& producer, const Layer& layer) const {
    const auto is_fixed_float = [&](ValueId id) {
      if (id == kNoValue) return true;
      const TensorData* data = fixed_data(graph_, context_, id);
      return data != nullptr && is_float(data->tensor.dtype);
    };
    for (size_t i = 1; i < 5; ++i)
      if (!is_fixed_float(norm.inputs[i])) return false;
    for (const size_t i : layer.factors)
      if (!is_fixed_float(input(producer, i))) return false;
    return norm.inputs[3] != kNoValue && norm.inputs[4] != kNoValue &&
           is_fixed_float(input(producer, layer.bias));
  }

  double parameter(ValueId id, int64_t channel, double fallback) const {
    return id == kNoValue ? fallback : element(fixed_type(graph_, context_, id)->tensor, channel);
  }

  std::vector<double> scales_of(const Node& norm, int64_t channels) const {
    const double eps = *std::get_if<double>(&attr(norm, "eps").value);
    std::vector<double> scales;
    for (int64_t c = 0; c < channels; ++c)
      scales.push_back(parameter(norm.inputs[1], c, 1) /
                       std::sqrt(parameter(norm.inputs[4], c, 1) + eps));
    return scales;
  }

  // The numbers times the scales of the indices of the dim, in the dtype.
  Result<Value> multiplied(ValueId id, const std::vector<double>& scales, int dim, DType dtype) {
    const TensorData numbers = *fixed_data(graph_, context_, id);
    LaterData::Origin origin{numbers, recorded_sum(graph_, numbers), {double(dim)}};
    origin.parameters.insert(origin.parameters.end(), scales.begin(), scales.end());
    return LaterData::add(graph_, graph_.value_info(id).name + "_folded", dtype,
                          numbers.tensor.shape, std::move(origin), multiply);
  }

  Result<Replacement> fold(const Node& norm, const Node& producer, const Layer& layer) {
    std::vector<Value> inputs;
    for (const ValueId id : producer.inputs)
      inputs.push_back(id == kNoValue ? Value() : graph_.value(id));
    inputs.resize(std::max(inputs.size(), layer.bias + 1));
    const Tensor& first = fixed_data(graph_, context_, producer.inputs[layer.factors[0]])->tensor;
    // Scales of quantized layers may be f16; folded ones are f32, as the result.
    const DType dtype = graph_.value_info(producer.outputs[0]).type.dtype;
    const int64_t channels = first.shape[layer.channel_dim];
    const std::string name = graph_.value_info(producer.inputs[layer.factors[0]]).name;
    const std::vector<double> scales = scales_of(norm, channels);
    graph_.set_origin(producer.origin);
    for (const size_t i : layer.factors) {
      const ValueId id = input(producer, i);
      if (id == kNoValue) continue;
      HG_TRY_ASSIGN(inputs[i], multiplied(id, scales, layer.channel_dim, dtype));
    }
    HG_TRY_ASSIGN(TensorData new_bias, TensorData::allocate(dtype, {channels}));
    for (int64_t c = 0; c < channels; ++c) {
      const double bias = parameter(input(producer, layer.bias), c, 0);
      set_element(new_bias.tensor, c,
                  (bias - parameter(norm.inputs[3], c, 0)) * scales[static_cast<size_t>(c)] +
                      parameter(norm.inputs[2], c, 0));
    }
    inputs[layer.bias] = graph_.constant(std::move(new_bias), name + "_folded_bias");
    const Value y = graph_.call(producer.op->name(), inputs, named_attrs(producer));
    // The statistics are unused, so any value of the right type can replace them.
    return Replacement({y, graph_.value(norm.inputs[3]), graph_.value(norm.inputs[4])});
  }

  Graph& graph_;
  const CompileContext& context_;
  std::vector<int> uses_;
};

}  // namespace

Status fold_batch_norm(Graph& graph, const CompileContext& context) {
  return BatchNormFolder(graph, context).run();
}

}  // namespace hg
