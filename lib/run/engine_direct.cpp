// SPDX-License-Identifier: Apache-2.0
// Runs small engines on memory passed in each call: sets pointers and runs kernels.
#include <algorithm>

#include "lib/run/engine.h"

namespace hg {

bool Engine::can_run_on() {
  if (parts_.size() != 1 || device_ != nullptr || options_.profile) return false;
  ReadyPlan& ready = *parts_.front();
  const Plan& plan = ready.plan;
  if (plan.next_node != graph_.nodes().size() || plan.measure || !plan.branches.empty() ||
      !graph_.assignments().empty())
    return false;
  for (size_t i = 0; i < ready.output_blocks.size(); ++i) {
    const int32_t block = ready.output_blocks[i];
    if (block < 0 || std::count(ready.output_blocks.begin(), ready.output_blocks.end(), block) > 1)
      return false;
  }
  ready.output_patches.clear();
  size_t at = 0;
  const auto patch = [&](const PlacedTensor& placed) {
    const auto& blocks = ready.output_blocks;
    const auto found = placed.place.kind == Place::Kind::arena
                           ? std::find(blocks.begin(), blocks.end(), placed.place.block)
                           : blocks.end();
    if (found != blocks.end() && placed.place.block >= 0)
      ready.output_patches.push_back(
          {at, static_cast<size_t>(found - blocks.begin()),
           placed.place.offset - plan.blocks[placed.place.block].offset});
    ++at;
  };
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::kernel) return false;
    for (const PlacedTensor& in : step.inputs) patch(in);
    for (const PlacedTensor& out : step.outputs) patch(out);
  }
  return true;
}

Status Engine::run_on(std::span<void* const> inputs, std::span<void* const> outputs) {
  ReadyPlan& ready = *parts_.front();
  if (ready.generation != generation_ || !ready.refreshed.empty()) resolve(ready);
  ready.is_rebound = true;
  for (const ReadyPlan::InputPatch& patch : ready.patches)
    ready.tensors[patch.tensor].data = static_cast<std::byte*>(inputs[patch.input]) + patch.offset;
  for (const ReadyPlan::OutputPatch& patch : ready.output_patches)
    ready.tensors[patch.tensor].data =
        static_cast<std::byte*>(outputs[patch.output]) + patch.offset;
  for (size_t i = 0; i < ready.plan.steps.size(); ++i) {
    const Step& step = ready.plan.steps[i];
    step.kernel->run(ready.contexts[i]);
    if (error_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      return failure(step);
  }
  return {};
}

// The same condition under which the planner lets an output overwrite an input that nobody else
// reads.
bool Engine::may_overwrite(size_t output, size_t input) const {
  const Plan& plan = parts_.front()->plan;
  if (plan.steps.size() != 1 || plan.steps[0].node < 0) return false;
  const Step& step = plan.steps[0];
  const Node& node = graph_.nodes()[step.node];
  const auto made =
      std::find(node.outputs.begin(), node.outputs.end(), graph_.outputs()[output].second);
  const auto k = static_cast<size_t>(made - node.outputs.begin());
  const bool in_place = node.op->def.traits & kInPlace;
  if (made == node.outputs.end() || (k > 0 && !in_place)) return false;
  bool found = false;
  for (size_t i = 0, given = 0; i < step.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const size_t rank = given++;
    const PlacedTensor& in = step.inputs[i];
    if (in.place.kind != Place::Kind::input || static_cast<size_t>(in.place.index) != input)
      continue;
    if (i >= 32 || !may_lie_on(step.outputs[k].tensor, in) ||
        (in_place ? rank != k : !((node.op->def.alias >> i) & 1u)))
      return false;
    found = true;
  }
  return found;
}

std::optional<Engine::InputView> Engine::view_of_input(size_t output) const {
  if (parts_.size() != 1 || !parts_.front()->plan.steps.empty() || device_ != nullptr)
    return std::nullopt;
  const PlacedTensor* const made =
      parts_.front()->plan.find(graph_.outputs()[output].second, Side::host);
  if (made == nullptr || made->place.kind != Place::Kind::input) return std::nullopt;
  return InputView{static_cast<size_t>(made->place.index), made->place.offset, made->tensor};
}

}  // namespace hg
