// SPDX-License-Identifier: Apache-2.0
// Control flow nodes: their subgraphs are programs of their own.
#include <algorithm>

#include "lib/run/program.h"

namespace hg {

Status Program::make_controls(const Plan& plan) {
  controls_.resize(std::max(controls_.size(), graph_.nodes().size()));
  const auto make = [&](const Step& step) -> Status {
    if (step.kind != StepKind::control) return {};
    auto& control = controls_[static_cast<size_t>(step.node)];
    if (control != nullptr) return {};
    control = std::make_unique<Control>();
    Options options = options_;
    options.dims.clear();
    options.memory_limit = 0;
    options.parallel_for = parallel_;
    options.device_outputs = false;
    for (const auto& subgraph : graph_.nodes()[static_cast<size_t>(step.node)].subgraphs) {
      Result<std::unique_ptr<Program>> body = create(Graph(*subgraph), options, *registry_);
      if (!body.ok())
        return Status(body.status().code(), text(step.label, ": ", body.status().message()));
      control->bodies.push_back(*std::move(body));
    }
    return {};
  };
  for (const Step& step : plan.steps) HG_TRY(make(step));
  if (plan.measure) HG_TRY(make(*plan.measure));
  return {};
}

Status Program::run_control(const Step& step, const RunContext& context, const Bindings& sizes) {
  Control& control = *controls_[static_cast<size_t>(step.node)];
  for (const auto& body : control.bodies) body->set_outer_sizes(sizes);
  const Status status = graph_.nodes()[static_cast<size_t>(step.node)].op->name() == "while"
                            ? run_while(control, step, context.inputs)
                            : run_if(control, step, context.inputs);
  if (!status.ok()) return Status(status.code(), text(step.label, ": ", status.message()));
  return {};
}

// if(cond, captures...): the first subgraph when cond is true, else the second; each takes the
// captures.
Status Program::run_if(Control& control, const Step& step, std::span<const Tensor> inputs) {
  Program& body = *control.bodies[*inputs[0].as<bool>() ? 0 : 1];
  for (size_t i = 1; i < step.inputs.size(); ++i)
    HG_TRY(body.set_input(static_cast<int>(i) - 1, inputs[i]));
  HG_TRY(body.run());
  control.results.clear();
  for (size_t i = 0; i < body.graph().outputs().size(); ++i) {
    HG_TRY_ASSIGN(const Tensor result, body.output(static_cast<int>(i)));
    control.results.push_back(result);
  }
  return {};
}

// while(cond, values..., captures...): as long as cond is true the body takes (values, captures)
// and gives (cond, values). The body's results are copied between rounds, since its inputs must not
// lie in its own arena.
Status Program::run_while(Control& control, const Step& step, std::span<const Tensor> inputs) {
  Program& body = *control.bodies[0];
  const size_t carried = body.graph().outputs().size() - 1;
  control.results.assign(inputs.begin() + 1, inputs.begin() + 1 + static_cast<int64_t>(carried));
  control.carried.resize(carried);
  bool go_on = *inputs[0].as<bool>();
  for (size_t i = 1 + carried; i < step.inputs.size(); ++i)
    HG_TRY(body.set_input(static_cast<int>(i) - 1, inputs[i]));
  while (go_on) {
    for (size_t i = 0; i < carried; ++i)
      HG_TRY(body.set_input(static_cast<int>(i), control.results[i]));
    HG_TRY(body.run());
    HG_TRY_ASSIGN(const Tensor cond, body.output(0));
    go_on = *cond.as<bool>();
    for (size_t i = 0; i < carried; ++i) {
      HG_TRY_ASSIGN(const Tensor value, body.output(static_cast<int>(i) + 1));
      TensorData& kept = control.carried[i];
      if (kept.empty() || !(kept.tensor.shape == value.shape)) {
        HG_TRY_ASSIGN(kept, TensorData::copy_of(value));
      } else {
        copy(value, kept.tensor);
      }
      control.results[i] = kept.tensor;
    }
  }
  return {};
}

}  // namespace hg
