// SPDX-License-Identifier: Apache-2.0
// Runs f16 and bf16 convolutions in f32, between casts, if the fast kernels are f32 kernels. Those
// of bf16 may be left to the pass channels_last; another pass then takes what it leaves. The result
// is rounded once, after the epilogue. Constant weights are widened at compile time and freed once
// they are packed.
#include "lib/compile/passes.h"
#include "lib/graph/element.h"
#include "lib/graph/options.h"

namespace hg {
Result<Value> widened(Graph& graph, const CompileContext& context, ValueId id) {
  if (id == kNoValue) return Value();
  const TensorData* const data = fixed_data(graph, context, id);
  if (graph.value_info(id).type.dtype == f32) return graph.value(id);
  if (data == nullptr) return graph.call("cast", {graph.value(id)}, {{"dtype", f32}});
  HG_TRY_ASSIGN(TensorData wide, TensorData::allocate(f32, data->tensor.shape));
  for (int64_t i = 0; i < wide.tensor.count(); ++i)
    wide.tensor.as<float>()[i] = static_cast<float>(element(data->tensor, i));
  release_pages(graph, *data);
  return graph.constant(std::move(wide), graph.value_info(id).name + "_f32");
}

namespace {

using Replacement = std::optional<std::vector<Value>>;

// Widens the convolutions of the dtypes for which widens(dtype) holds.
template <class Widens>
Status widen(Graph& graph, const CompileContext& context, const Widens& widens) {
  if (context.options->device != Device::cpu) return {};
  return rewrite(graph, [&](const Node& node) -> Result<Replacement> {
    const DType dtype = graph.value_info(node.outputs[0]).type.dtype;
    if (node.op->name() != "conv" || !widens(dtype)) return Replacement();
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
