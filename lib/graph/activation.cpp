// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/activation.h"

#include "hg/pointwise_program.h"
#include "lib/graph/access.h"

namespace hg {
namespace {

struct Row {
  std::string_view op;
  std::string_view call;  // as a step of a pointwise program
};
constexpr Row kRows[] = {
#define HG_ACTIVATION(number, name, op, attrs) {#op, #op " x0 " #attrs},
#include "hg/activations.inc"
};

Result<PointwiseProgram::Step> step_of(const Row& row) {
  HG_TRY_ASSIGN(const PointwiseProgram program,
                PointwiseProgram::parse(row.call, 1, Registry::built_in()));
  return program.steps[0];
}

}  // namespace

Value apply_activation(const Value& x, Activation activation) {
  if (activation == Activation::none) return x;
  const Result<PointwiseProgram::Step> step = step_of(kRows[static_cast<size_t>(activation)]);
  if (!step.ok()) return x.graph()->fail(step.status());
  return x.graph()->call(step->op->name(), {x}, named_attrs(*step->op, step->attrs));
}

Activation activation_of(const Node& node) {
  for (int i = 0; i < kActivationCount; ++i) {
    if (kRows[i].op != node.op->name()) continue;
    const Result<PointwiseProgram::Step> step = step_of(kRows[i]);
    if (step.ok() && step->attrs == node.attrs) return static_cast<Activation>(i);
  }
  return Activation::none;
}

}  // namespace hg
