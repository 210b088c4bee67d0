// SPDX-License-Identifier: Apache-2.0
// Folds inference batch_norm into the preceding convolution or linear layer:
//   scale = gamma / sqrt(var + eps);  weight' = weight * scale;  bias' = (bias - mean) * scale +
//   beta
#include <cmath>

#include "lib/compile/passes.h"
#include "lib/graph/element.h"

namespace hg {
namespace {

const Attr& attr(const Node& node, std::string_view name) {
  return node.attrs[node.op->signature.find_attribute(name)];
}

// The dim of the weight that counts output channels; -1 if no single dim does.
int channel_dim(const Node& producer) {
  if (producer.op->name() == "linear") return 0;
  if (attr(producer, "transposed") == Attr(false)) return 0;
  return attr(producer, "groups") == Attr(1) ? 1 : -1;
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
    const bool is_linear = producer.op->name() == "linear";
    if (!is_linear && producer.op->name() != "conv") return Replacement();
    if (is_linear && graph_.value_info(x).type.rank() != 2) return Replacement();
    const bool plain =
        producer.inputs[3] == kNoValue && attr(producer, "activation") == Attr("none");
    const int dim = channel_dim(producer);
    if (!plain || dim < 0 || !all_fixed(norm, producer)) return Replacement();
    return fold(norm, producer, dim);
  }

  bool all_fixed(const Node& norm, const Node& producer) const {
    const auto is_fixed_float = [&](ValueId id) {
      if (id == kNoValue) return true;
      const TensorData* data = fixed_data(graph_, context_, id);
      return data != nullptr && is_float(data->tensor.dtype);
    };
    for (size_t i = 1; i < 5; ++i)
      if (!is_fixed_float(norm.inputs[i])) return false;
    return norm.inputs[3] != kNoValue && norm.inputs[4] != kNoValue &&
           is_fixed_float(producer.inputs[1]) && is_fixed_float(producer.inputs[2]);
  }

  double parameter(ValueId id, int64_t channel, double fallback) const {
    return id == kNoValue ? fallback : element(fixed_data(graph_, context_, id)->tensor, channel);
  }

  Result<Replacement> fold(const Node& norm, const Node& producer, int dim) {
    const Tensor& weight = fixed_data(graph_, context_, producer.inputs[1])->tensor;
    const int64_t channels = weight.shape[dim];
    const double eps = *std::get_if<double>(&attr(norm, "eps").value);
    HG_TRY_ASSIGN(TensorData new_weight, TensorData::allocate(weight.dtype, weight.shape));
    HG_TRY_ASSIGN(TensorData new_bias, TensorData::allocate(weight.dtype, {channels}));
    const int64_t outer = dim == 0 ? 1 : weight.shape[0];
    const int64_t inner = channels == 0 || outer == 0 ? 0 : weight.count() / channels / outer;
    const auto* floats = weight.dtype == f32 ? weight.as<float>() : nullptr;
    for (int64_t c = 0; c < channels; ++c) {
      const double scale =
          parameter(norm.inputs[1], c, 1) / std::sqrt(parameter(norm.inputs[4], c, 1) + eps);
      for (int64_t o = 0; o < outer; ++o) {
        const int64_t at = (o * channels + c) * inner;
        float* const to = floats != nullptr ? new_weight.tensor.as<float>() + at : nullptr;
        for (int64_t i = 0; to != nullptr && i < inner; ++i)
          to[i] = static_cast<float>(floats[at + i] * scale);
        for (int64_t i = 0; to == nullptr && i < inner; ++i)
          set_element(new_weight.tensor, at + i, element(weight, at + i) * scale);
      }
      const double bias = parameter(producer.inputs[2], c, 0);
      set_element(
          new_bias.tensor, c,
          (bias - parameter(norm.inputs[3], c, 0)) * scale + parameter(norm.inputs[2], c, 0));
    }
    release_pages(graph_, *fixed_data(graph_, context_, producer.inputs[1]));
    NamedAttrs attrs = named_attrs(producer);
    const std::string name = graph_.value_info(producer.inputs[1]).name;
    graph_.set_origin(producer.origin);
    const Value y = graph_.call(
        producer.op->name(),
        {graph_.value(producer.inputs[0]), graph_.constant(std::move(new_weight), name + "_folded"),
         graph_.constant(std::move(new_bias), name + "_folded_bias"), Value()},
        attrs);
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
