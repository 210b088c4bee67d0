// SPDX-License-Identifier: Apache-2.0
#include "converter/core/value_numbering.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "hg/op.h"

namespace hg::convert {
namespace {

constexpr int kMostSteps = 32;  // nodes between the comparison and the sizes

const Node* producer(const Graph& graph, ValueId id) {
  const int32_t node = graph.value_info(id).node;
  return node < 0 ? nullptr : &graph.nodes()[node];
}

// Ops that produce no NaN from inputs without NaN, and whose results depend on their inputs alone.
bool is_plain(std::string_view op) {
  constexpr std::string_view kOps[] = {"full",  "eye",         "arange",  "dims",      "triu",
                                       "tril",  "reshape",     "permute", "expand",    "cast",
                                       "slice", "eq",          "lt",      "le",        "gt",
                                       "ge",    "logical_not", "where",   "contiguous"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

bool has_nan(const Tensor& tensor) {
  if (!is_float(tensor.dtype)) return false;
  if (tensor.dtype != f32 && tensor.dtype != f64) return true;  // other dtypes are not searched
  for (int64_t i = 0; i < tensor.count(); ++i)
    if (std::isnan(tensor.dtype == f32 ? static_cast<double>(tensor.as<float>()[i])
                                       : tensor.as<double>()[i]))
      return true;
  return false;
}

// Whether both are computed by the same ops from sizes and constants, and are never NaN.
bool are_same(const Graph& graph, ValueId a, ValueId b, int steps) {
  if (a == kNoValue || b == kNoValue || steps == 0) return a == b && a == kNoValue;
  const TensorData *x = graph.constant_of(a), *y = graph.constant_of(b);
  if (x != nullptr || y != nullptr)
    return x != nullptr && y != nullptr && x->tensor.dtype == y->tensor.dtype &&
           x->tensor.shape == y->tensor.shape && !has_nan(x->tensor) &&
           std::memcmp(x->tensor.data, y->tensor.data, x->tensor.bytes()) == 0;
  const Node *first = producer(graph, a), *second = producer(graph, b);
  if (first == nullptr || second == nullptr || first->op != second->op ||
      !is_plain(first->op->name()) || !(first->attrs == second->attrs) ||
      first->inputs.size() != second->inputs.size())
    return false;
  for (size_t i = 0; i < first->inputs.size(); ++i)
    if (!are_same(graph, first->inputs[i], second->inputs[i], steps - 1)) return false;
  return true;
}

// Whether both are computed by the same ops from the same values.
bool are_alike(const Graph& graph, ValueId a, ValueId b, int steps) {
  if (a == b) return true;
  if (a == kNoValue || b == kNoValue || steps == 0) return false;
  const TensorData *x = graph.constant_of(a), *y = graph.constant_of(b);
  if (x != nullptr && y != nullptr)
    return x->tensor.dtype == y->tensor.dtype && x->tensor.shape == y->tensor.shape &&
           std::memcmp(x->tensor.data, y->tensor.data, x->tensor.bytes()) == 0;
  const Node *first = producer(graph, a), *second = producer(graph, b);
  if (first == nullptr || second == nullptr || first->op != second->op ||
      (first->op->def.traits & kRandom) != 0 || !first->subgraphs.empty() ||
      !(first->attrs == second->attrs) || first->inputs.size() != second->inputs.size() ||
      first->outputs.size() != 1)
    return false;
  for (size_t i = 0; i < first->inputs.size(); ++i)
    if (!are_alike(graph, first->inputs[i], second->inputs[i], steps - 1)) return false;
  return true;
}

}  // namespace

Value computed_before(std::string_view op, const Value& x) {
  constexpr int kMostBack = 8;  // depth of the search for common inputs
  Graph& graph = *x.graph();
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (node.op->name() == op && are_alike(graph, node.inputs.at(0), x.id(), kMostBack))
      return graph.value(node.outputs.at(0));
  }
  return Value();
}

bool is_always_true(const Value& value) {
  const Graph& graph = *value.graph();
  const Node* node = producer(graph, value.id());
  while (node != nullptr &&
         (node->op->name() == "all" || node->op->name() == "cast" || node->op->name() == "reshape"))
    node = producer(graph, node->inputs.at(0));
  return node != nullptr && node->op->name() == "eq" &&
         are_same(graph, node->inputs.at(0), node->inputs.at(1), kMostSteps);
}

}  // namespace hg::convert
