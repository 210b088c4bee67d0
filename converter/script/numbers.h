// SPDX-License-Identifier: Apache-2.0
// Code shared by the builtins on numbers.
#pragma once

#include <optional>
#include <string_view>

#include "converter/rows/node_call.h"

namespace hg::convert {

// "add" of "aten::add"
std::string_view op_of(const NodeCall& call);
// Gives the number as what the script says that the node gives; false when there is none.
bool give_scalar(NodeCall& call, std::optional<Scalar> scalar);
// Likewise a number of the graph.
void give_number(NodeCall& call, Value value);
// The dtype of a number that the script says the node gives; none for `Scalar`.
std::optional<DType> declared(const NodeCall& call);
// The graph's comparison of two numbers, of which sizes or data decide one.
Value compared(NodeCall& call, std::string_view op, const Item& a, const Item& b);
// op of apply() on two numbers; the graph computes with graph_op what data decides.
Item combine(NodeCall& call, std::string_view op, std::string_view graph_op, const Item& a,
             const Item& b);

}  // namespace hg::convert
