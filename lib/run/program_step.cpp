// SPDX-License-Identifier: Apache-2.0
// Running a program by single steps.
#include <chrono>

#include "lib/run/program.h"

namespace hg {

Result<std::optional<StepRow>> Program::step() {
  if (!stepping_) {
    own_limits_ = {options_.most_rounds, nullptr, nullptr};
    HG_TRY(begin_run());
    HG_TRY(begin_part(*parts_.back()));
    stepping_.emplace();
  }
  Cursor at = *stepping_;
  stepping_.reset();  // whatever fails ends the run
  while (at.step == parts_.back()->plan.steps.size()) {
    HG_TRY_ASSIGN(const bool more, next_part_begins());
    if (!more) {
      HG_TRY(finish_run());
      return std::optional<StepRow>();
    }
    HG_TRY(begin_part(*parts_.back()));
    at = {};
  }
  ReadyPlan& ready = *parts_.back();
  const auto start = std::chrono::steady_clock::now();
  HG_TRY(advance(ready, at));
  const auto end = std::chrono::steady_clock::now();
  StepRow row = row_of(ready, at.step - 1);
  row.ms = std::chrono::duration<double, std::milli>(end - start).count();
  stepping_ = at;
  return std::optional(std::move(row));
}

StepRow Program::row_of(const ReadyPlan& ready, size_t index) const {
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
  const RunContext& context = ready.contexts[index];
  for (size_t k = 0; k < context.outputs.size() && k < node.outputs.size(); ++k)
    if (context.outputs[k].data != nullptr)
      row.outputs.emplace_back(graph_.value_info(node.outputs[k]).name, context.outputs[k]);
  return row;
}

}  // namespace hg
