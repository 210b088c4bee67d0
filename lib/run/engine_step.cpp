// SPDX-License-Identifier: Apache-2.0
// Runs an engine in single steps.
#include <algorithm>
#include <map>
#include <utility>

#include "lib/graph/clock.h"
#include "lib/run/engine.h"

namespace hg {

Result<std::optional<StepRow>> Engine::step() {
  if (!stepping_) {
    own_limits_ = {options_.most_rounds, nullptr, nullptr};
    HG_TRY(begin_run());
    HG_TRY(begin_part(*parts_.back()));
    stepping_ = Stepping{{}, values_by_step(parts_.back()->plan)};
  }
  Stepping now = *std::exchange(stepping_, std::nullopt);  // any failure ends the run
  while (now.at.step == parts_.back()->plan.steps.size()) {
    HG_TRY_ASSIGN(const bool more, next_part_begins());
    if (!more) {
      HG_TRY(finish_run());
      return std::optional<StepRow>();
    }
    HG_TRY(begin_part(*parts_.back()));
    now = {{}, values_by_step(parts_.back()->plan)};
  }
  ReadyPlan& ready = *parts_.back();
  const size_t first = now.at.step;
  const Clock::time_point start = Clock::now();
  HG_TRY(advance(ready, now.at));
  const double ms = ms_since(start);
  StepRow row = row_of(ready, now.at.step - 1);
  row.ms = ms;
  for (size_t i = first; i < now.at.step; ++i)
    for (const ValueId id : now.made[i])
      if (const std::optional<Tensor> value = made_by(ready, i, id))
        row.outputs.emplace_back(graph_.value_info(id).name, *value);
  stepping_ = std::move(now);
  return std::optional(std::move(row));
}

// The values that are available after a step, in graph order: results of its node, and of nodes
// without a step, such as views of other results, views of copies, or concatenations in place.
std::vector<std::vector<ValueId>> Engine::values_by_step(const Plan& plan) const {
  std::vector<std::vector<ValueId>> made(plan.steps.size());
  if (made.empty()) return made;
  constexpr int32_t kNone = -1;
  std::vector<int32_t> first(graph_.nodes().size(), kNone), last = first;  // by node
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const int32_t node = plan.steps[i].node;
    if (node < 0) continue;
    if (first[node] == kNone) first[node] = static_cast<int32_t>(i);
    last[node] = static_cast<int32_t>(i);
  }
  std::map<int32_t, int32_t> copied;  // blocks that copies added by the planner write
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (plan.steps[i].node < 0)
      for (const PlacedTensor& out : plan.steps[i].outputs)
        if (out.place.side == Side::host) copied[out.place.block] = static_cast<int32_t>(i);
  for (size_t n = plan.first_node; n < plan.next_node; ++n) {
    const Node& node = graph_.nodes()[n];
    if (first[n] == kNone) {
      first[n] = 0;
      for (const ValueId id : node.inputs)
        if (const int32_t from = id == kNoValue ? kNone : graph_.value_info(id).node; from >= 0)
          first[n] = std::max(first[n], last[from]);
      if (const PlacedTensor* const here = plan.find(node.outputs[0], Side::host))
        if (const auto copy = copied.find(here->place.block);
            copy != copied.end() && here->place.block >= 0)
          first[n] = std::max(first[n], copy->second);
      last[n] = first[n];
    }
    made[first[n]].insert(made[first[n]].end(), node.outputs.begin(), node.outputs.end());
  }
  return made;
}

std::optional<Tensor> Engine::made_by(const ReadyPlan& ready, size_t index, ValueId id) const {
  const Step& step = ready.plan.steps[index];
  const int32_t node = graph_.value_info(id).node;
  Tensor tensor;
  if (step.node == node) {
    const std::vector<ValueId>& outputs = graph_.nodes()[node].outputs;
    const size_t k = std::find(outputs.begin(), outputs.end(), id) - outputs.begin();
    if (k >= ready.contexts[index].outputs.size()) return {};
    tensor = ready.contexts[index].outputs[k];
  } else if (const PlacedTensor* const here = ready.plan.find(id, Side::host)) {
    tensor = here->tensor;
    tensor.data = address_of(here->place);
  }
  if (tensor.data == nullptr) return {};
  return tensor;
}

StepRow Engine::row_of(const ReadyPlan& ready, size_t index) const {
  const Step& step = ready.plan.steps[index];
  StepRow row;
  if (step.kernel != nullptr) row.kernel = step.kernel->name;
  if (step.node < 0) {
    row.node = row.op = step.label;
    return row;
  }
  const Node& node = graph_.nodes()[step.node];
  row.node = graph_.value_info(node.outputs[0]).name;
  row.op = node.op->name();
  row.module = node.origin.module;
  return row;
}

}  // namespace hg
