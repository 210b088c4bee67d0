// SPDX-License-Identifier: Apache-2.0
// Control flow nodes: their subgraphs are programs of their own.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "lib/run/extent.h"
#include "lib/run/program.h"

namespace hg {

Status Program::make_controls(const Plan& plan) {
  controls_.resize(std::max(controls_.size(), graph_.nodes().size()));
  const auto make = [&](const Step& step) -> Status {
    if (step.kind != StepKind::control) return {};
    auto& control = controls_[static_cast<size_t>(step.node)];
    if (control != nullptr) return {};
    control = std::make_unique<Control>();
    SessionOptions options = options_;
    options.dims.clear();
    options.memory_limit = 0;
    options.parallel_for = parallel_;
    options.device_outputs = false;
    for (const auto& subgraph : graph_.nodes()[static_cast<size_t>(step.node)].subgraphs) {
      Result<std::unique_ptr<Program>> body =
          create(*subgraph, options, *registry_, compiled_->of_body(subgraph, options));
      if (!body.ok())
        return Status(body.status().code(), text(step.label, ": ", body.status().message()));
      (*body)->limits_ = limits_;
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
  const Op& op = *graph_.nodes()[static_cast<size_t>(step.node)].op;
  const Status status = op.def.traits & kLoop ? run_while(control, step, context.inputs)
                                              : run_if(control, step, context.inputs);
  if (!status.ok()) return Status(status.code(), text(step.label, ": ", status.message()));
  return {};
}

// if(cond, captures...): the first subgraph when cond is true, else the second; each takes the
// captures.
Status Program::run_if(Control& control, const Step& step, std::span<const Tensor> inputs) {
  const size_t side = *inputs[0].as<bool>() ? 0 : 1;
  ++control.taken[side];
  control.runs = {side == 0, side == 1};
  Program& body = *control.bodies[side];
  for (size_t i = 1; i < step.inputs.size(); ++i)
    HG_TRY(body.set_input(static_cast<int>(i) - 1, inputs[i]));
  HG_TRY(body.run_once());
  control.results.clear();
  for (size_t i = 0; i < body.graph().outputs().size(); ++i) {
    HG_TRY_ASSIGN(const Tensor result, body.output(static_cast<int>(i)));
    control.results.push_back(result);
  }
  return {};
}

namespace {

bool lies_in(const Tensor& tensor, const Memory64& memory) {
  return extent_of(tensor).overlaps(extent_of(memory.data(), memory.bytes()));
}

bool are_same(const Tensor& a, const Tensor& b) {
  return a.data == b.data && a.shape == b.shape && a.is_contiguous() && b.is_contiguous();
}

}  // namespace

// while(cond, values..., captures...): as long as cond is true the body takes (values, captures)
// and gives (cond, values). What a round gives lies in the body's arena, which the next round
// overwrites, or is what the round took, or a view of it: a value passed on as it is stays where it
// is, and the others are copied to where no other result of the round lies.
Status Program::run_while(Control& control, const Step& step, std::span<const Tensor> inputs) {
  Program& body = *control.bodies[0];
  const size_t carried = body.graph().outputs().size() - 1;
  control.results.assign(inputs.begin() + 1, inputs.begin() + 1 + static_cast<int64_t>(carried));
  control.carried.resize(carried);
  bool go_on = *inputs[0].as<bool>();
  for (size_t i = 1 + carried; i < step.inputs.size(); ++i)
    HG_TRY(body.set_input(static_cast<int>(i) - 1, inputs[i]));
  int64_t rounds = 0;
  for (; go_on; ++rounds) {
    if (options_.most_rounds > 0 && --limits_->rounds_left < 0)
      return invalid_argument("its loops take more than ", options_.most_rounds,
                              " rounds, the limit that was set");
    for (size_t i = 0; i < carried; ++i)
      HG_TRY(body.set_input(static_cast<int>(i), control.results[i]));
    HG_TRY(body.run_once());
    HG_TRY_ASSIGN(const Tensor cond, body.output(0));
    go_on = *cond.as<bool>();
    bool crosses = false;  // a result lies where another value of this round does
    for (size_t i = 0; i < carried; ++i) {
      HG_TRY_ASSIGN(const Tensor value, body.output(static_cast<int>(i) + 1));
      control.carried[i].moves = !are_same(value, control.results[i]);
      for (const Control::Carried& other : control.carried)
        crosses |= control.carried[i].moves && lies_in(value, other.now);
    }
    for (size_t i = 0; i < carried; ++i) {
      Control::Carried& kept = control.carried[i];
      if (!kept.moves) continue;
      HG_TRY_ASSIGN(const Tensor value, body.output(static_cast<int>(i) + 1));
      Memory64& to = crosses ? kept.next : kept.now;
      // What grows in each round gets room for more than one.
      if (to.bytes() < value.bytes() &&
          !to.allocate(options_.allocator, std::max(value.bytes(), to.bytes() + to.bytes() / 2)))
        return out_of_memory("no memory for the ", value.bytes(), " bytes of value ",
                             static_cast<int64_t>(i), " of the loop");
      control.results[i] = view(to.data(), value.dtype, value.shape);
      copy_elements(value, control.results[i]);
    }
    if (!crosses) continue;
    for (Control::Carried& kept : control.carried)
      if (kept.moves) std::swap(kept.now, kept.next);
  }
  ++control.taken[static_cast<size_t>(std::min<int64_t>(rounds, 2))];
  control.runs[0] = rounds;
  return {};
}

}  // namespace hg
