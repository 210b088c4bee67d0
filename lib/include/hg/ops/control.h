// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/control.cpp: control flow that data decides, and sizes as tensors.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Builds a body of control flow: adds nodes to `body`, of which `xs` are inputs, and gives results.
// What else it needs of the graph outside is passed to it among `xs`; constants and parameters are
// made in `body`.
using BodyBuilder = std::function<std::vector<Value>(Graph& body, std::span<const Value> xs)>;

// The op `if`: what `yes` gives of xs where condition (bool of rank 0) is true, else what `no`
// gives; only one of them runs. Both give as many values, in turn of one dtype and rank. A size
// that differs between them is known only when it runs.
std::vector<Value> cond(const Value& condition, std::span<const Value> xs, const BodyBuilder& yes,
                        const BodyBuilder& no);
inline std::vector<Value> cond(const Value& condition, std::initializer_list<Value> xs,
                               const BodyBuilder& yes, const BodyBuilder& no) {
  return cond(condition, std::span(xs.begin(), xs.size()), yes, no);
}

// The op `while`: values = round(values, captures) as long as go_on(values, captures), one bool of
// rank 0, is true; it is asked before each round. Both bodies get the values, then the captures,
// which stay as they are. A round keeps dtypes and shapes, but for a size that is a symbol of its
// own. Needs one value at least.
std::vector<Value> while_loop(std::span<const Value> values, std::span<const Value> captures,
                              const BodyBuilder& go_on, const BodyBuilder& round);
inline std::vector<Value> while_loop(std::initializer_list<Value> values,
                                     std::initializer_list<Value> captures,
                                     const BodyBuilder& go_on, const BodyBuilder& round) {
  return while_loop(std::span(values.begin(), values.size()),
                    std::span(captures.begin(), captures.size()), go_on, round);
}

// The numbers, such as sizes of other values: i64[number of them].
inline Value dims(Graph& graph, std::vector<Dim> values) {
  return graph.call("dims", {}, {{"values", Attr(std::move(values))}});
}
// The number n, i64 of rank 0, as a size that is known only when it runs: bool[n, 0]. A negative n
// fails the run.
inline Value extent(const Value& n) { return n.graph()->call("extent", {n}); }
// The condition, bool of rank 0; a run in which it is false fails with the message.
inline Value assert_true(const Value& condition, std::string message) {
  return condition.graph()->call("assert_true", {condition}, {{"message", std::move(message)}});
}

}  // namespace hg
