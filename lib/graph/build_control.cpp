// SPDX-License-Identifier: Apache-2.0
// Builds bodies of control flow with the host's functions.
#include <memory>

#include "hg/op.h"
#include "hg/ops/control.h"
#include "hg/ops/control_flow.h"

namespace hg {
namespace {

// Creates a body with inputs of the types of xs. Its outputs are the results of `build`.
struct Body {
  std::shared_ptr<Graph> graph;
  std::vector<Value> inputs;

  Body(const Graph& outer, std::span<const Value> xs)
      : graph(std::make_shared<Graph>(outer.registry())) {
    for (const Value& x : xs) inputs.push_back(graph->input("", x.dtype(), x.shape()));
  }
  std::vector<Value> add(const BodyBuilder& build) {
    std::vector<Value> results = build(*graph, inputs);
    for (const Value& result : results) graph->output("", result);
    return results;
  }
};

// An op without results, after an earlier failure.
std::vector<Value> add_control(Graph& graph, std::string_view op, const std::vector<Value>& inputs,
                               std::vector<std::shared_ptr<Graph>> bodies) {
  for (const auto& body : bodies)
    if (!body->status().ok()) {
      graph.fail(Status(body->status().code(),
                        str_cat("in a body of ", op, ": ", body->status().message())));
      return {};
    }
  return graph.calls(op, inputs, {}, std::move(bodies));
}

}  // namespace

std::vector<Value> cond(const Value& condition, std::span<const Value> xs, const BodyBuilder& yes,
                        const BodyBuilder& no) {
  Graph& graph = *condition.graph();
  std::vector<std::shared_ptr<Graph>> bodies;
  for (const BodyBuilder* build : {&yes, &no}) {
    Body body(graph, xs);
    body.add(*build);
    bodies.push_back(std::move(body.graph));
  }
  std::vector<Value> inputs = {condition};
  inputs.insert(inputs.end(), xs.begin(), xs.end());
  return add_control(graph, "if", inputs, std::move(bodies));
}

std::vector<Value> while_loop(std::span<const Value> values, std::span<const Value> captures,
                              const BodyBuilder& go_on, const BodyBuilder& round) {
  if (values.empty()) return {};
  Graph& graph = *values.front().graph();
  std::vector<Value> xs(values.begin(), values.end());
  xs.insert(xs.end(), captures.begin(), captures.end());
  // The condition go_on. It is computed for the first values outside the body, and for later ones
  // inside.
  const auto ask = [&](Graph& where, std::span<const Value> of) -> Value {
    const std::vector<Value> answer = go_on(where, of);
    if (answer.size() == 1) return answer.front();
    return where.fail(invalid_argument("while: the condition gives ",
                                       static_cast<int64_t>(answer.size()), " values, not 1"));
  };
  const Value first = ask(graph, xs);
  Body body(graph, xs);
  std::vector<Value> next = round(*body.graph, body.inputs);
  if (next.size() != values.size())
    graph.fail(invalid_argument("while: a round takes ", static_cast<int64_t>(values.size()),
                                " values and gives ", static_cast<int64_t>(next.size())));
  if (!graph.status().ok()) return {};
  std::vector<Value> seen = next;
  seen.insert(seen.end(), body.inputs.begin() + static_cast<int64_t>(values.size()),
              body.inputs.end());
  body.graph->output("", ask(*body.graph, seen));
  for (const Value& value : next) body.graph->output("", value);
  xs.insert(xs.begin(), first);
  return add_control(graph, "while", xs, {std::move(body.graph)});
}

}  // namespace hg
