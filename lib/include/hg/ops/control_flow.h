// SPDX-License-Identifier: Apache-2.0
// Control flow that depends on data: the ops `if` and `while`, whose bodies are graphs.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Builds a body of control flow: adds nodes to `body`, whose inputs are `xs`, and returns the
// results. Values of the outer graph must be passed in through `xs`. Constants and parameters may
// be created in `body`.
using BodyBuilder = std::function<std::vector<Value>(Graph& body, std::span<const Value> xs)>;

// Op `if`: returns the results of `yes` where condition (bool, rank 0) is true, otherwise those of
// `no`. Only one of them runs. Both must return the same number of values, with equal dtypes and
// ranks. Sizes that differ between them depend on data.
std::vector<Value> cond(const Value& condition, std::span<const Value> xs, const BodyBuilder& yes,
                        const BodyBuilder& no);
inline std::vector<Value> cond(const Value& condition, std::initializer_list<Value> xs,
                               const BodyBuilder& yes, const BodyBuilder& no) {
  return cond(condition, std::span(xs.begin(), xs.size()), yes, no);
}

// Op `while`: while go_on(values, captures) is true, values = round(values, captures). go_on
// returns one bool of rank 0 and is evaluated before each iteration. captures do not change.
// `values` must not be empty. An iteration must preserve dtypes and shapes. A size may change only
// if it is a symbol that no other size uses.
std::vector<Value> while_loop(std::span<const Value> values, std::span<const Value> captures,
                              const BodyBuilder& go_on, const BodyBuilder& round);
inline std::vector<Value> while_loop(std::initializer_list<Value> values,
                                     std::initializer_list<Value> captures,
                                     const BodyBuilder& go_on, const BodyBuilder& round) {
  return while_loop(std::span(values.begin(), values.size()),
                    std::span(captures.begin(), captures.size()), go_on, round);
}

}  // namespace hg
