// SPDX-License-Identifier: Apache-2.0
// Runs f16 and bf16 convolutions in f32, between casts, if the fast kernels are f32 kernels.
// Kernels of 1x1 and depthwise convolutions widen the halves that they read, and round their
// results: these stay. Those of bf16 may be left to the pass channels_last; another pass then takes
// what it leaves. The result is rounded once, after the epilogue. Constant weights are widened at
// compile time and freed once they are packed.
#include <algorithm>

#include "hg/op.h"
#include "lib/compile/passes.h"
#include "lib/graph/element.h"
#include "lib/graph/options.h"

namespace hg {
Result<Value> widened(Graph& graph, const CompileContext& context, ValueId id) {
  if (id == kNoValue) return Value();
  if (graph.value_info(id).type.dtype == f32) return graph.value(id);
  const TensorData* const data = fixed_data(graph, context, id);
  if (data == nullptr) return graph.call("cast", {graph.value(id)}, {{"dtype", f32}});
  HG_TRY_ASSIGN(TensorData wide, TensorData::allocate(f32, data->tensor.shape));
  scaled_copy(data->tensor, 0, wide.tensor.count(), 1, wide.tensor);
  release_pages(graph, *data);
  return graph.constant(std::move(wide), graph.value_info(id).name + "_f32");
}

namespace {

using Replacement = std::optional<std::vector<Value>>;

// Of an image of a batch: fewer are summed for several images together, in f32.
constexpr int64_t kLeastPixels = 64;

// Whether the fast kernels read halves: with 1x1 or depthwise weights that can be packed.
bool reads_halves(const Graph& graph, const CompileContext& context, const Node& conv) {
  const AttrReader attrs(conv.op, conv.attrs);
  const Shape& y = graph.value_info(conv.outputs[0]).type.shape;
  const TensorData* const weight = fixed_type(graph, context, conv.inputs[1]);
  if (weight == nullptr || attrs.flag("transposed") || saves_memory(*context.options) ||
      context.options->precision != Precision::f32)
    return false;
  const Sizes& shape = weight->tensor.shape;
  const auto are = [&](std::string_view name, int64_t value) {
    const std::span<const Dim> all = attrs.integers(name);
    return std::all_of(all.begin(), all.end(), [&](const Dim& d) { return d == Dim(value); });
  };
  if (shape[1] == 1 && attrs.integer("groups") == Dim(shape[0])) return shape.rank() < 5;
  if (shape.count() != shape[0] * shape[1] || !are("padding", 0)) return false;
  if (y[0] == Dim(1)) return true;
  int64_t pixels = 1;
  for (size_t d = 2; d < y.size(); ++d) pixels *= y[d].is_constant() ? y[d].constant() : 0;
  return pixels >= kLeastPixels;
}

// Widens the convolutions of the dtypes for which widens(dtype) holds.
template <class Widens>
Status widen(Graph& graph, const CompileContext& context, const Widens& widens) {
  if (context.options->device != Device::cpu) return {};
  return rewrite(graph, [&](const Node& node) -> Result<Replacement> {
    const DType dtype = graph.value_info(node.outputs[0]).type.dtype;
    if (node.op->name() != "conv" || !widens(dtype) || reads_halves(graph, context, node))
      return Replacement();
    const Node conv = node;  // a copy: adding nodes moves the original
    std::vector<Value> inputs;
    for (const ValueId id : conv.inputs) {
      HG_TRY_ASSIGN(const Value wide, widened(graph, context, id));
      inputs.push_back(wide);
    }
    graph.set_origin(conv.origin);
    const Value y = graph.call("conv", inputs, named_attrs(conv));
    return Replacement({graph.call("cast", {y}, {{"dtype", dtype}})});
  });
}

}  // namespace

Status widen_half_convs(Graph& graph, const CompileContext& context) {
  const bool leaves = multiplies_bf16_rows(context);
  return widen(graph, context,
               [&](DType dtype) { return dtype == f16 || (dtype == bf16 && !leaves); });
}

Status widen_other_convs(Graph& graph, const CompileContext& context) {
  if (is_disabled(*context.options, "half_conv")) return {};
  return widen(graph, context, [](DType dtype) { return dtype == bf16; });
}

}  // namespace hg
