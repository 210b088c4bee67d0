// SPDX-License-Identifier: Apache-2.0
#include "lib/run/ready_plan.h"

#include <algorithm>

#include "lib/graph/access.h"
#include "lib/run/bound_outputs.h"

namespace hg {
namespace {

constexpr ParallelFor kOneThread;  // for kernels in a lane, which run their ranges themselves

template <class Visit>
void each_step(const Plan& plan, const Visit& visit) {
  for (const Step& step : plan.steps) visit(step);
  if (plan.measure) visit(*plan.measure);
}

size_t first_write_to_a_state(const Plan& plan) {
  size_t first = plan.steps.size();
  for (size_t i = plan.steps.size(); i-- > 0;)
    for (const PlacedTensor& out : plan.steps[i].outputs)
      if (out.place.kind == Place::Kind::state) first = i;
  return first;
}

}  // namespace

void ReadyPlan::lay_out(const Graph& graph, const RunShared& shared, bool profile) {
  make_contexts(shared);
  make_lanes();
  if (profile) ms.resize(plan.steps.size(), 0);
  homes.resize(plan.blocks.size(), nullptr);
  first_commit = first_write_to_a_state(plan);
  describe_outputs(graph);
  if (plan.measure) describe_measuring(graph);
}

void ReadyPlan::describe_outputs(const Graph& graph) {
  output_shapes.clear();
  if (plan.part == 0)
    for (const auto& [name, id] : graph.outputs()) {
      const Result<Sizes> sizes = evaluate(graph.value_info(id).type.shape, plan.bindings);
      output_shapes.push_back(sizes.ok() ? std::optional(*sizes) : std::nullopt);
    }
  find_blocks_of_outputs(graph, plan, output_blocks);
}

void ReadyPlan::refresh(const Graph& graph) {
  for (const int32_t index : refills.steps) {
    const auto i = static_cast<size_t>(index);
    const Step& step = step_at(i);
    size_t at = first_tensor[i];
    auto patch = std::lower_bound(
        patches.begin(), patches.end(), at,
        [](const InputPatch& other, size_t tensor) { return other.tensor < tensor; });
    for (const PlacedTensor& in : step.inputs) {
      if (patch != patches.end() && patch->tensor == at) (patch++)->offset = in.place.offset;
      tensors[at++] = in.tensor;
    }
    for (const PlacedTensor& out : step.outputs) tensors[at++] = out.tensor;
    contexts[i].prepared = step.state.get();
  }
  if (!refreshed.empty()) generation = -1;
  refreshed.assign(refills.steps.begin(), refills.steps.end());
  homes.assign(plan.blocks.size(), nullptr);
  output_patches.clear();
  describe_outputs(graph);
  input_shapes.clear();
  is_stale = false;
  ++fill;
}

void ReadyPlan::make_contexts(const RunShared& shared) {
  size_t count = 0;
  each_step(plan, [&](const Step& step) { count += step.inputs.size() + step.outputs.size(); });
  tensors.resize(count);
  size_t at = 0;
  each_step(plan, [&](const Step& step) {
    RunContext context;
    first_tensor.push_back(at);
    context.inputs = {tensors.data() + at, step.inputs.size()};
    for (const PlacedTensor& in : step.inputs) {
      if (in.place.kind == Place::Kind::input && in.place.side == Side::host) {
        patches.push_back({at, in.place.index, in.place.offset});
        if (step.kind != StepKind::upload) host_inputs.push_back(in.place.index);
      }
      tensors[at++] = in.tensor;
    }
    context.outputs = {tensors.data() + at, step.outputs.size()};
    for (const PlacedTensor& out : step.outputs) tensors[at++] = out.tensor;
    context.prepared = step.state.get();
    context.parallel = shared.parallel;
    context.error = shared.error;
    context.random = shared.random;
    contexts.push_back(context);
  });
}

void ReadyPlan::make_lanes() {
  size_t count = 0;
  for (const Branches& branches : plan.branches) {
    first_lane.push_back(count);
    count += branches.lanes.size();
  }
  lanes = std::make_unique<Lane[]>(count);
  for (size_t i = 0; i < plan.branches.size(); ++i) {
    Lane* lane = lanes.get() + first_lane[i];
    for (const std::vector<int32_t>& steps : plan.branches[i].lanes) {
      for (const int32_t step : steps) {
        contexts[step].parallel = &kOneThread;
        contexts[step].error = &lane->error;
      }
      ++lane;
    }
  }
}

// Describes the sizes that the measuring step of this part determines.
void ReadyPlan::describe_measuring(const Graph& graph) {
  const Step& step = *plan.measure;
  const Node& node = graph.nodes()[step.node];
  if (step.kind == StepKind::control) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Shape& shape = graph.value_info(node.outputs[i]).type.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const std::string symbol(shape[d].symbol());
        if (symbol.empty() || plan.bindings.find(symbol) ||
            std::find(symbols.begin(), symbols.end(), symbol) != symbols.end())
          continue;
        symbols.push_back(symbol);
        shown_at.emplace_back(i, static_cast<int>(d));
      }
    }
  } else {
    for (const Dim& dim : GraphAccess::fresh_symbols(graph, node))
      symbols.emplace_back(dim.symbol());
  }
  measured.resize(symbols.size());
}

}  // namespace hg
