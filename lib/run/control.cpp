// SPDX-License-Identifier: Apache-2.0
#include "lib/run/control.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lib/graph/split_mix.h"
#include "lib/run/engine.h"
#include "lib/run/extent.h"

namespace hg {
namespace {

bool lies_in(const Tensor& tensor, const Memory64& memory) {
  return extent_of(tensor).overlaps(extent_of(memory.data(), memory.bytes()));
}

bool are_same(const Tensor& a, const Tensor& b) {
  return a.data == b.data && a.shape == b.shape && a.is_contiguous() && b.is_contiguous();
}

}  // namespace

Control::Control(const Allocator& allocator, int64_t most_rounds, bool is_loop, RunLimits* limits)
    : allocator_(allocator), most_rounds_(most_rounds), limits_(limits), is_loop_(is_loop) {}

Control::~Control() = default;

Result<std::unique_ptr<Control>> Control::create(const Node& node, SessionOptions options,
                                                 const Registry& registry, Compiled& around,
                                                 RunLimits* limits) {
  std::unique_ptr<Control> control(new Control(options.allocator, options.most_rounds,
                                               (node.op->def.traits & kLoop) != 0, limits));
  options.dims.clear();
  options.memory_limit = 0;
  options.device_outputs = false;
  for (const auto& subgraph : node.subgraphs) {
    HG_TRY_ASSIGN(std::unique_ptr<Engine> body,
                  Engine::create(*subgraph, options, registry, around.of_body(subgraph, options)));
    body->run_within(limits);
    control->bodies_.push_back(std::move(body));
  }
  return control;
}

// Random numbers in bodies depend on the enclosing run and the iteration, not on earlier runs. A
// loop that runs again, as for gradients, draws the same numbers.
Status Control::run(const Step& step, std::span<const Tensor> inputs, const Bindings& sizes,
                    const RandomState& around) {
  uint64_t state = around.run;
  state = around.seed + split_mix(state);
  const RandomState random = {.seed = split_mix(state), .run = 0};
  for (const auto& body : bodies_) {
    body->set_outer_sizes(sizes);
    body->set_random(random);
  }
  const Status status = is_loop_ ? run_while(step, inputs) : run_if(step, inputs);
  if (!status.ok()) return Status(status.code(), str_cat(step.label, ": ", status.message()));
  return {};
}

// if(cond, captures...): runs the first subgraph if cond is true, otherwise the second, with the
// captures as inputs.
Status Control::run_if(const Step& step, std::span<const Tensor> inputs) {
  const size_t side = *inputs[0].as<bool>() ? 0 : 1;
  ++taken_[side];
  runs_ = {side == 0, side == 1};
  Engine& body = *bodies_[side];
  for (size_t i = 1; i < step.inputs.size(); ++i)
    HG_TRY(body.set_input(static_cast<int>(i) - 1, inputs[i]));
  HG_TRY(body.run_once());
  results_.clear();
  for (size_t i = 0; i < body.graph().outputs().size(); ++i) {
    HG_TRY_ASSIGN(const Tensor result, body.output(static_cast<int>(i)));
    results_.push_back(result);
  }
  return {};
}

// while(cond, values..., captures...): while cond is true, the body maps (values, captures) to
// (cond, values).
Status Control::run_while(const Step& step, std::span<const Tensor> inputs) {
  Engine& body = *bodies_[0];
  const size_t carried = body.graph().outputs().size() - 1;
  results_.assign(inputs.begin() + 1, inputs.begin() + 1 + static_cast<int64_t>(carried));
  carried_.resize(carried);
  bool go_on = *inputs[0].as<bool>();
  for (size_t i = 1 + carried; i < step.inputs.size(); ++i)
    HG_TRY(body.set_input(static_cast<int>(i) - 1, inputs[i]));
  int64_t rounds = 0;
  for (; go_on; ++rounds) {
    if (most_rounds_ > 0 && --limits_->rounds_left < 0)
      return invalid_argument("its loops take more than ", most_rounds_,
                              " rounds, the limit that was set");
    for (size_t i = 0; i < carried; ++i) HG_TRY(body.set_input(static_cast<int>(i), results_[i]));
    HG_TRY(body.run_once());
    HG_TRY_ASSIGN(const Tensor cond, body.output(0));
    go_on = *cond.as<bool>();
    HG_TRY(carry_on());
  }
  ++taken_[std::min<int64_t>(rounds, 2)];
  runs_[0] = rounds;
  return {};
}

// A result of an iteration is in the body's arena, which the next iteration overwrites, or is an
// input of the iteration or a view of one. A value passed on unchanged stays in place. All others
// are copied to memory that no other result of the iteration uses.
Status Control::carry_on() {
  const Engine& body = *bodies_[0];
  bool crosses = false;  // a result overlaps another value of this iteration
  for (size_t i = 0; i < carried_.size(); ++i) {
    HG_TRY_ASSIGN(const Tensor value, body.output(static_cast<int>(i) + 1));
    carried_[i].moves = !are_same(value, results_[i]);
    for (const Carried& other : carried_) crosses |= carried_[i].moves && lies_in(value, other.now);
  }
  for (size_t i = 0; i < carried_.size(); ++i) {
    Carried& kept = carried_[i];
    if (!kept.moves) continue;
    HG_TRY_ASSIGN(const Tensor value, body.output(static_cast<int>(i) + 1));
    Memory64& to = crosses ? kept.next : kept.now;
    // A value that grows in each iteration gets room for several.
    if (to.bytes() < value.bytes() &&
        !to.allocate(allocator_, std::max(value.bytes(), to.bytes() + to.bytes() / 2)))
      return out_of_memory("no memory for the ", value.bytes(), " bytes of value ",
                           static_cast<int64_t>(i), " of the loop");
    results_[i] = view(to.data(), value.dtype, value.shape);
    copy_elements(value, results_[i]);
  }
  if (!crosses) return {};
  for (Carried& kept : carried_)
    if (kept.moves) std::swap(kept.now, kept.next);
  return {};
}

}  // namespace hg
