// SPDX-License-Identifier: Apache-2.0
// The list of passes, and the passes that every session needs.
#include <algorithm>
#include <array>
#include <set>

#include "lib/compile/passes.h"
#include "lib/device/backend.h"
#include "lib/graph/lacks.h"
#include "lib/graph/later_data.h"
#include "lib/graph/options.h"

namespace hg {
namespace {

constexpr Pass kAllPasses[] = {
    {"expand", expand_composites, true},
    {"dead", remove_dead},
    {"cse", merge_common},
    {.name = "low_bits",
     .run = read_low_bits,
     .makes = "quantized_linear",
     .or_makes = "quantized_embedding"},
    {.name = "half_weights",
     .run = read_half_weights,
     .makes = "mixed_linear",
     .or_makes = "mixed_grouped_mm"},
    {"fold", fold_constants},
    {.name = "captures", .run = capture_constants, .makes = "if", .or_makes = "while"},
    {"linear", form_linear},
    {"causal", pad_causal},
    {"conv_to_matmul", conv_to_matmul},
    {"views", simplify_views},
    {.name = "rows", .run = compute_read_rows, .makes = "linear", .or_makes = "quantized_linear"},
    {"activations", find_activations},
    {.name = "norms", .run = find_norms, .makes = "layer_norm", .or_makes = "rms_norm"},
    {.name = "rope", .run = find_rope, .makes = "rope"},
    {.name = "fft", .run = find_real_fft, .makes = "fft_of_real", .or_makes = "fft_to_real"},
    {.name = "gathers", .run = reduce_selected_rows, .makes = "index_select_reduce"},
    {.name = "powers", .run = square_by_product, .makes = "mul"},
    {.name = "vectors", .run = drop_vectors, .makes = "svdvals", .or_makes = "eigvalsh"},
    {.name = "attention", .run = find_attention, .makes = "attention"},
    {.name = "mixed_attention", .run = mix_attention, .makes = "mixed_attention"},
    {"batch_norm", fold_batch_norm},
    {"epilogue", fuse_epilogues},
    {"expand_for_device", expand_for_device, true},
    {"fold_for_device", fold_for_device},
    {"dead_after_fusion", remove_dead},
    {.name = "half_conv", .run = widen_half_convs, .held = holds(DType::f16) || holds(DType::bf16)},
    {.name = "channels_last",
     .run = lay_channels_last,
     .makes = "permute",
     .or_makes = "conv_to_channels_last"},
    {.name = "half_conv_left", .run = widen_other_convs, .held = holds(DType::bf16)},
    {.name = "programs",
     .run = form_programs,
     .makes = "pointwise_program",
     .or_makes = "pointwise_reduction"},
    {.name = "updates", .run = update_early, .held = kHoldsGradients},
    {"branches", nullptr},  // done by the planner: see lib/plan/branches.h
};

constexpr bool is_held(const Pass& pass) {
  return pass.held && (pass.makes.empty() || holds_op(pass.makes) || holds_op(pass.or_makes));
}
constexpr size_t kHeld = [] {
  size_t count = 0;
  for (const Pass& pass : kAllPasses) count += is_held(pass);
  return count;
}();
constexpr std::array<Pass, kHeld> kPasses = [] {
  std::array<Pass, kHeld> held;
  size_t next = 0;
  for (const Pass& pass : kAllPasses)
    if (is_held(pass)) held[next++] = pass;
  return held;
}();

bool has_kernel(const Op& op, const CompileContext& context, Device device) {
  if (op.def.view != nullptr || (op.def.traits & kControl)) return true;
  return device == Device::cpu ? !context.registry->kernels(op.name(), device).empty()
                               : !kernels_of(context.options->gpu, *context.registry, op).empty();
}

// Expands all composites that `stays` does not exclude. Expansions may contain composites.
template <class Stays>
Status expand_all(Graph& graph, const Stays& stays) {
  for (bool changed = true; changed;) {
    changed = false;
    HG_TRY(rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      if (node.op->def.expand == nullptr || stays(*node.op))
        return std::optional<std::vector<Value>>();
      HG_TRY_ASSIGN(std::vector<Value> values, GraphAccess::expand(graph, node));
      changed = true;
      return std::optional(std::move(values));
    }));
  }
  return {};
}

