// SPDX-License-Identifier: Apache-2.0
// One part of an expression. Nodes know their inputs and nothing of who reads them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hg/op.h"
#include "hg/var.h"

namespace hg {

struct LazyNode {
  enum class Kind : uint8_t {
    leaf,      // an array, which every run reads again
    constant,  // an array, which plans keep
    number,
    op,
    gradient,  // inputs: ys, xs, seeds where there are any
    jvp,       // inputs: ys, xs, directions
    jacobian,  // inputs: y, x
    hvp,       // inputs: y, xs, directions
  };
  Kind kind = Kind::leaf;
  bool has_seeds = false;
  const Op* op = nullptr;
  const Registry* registry = nullptr;  // null: the built-in ops
  int ys = 0, xs = 0;                  // of derivatives
  int outputs = 1;
  Number number;
  Array array;
  std::vector<Var> inputs;
  std::vector<NamedAttr> attrs;          // in the order of the signature
  std::vector<uint64_t> attr_words;      // the same, for keys
  std::string name;                      // of a leaf
  std::string error;                     // what is wrong with the call itself
  std::shared_ptr<LazyContext> context;  // of a leaf

  // Found when they are asked for, by output.
  std::vector<TensorType> types;

  // Of the last walk: the node's place in it.
  bool is_walked = false;
  int32_t place = 0;

  LazyNode() = default;
  LazyNode(const LazyNode&) = delete;
  LazyNode& operator=(const LazyNode&) = delete;
  ~LazyNode();  // takes chains apart without recursion where memory suffices

  static LazyNode& of(const Var& var) { return *var.node_; }
  static const std::shared_ptr<LazyNode>& shared(const Var& var) { return var.node_; }
  static int output(const Var& var) { return var.output_; }
  static Var var(std::shared_ptr<LazyNode> node, int output = 0) {
    return Var(std::move(node), output);
  }
  bool is_leaf() const { return kind <= Kind::number; }
  const Registry& known_ops() const {
    return registry != nullptr ? *registry : Registry::built_in();
  }

  // Those that the vars are made of, each after its inputs, with `place` as its index.
  static std::vector<LazyNode*> walk_from(std::span<const Var> vars);
};

// The type of an output; the inputs' types are found first.
Result<TensorType> type_of(LazyNode& node, int output);

// The value of a number in a graph, in this dtype.
using NumberValue = std::function<Result<Value>(Graph&, const LazyNode& number, DType)>;
// A constant; fails where the dtype does not hold it.
Result<Value> constant_number(Graph& graph, const LazyNode& number, DType dtype);

// Adds the node to a graph, of whose values `inputs` are, empty where the node reads a number; one
// value for each output.
Result<std::vector<Value>> lower_node(Graph& graph, const LazyNode& node,
                                      std::span<const Value> inputs, const NumberValue& number);

}  // namespace hg
