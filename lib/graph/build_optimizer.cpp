// SPDX-License-Identifier: Apache-2.0
// Builders of optimizer ops: inputs and attributes of one update, in signature order.

#include "hg/ops/optimizer.h"

namespace hg {
namespace {

std::vector<Value> step_of(std::string_view op, std::vector<Value> states, const Value& gradient,
                           const Value& lr, const Value& step, const StepOptions& options,
                           NamedAttrs attrs) {
  states.insert(states.end(), {options.accumulated, gradient, lr, step, options.scale, options.go});
  attrs.push_back({"group", options.group});
  attrs.push_back({"first", options.first});
  attrs.push_back({"weight_decay", options.weight_decay});
  if (options.clip_value) attrs.push_back({"clip_value", *options.clip_value});
  attrs.push_back({"maximize", options.maximize});
  return states.front().graph()->calls(op, states, attrs);
}

}  // namespace

std::vector<Value> sgd_step(const Value& x, const Value& gradient, const Value& lr,
                            const Value& step, const SgdOptions& sgd, const StepOptions& options) {
  return step_of(
      "sgd_step", {x, sgd.momentum_buffer}, gradient, lr, step, options,
      {{"momentum", sgd.momentum}, {"dampening", sgd.dampening}, {"nesterov", sgd.nesterov}});
}

std::vector<Value> adam_step(const Value& x, const Value& mean, const Value& square,
                             const Value& gradient, const Value& lr, const Value& step,
                             const AdamOptions& adam, const StepOptions& options) {
  return step_of("adam_step", {x, mean, square, adam.largest}, gradient, lr, step, options,
                 {{"beta1", adam.beta1},
                  {"beta2", adam.beta2},
                  {"eps", adam.eps},
                  {"decoupled", adam.decoupled}});
}

std::vector<Value> rmsprop_step(const Value& x, const Value& square, const Value& gradient,
                                const Value& lr, const Value& step, const RmspropOptions& rmsprop,
                                const StepOptions& options) {
  return step_of("rmsprop_step", {x, square, rmsprop.mean, rmsprop.momentum_buffer}, gradient, lr,
                 step, options,
                 {{"alpha", rmsprop.alpha}, {"eps", rmsprop.eps}, {"momentum", rmsprop.momentum}});
}

}  // namespace hg
