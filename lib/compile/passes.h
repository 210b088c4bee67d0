// SPDX-License-Identifier: Apache-2.0
// Graph-to-graph passes. Each preserves the meaning of the graph and can be disabled by name.
#pragma once

#include <span>
#include <string_view>

#include "hg/options.h"
#include "lib/graph/rewrite.h"

namespace hg {

struct CompileContext {
  const Registry* registry = nullptr;
  const SessionOptions* options = nullptr;
  // States that a run changes. Passes treat all other states as constants.
  std::vector<bool> mutable_states;
  // Runs a graph without inputs and returns its outputs. Passes do not know kernels.
  Result<std::vector<TensorData>> (*evaluate)(Graph graph, const CompileContext& context) = nullptr;
};

struct Pass {
  std::string_view name;
  Status (*run)(Graph& graph, const CompileContext& context);  // null: no change to the graph
  bool required = false;                                       // every session needs it
  // The ops that the pass creates, if they are few. A build without them (HG_OPS) omits the pass.
  std::string_view makes = {}, or_makes = {};
  bool held = true;  // false: useless in this build
};

// In the order in which they run.
std::span<const Pass> all_passes();

Status expand_composites(Graph& graph, const CompileContext& context);
// Composites that the fusions left and that only the CPU has a kernel for.
Status expand_for_device(Graph& graph, const CompileContext& context);
Status fold_for_device(Graph& graph, const CompileContext& context);
Status remove_dead(Graph& graph, const CompileContext& context);
// Bytes of a value that the pass `fold` may keep instead of smaller constants.
inline constexpr int64_t kMostFolded = int64_t{1} << 20;
Status fold_constants(Graph& graph, const CompileContext& context);
Status capture_constants(Graph& graph, const CompileContext& context);
Status read_low_bits(Graph& graph, const CompileContext& context);
Status read_half_weights(Graph& graph, const CompileContext& context);
Status merge_common(Graph& graph, const CompileContext& context);
Status fold_batch_norm(Graph& graph, const CompileContext& context);
Status form_linear(Graph& graph, const CompileContext& context);
Status pad_causal(Graph& graph, const CompileContext& context);
Status conv_to_matmul(Graph& graph, const CompileContext& context);
Status simplify_views(Graph& graph, const CompileContext& context);
Status compute_read_rows(Graph& graph, const CompileContext& context);
Status find_activations(Graph& graph, const CompileContext& context);
Status find_norms(Graph& graph, const CompileContext& context);
Status find_rope(Graph& graph, const CompileContext& context);
Status find_real_fft(Graph& graph, const CompileContext& context);
Status reduce_selected_rows(Graph& graph, const CompileContext& context);
Status drop_vectors(Graph& graph, const CompileContext& context);
Status square_by_product(Graph& graph, const CompileContext& context);
Status find_attention(Graph& graph, const CompileContext& context);
Status mix_attention(Graph& graph, const CompileContext& context);
Status fuse_epilogues(Graph& graph, const CompileContext& context);
Status widen_half_convs(Graph& graph, const CompileContext& context);
Status widen_other_convs(Graph& graph, const CompileContext& context);
Status lay_channels_last(Graph& graph, const CompileContext& context);
Status form_programs(Graph& graph, const CompileContext& context);
Status update_early(Graph& graph, const CompileContext& context);

// Whether convolutions of bf16 multiply rows of bf16, once channels are the last dim.
bool multiplies_bf16_rows(const CompileContext& context);
// The value in f32: a constant that replaces fixed data of 16 bits, or a cast.
Result<Value> widened(Graph& graph, const CompileContext& context, ValueId id);

// The data of a constant, or of a state that no run assigns; otherwise null.
const TensorData* fixed_data(const Graph& graph, const CompileContext& context, ValueId id);
// The same, but the elements may be computed later (lib/graph/later_data.h).
const TensorData* fixed_type(const Graph& graph, const CompileContext& context, ValueId id);

// Whether the library's own elementwise kernels compute the node on the CPU.
bool is_elementwise(const Node& node, const CompileContext& context);

// Runs all enabled passes. Fails with all ops that no kernel supports.
Status compile(Graph& graph, const CompileContext& context);

}  // namespace hg
