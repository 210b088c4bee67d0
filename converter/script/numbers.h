// SPDX-License-Identifier: Apache-2.0
// Code shared by the builtins on numbers.
#pragma once

#include <optional>
#include <string_view>

#include "converter/rows/node_call.h"

namespace hg::convert {

// Returns "add" for "aten::add".
std::string_view op_of(const NodeCall& call);
// Returns the number with the type that the script declares for the node; returns false if there is
// no number.
bool give_scalar(NodeCall& call, std::optional<Scalar> scalar);
// The same for a number of the graph.
void give_number(NodeCall& call, Value value);
// Returns the Python number of a tensor's only element, as item() does: gradients end here.
Value number_in(const Value& element);
// Returns the declared dtype of the node's number; nothing for `Scalar`.
std::optional<DType> declared(const NodeCall& call);
// The graph's comparison of two numbers of which one depends on sizes or data.
Value compared(NodeCall& call, std::string_view op, const Item& a, const Item& b);
// Applies op of apply() to two numbers; for data-dependent numbers, the graph computes graph_op.
Item combine(NodeCall& call, std::string_view op, std::string_view graph_op, const Item& a,
             const Item& b);

}  // namespace hg::convert
