// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hg/train.h"
#include "lib/graph/access.h"
#include "lib/graph/split_mix.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/ops/op_checks.h"

namespace hg::test {
namespace {

// The sum of weights * y over all outputs, in doubles.
double weigh(const std::vector<Answer>& answers, const std::vector<std::vector<double>>& weights) {
  double total = 0;
  for (size_t k = 0; k < answers.size(); ++k)
    for (size_t i = 0; i < weights[k].size(); ++i) total += weights[k][i] * answers[k].values[i];
  return total;
}

}  // namespace

void check_gradient(const Sample& sample) {
  const bool has_floats = std::any_of(sample.inputs.begin(), sample.inputs.end(),
                                      [](const SampleInput& input) { return input.dtype == f32; });
  const Op* op = Registry::built_in().find(sample.op);
  if (!has_floats || !sample.gradient || op->def.grad == nullptr ||
      (op->def.traits & kNoGradient) != 0)
    return;
  std::unique_ptr<Case> built = must(build(sample, f64));
  Case& c = *built;
  std::vector<Answer> first = must(run(c, on_threads(1)));

  std::vector<std::vector<double>> weights;
  std::vector<Value> douts;
  uint64_t state = 7;
  for (const Answer& answer : first) {
    weights.emplace_back();
    if (!is_float(answer.dtype)) {
      douts.emplace_back();
      continue;
    }
    TensorData data = must(TensorData::allocate(answer.dtype, answer.shape));
    for (int64_t i = 0; i < answer.shape.count(); ++i) {
      weights.back().push_back(static_cast<double>(split_mix(state) >> 11) * 0x1p-53 + 0.25);
      write_element(data.tensor, i, weights.back().back());
    }
    douts.push_back(c.graph.constant(data));
  }
  std::vector<bool> needs;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    const Value& x = c.arguments[i];
    needs.push_back(x && is_float(x.dtype()) && !sample.inputs[i].constant);
  }
  const Node node = c.graph.nodes()[c.node];
  Case forward{c.graph, {}, c.inputs, c.input_of, c.node, {}};
  Result<std::vector<Value>> grads = GraphAccess::grad(c.graph, node, douts, needs);
  if (!grads.ok()) {  // not differentiable in torch either; another sample makes it constant
    ASSERT_EQ(grads.status().code(), Code::unsupported) << grads.status().message();
    return;
  }
  ASSERT_TRUE(c.graph.status().ok()) << c.graph.status().message();
  // If the rule gives nothing, the op's expansion is differentiated.
  bool any = false;
  for (const Value& dx : *grads) any |= static_cast<bool>(dx);
  if (!any && op->def.expand != nullptr) return;
  std::vector<size_t> asked;
  for (size_t i = 0; i < needs.size(); ++i) {  // those left out at the end are not among them
    if (!needs[i]) continue;
    Value& dx = (*grads)[i];
    const Value& x = c.arguments[i];
    if (!dx)  // callers read it as zero
      dx = c.graph.call("expand", {c.graph.scalar(0.0, x.dtype())}, {{"shape", x.shape()}});
    ASSERT_EQ(dx.shape(), x.shape()) << "gradient of input " << i;
    ASSERT_EQ(dx.dtype(), x.dtype()) << "gradient of input " << i;
    c.graph.output(str_cat("dx", static_cast<int64_t>(i)), dx);
    asked.push_back(i);
  }
  const std::vector<Answer> answers = must(run(c, on_threads(1)));

  constexpr double kStep = 1e-5;
  for (size_t a = 0; a < asked.size(); ++a) {
    Input& input = forward.inputs[forward.input_of[asked[a]]];
    const std::vector<double>& dx = answers[first.size() + a].values;
    const int64_t n = static_cast<int64_t>(dx.size());
    const int64_t step = std::max<int64_t>(1, n / 7);
    for (int64_t i = 0; i < n; i += step) {
      double sides[2];
      for (int side = 0; side < 2; ++side) {
        write_element(input.data.tensor, i, input.values[i] + (side == 0 ? kStep : -kStep));
        const std::vector<Answer> moved = must(run(forward, on_threads(1)));
        sides[side] = weigh(std::move(moved), weights);
      }
      write_element(input.data.tensor, i, input.values[i]);
      const double expected = (sides[0] - sides[1]) / (2 * kStep);
      ASSERT_NEAR(dx[i], expected, 2e-5 * (1 + std::abs(expected)))
          << "gradient of input " << asked[a] << ", element " << i;
    }
  }
}

}  // namespace hg::test
