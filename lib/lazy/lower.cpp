// SPDX-License-Identifier: Apache-2.0
// Lowers nodes to nodes of a graph. Infers types by adding single nodes to a scratch graph.
#include <array>
#include <optional>

#include "hg/promotion.h"
#include "hg/train.h"
#include "lib/graph/border.h"
#include "lib/lazy/node.h"

namespace hg {
namespace {

using Kind = LazyNode::Kind;

Result<std::vector<Value>> lower_op(Graph& graph, const LazyNode& node,
                                    std::span<const Value> inputs, const NumberValue& number) {
  if (!node.error.empty()) return invalid_argument(node.error);
  std::vector<Value> values(inputs.begin(), inputs.end());
  std::vector<std::optional<DType>> numbers(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (const Var& in = node.inputs[i]; in && LazyNode::of(in).kind == Kind::number)
      numbers[i] = LazyNode::of(in).number.kind;
  const DType dtype = dtype_of_numbers(*node.op, values, numbers);
  for (size_t i = 0; i < values.size(); ++i)
    if (numbers[i]) {
      HG_TRY_ASSIGN(values[i], number(graph, LazyNode::of(node.inputs[i]), dtype,
                                      number_range(*node.op, i, dtype)));
    }
  std::vector<Value> outputs = promoted_calls(graph, *node.op, values, node.attrs, numbers);
  HG_TRY(graph.take_status());
  return outputs;
}

}  // namespace

Result<Value> constant_number(Graph& graph, const LazyNode& number, DType dtype,
                              NumberRange range) {
  alignas(16) std::array<std::byte, 16> bytes;
  const Tensor element = view(bytes.data(), dtype, {});
  HG_CHECK(write_number(number.number, element, range), "the number ", number.number.real,
           " does not fit a tensor of ", dtype);
  HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(element));
  return graph.constant(std::move(data));
}

Result<std::vector<Value>> lower_node(Graph& graph, const LazyNode& node,
                                      std::span<const Value> inputs, const NumberValue& number) {
  if (node.kind == Kind::op) return lower_op(graph, node, inputs, number);
  if (!node.error.empty()) return invalid_argument(node.error);
  for (const Value& input : inputs) HG_CHECK(input, "a number has no derivative");
  const auto ys = static_cast<size_t>(node.ys), xs = static_cast<size_t>(node.xs);
  const std::span<const Value> wrt = inputs.subspan(ys, xs), rest = inputs.subspan(ys + xs);
  std::vector<Value> results;
  if (node.kind == Kind::gradient) {
    results = grad(inputs.first(ys), wrt, rest);
  } else if (node.kind == Kind::jvp) {
    results = jvp(inputs.first(ys), wrt, rest);
  } else if (node.kind == Kind::jacobian) {
    results = {jacobian(inputs[0], inputs[1])};
  } else {
    HG_CHECK(rest.size() == xs, "hvp: there are ", int64_t(xs), " values and ",
             int64_t(rest.size()), " directions");
    results = hvp(inputs[0], wrt, rest);
  }
  HG_TRY(graph.take_status());
  HG_CHECK(results.size() == static_cast<size_t>(node.outputs), "a derivative is missing");
  return results;
}

namespace {

// Infers the output types of a derivative from the types of its inputs.
Status find_derivative_types(LazyNode& node) {
  if (!node.error.empty()) return invalid_argument(node.error);
  const auto type = [&](int input) -> Result<TensorType> {
    const Var& var = node.inputs[input];
    const LazyNode& of = LazyNode::of(var);
    HG_CHECK(of.kind != Kind::number, "a number has no derivative");
    return of.types[LazyNode::output(var)];
  };
  std::vector<TensorType> types;
  if (node.kind == Kind::jacobian) {
    HG_TRY_ASSIGN(TensorType y, type(0));
    HG_TRY_ASSIGN(const TensorType x, type(1));
    y.shape.insert(y.shape.end(), x.shape.begin(), x.shape.end());
    types.push_back(std::move(y));
  } else {
    const bool is_of_ys = node.kind == Kind::jvp;
    for (int i = 0; i < node.outputs; ++i) {
      HG_TRY_ASSIGN(TensorType of, type(is_of_ys ? i : node.ys + i));
      types.push_back(std::move(of));
    }
  }
  node.types = std::move(types);
  return {};
}

Status find_types(LazyNode& node) {
  if (!node.types.empty()) return {};
  if (node.kind == Kind::number) {
    node.types = {TensorType{f32, {}}};
    return {};
  }
  if (node.kind != Kind::op) return find_derivative_types(node);
  Graph graph(node.known_ops());
  std::vector<Value> inputs;
  for (const Var& var : node.inputs) {
    Value value;
    if (var && LazyNode::of(var).kind != Kind::number) {
      const LazyNode& of = LazyNode::of(var);
      const auto output = static_cast<size_t>(LazyNode::output(var));
      HG_CHECK(output < of.types.size(), "an op gives ", int64_t(of.types.size()), " results, not ",
               int64_t(output + 1));
      // Constants that an op reads to infer its result, such as the sizes of a repeat.
      if (of.kind == Kind::constant) {
        HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(of.array));
        value = graph.constant(std::move(data));
      } else {
        value = graph.input("", of.types[output].dtype, of.types[output].shape);
      }
    }
    inputs.push_back(value);
  }
  HG_TRY(graph.take_status());
  HG_TRY_ASSIGN(const std::vector<Value> outputs, lower_op(graph, node, inputs, constant_number));
  std::vector<TensorType> types;
  for (const Value& value : outputs) types.push_back({value.dtype(), value.shape()});
  node.types = std::move(types);
  return {};
}

}  // namespace

Result<TensorType> type_of(LazyNode& node, int output) {
  if (node.types.empty()) {
    for (LazyNode* one : LazyNode::untyped_from(node.inputs)) HG_TRY(find_types(*one));
    HG_TRY(find_types(node));
  }
  HG_CHECK(static_cast<size_t>(output) < node.types.size(), "an op gives ",
           int64_t(node.types.size()), " results, not ", output + 1);
  return node.types[output];
}

Result<TensorType> Var::type() const {
  return or_no_memory([&]() -> Result<TensorType> {
    HG_CHECK(node_, "the expression is empty");
    return type_of(*node_, output_);
  });
}

Sizes Var::shape() const {
  const Result<TensorType> found = type();
  if (!found.ok()) return {};
  const Result<Sizes> sizes = hg::evaluate(found->shape, Bindings());
  return sizes.ok() ? *sizes : Sizes();
}

DType Var::dtype() const {
  const Result<TensorType> found = type();
  return found.ok() ? found->dtype : f32;
}

}  // namespace hg