// Kernels of a reduced build would ignore nodes of missing dtypes without an error.
Status check_dtypes(const Graph& graph, const SessionOptions& options) {
  if constexpr (kHoldsAll) return {};
  if (options.precision == Precision::bf16 && !holds(DType::bf16))
    return lacks("the dtype bf16 of Precision::bf16");
  const auto lacked = [&](ValueId id, const char* what) {
    const ValueInfo& value = graph.value_info(id);
    return lacks(str_cat("the dtype ", value.type.dtype, " of the ", what, " '", value.name, "'"));
  };
  for (const ValueId id : graph.inputs())
    if (!holds(graph.value_info(id).type.dtype)) return lacked(id, "input");
  for (const State& state : graph.states())
    if (!holds(graph.value_info(state.value).type.dtype)) return lacked(state.value, "state");
  for (const Node& node : graph.nodes())
    for (const ValueId id : node.outputs)
      if (const TensorType& type = graph.value_info(id).type; !holds(type.dtype))
        return lacks(str_cat("the dtype ", type.dtype, " of ", label(graph, node)));
  return {};
}

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

const TensorData* fixed_data(const Graph& graph, const CompileContext& context, ValueId id) {
  const TensorData* const data = fixed_type(graph, context, id);
  if (data != nullptr) compute_now(graph, *data);
  return data;
}

const TensorData* fixed_type(const Graph& graph, const CompileContext& context, ValueId id) {
  if (id == kNoValue) return nullptr;
  const int32_t state = graph.value_info(id).state;
  if (state < 0) return nullptr;
  const auto index = static_cast<size_t>(state);
  if (index < context.mutable_states.size() && context.mutable_states[index]) return nullptr;
  return &graph.states()[index].data;
}

Status expand_composites(Graph& graph, const CompileContext& context) {
  return expand_all(graph, [&](const Op& op) {
    return has_kernel(op, context, Device::cpu) ||
           (context.options->device == Device::vulkan && has_kernel(op, context, Device::vulkan));
  });
}

Status expand_for_device(Graph& graph, const CompileContext& context) {
  if (context.options->device != Device::vulkan) return {};
  // A scan runs step by step. The CPU's kernel finishes before a device could start all the
  // dispatches.
  const auto is_scan = [&](const Op& op) {
    return (op.def.traits & kScan) && has_kernel(op, context, Device::cpu);
  };
  return expand_all(graph, [&](const Op& op) {
    return has_kernel(op, context, Device::vulkan) || is_scan(op) ||
           (op.def.traits & (kRandom | kDataDependent));
  });
}

Status fold_for_device(Graph& graph, const CompileContext& context) {
  return context.options->device == Device::vulkan ? fold_constants(graph, context) : Status();
}

Status remove_dead(Graph& graph, const CompileContext&) {
  remove_dead_nodes(graph);
  return {};
}

Status compile(Graph& graph, const CompileContext& context) {
  const auto& disabled = context.options->disabled_passes;
  for (const std::string& name : disabled)
    HG_CHECK(name == "*" ||
                 std::any_of(std::begin(kPasses), std::end(kPasses),
                             [&](const Pass& pass) { return pass.name == name && !pass.required; }),
             "there is no pass '", name, "' that can be disabled");
  HG_TRY(check_dtypes(graph, *context.options));
  for (const Pass& pass : kPasses) {
    const bool off = is_disabled(*context.options, pass.name) || context.options->keep_all_values;
    if (pass.run == nullptr || (!pass.required && off)) continue;
    const Status status = pass.run(graph, context);
    if (!status.ok())
      return Status(status.code(), str_cat("pass '", pass.name, "': ", status.message()));
    HG_TRY(check_dtypes(graph, *context.options));
  }
  std::set<std::string_view> missing;
  for (const Node& node : graph.nodes())
    if (!has_kernel(*node.op, context, Device::cpu)) missing.insert(node.op->name());
  if (missing.empty()) return {};
  std::string names;
  for (const std::string_view name : missing) names += str_cat(names.empty() ? "" : ", ", name);
  return unsupported("no kernel runs these ops on the CPU: ", names);
}

}  // namespace hg
