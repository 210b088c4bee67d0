// SPDX-License-Identifier: Apache-2.0
// A node of an expression. Nodes know their inputs but not their readers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hg/op.h"
#include "hg/promotion.h"
#include "hg/var.h"

namespace hg {

struct LazyNode {
  enum class Kind : uint8_t {
    leaf,      // an array read by every run
    constant,  // an array stored in plans
    number,
    op,
    gradient,  // inputs: ys, xs, and seeds if given
    jvp,       // inputs: ys, xs, directions
    jacobian,  // inputs: y, x
    hvp,       // inputs: y, xs, directions
  };
  Kind kind = Kind::leaf;
  bool has_seeds = false;
  const Op* op = nullptr;
  const Registry* registry = nullptr;  // null: built-in ops
  int ys = 0, xs = 0;                  // for derivatives
  int outputs = 1;
  Number number;
  Array array;
  std::vector<Var> inputs;
  std::vector<NamedAttr> attrs;          // in signature order
  std::vector<uint64_t> attr_words;      // the same, for keys
  std::string name;                      // of a leaf
  std::string error;                     // error in the call itself
  std::shared_ptr<LazyContext> context;  // of a leaf

  // Types of the outputs, computed when first needed.
  std::vector<TensorType> types;

  // Place of the node in the last walk.
  bool is_walked = false;
  int32_t place = 0;

  LazyNode() = default;
  LazyNode(const LazyNode&) = delete;
  LazyNode& operator=(const LazyNode&) = delete;
  ~LazyNode();  // destroys long chains without recursion, if memory suffices

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

  // Returns the nodes that the vars depend on, each after its inputs, and sets their `place` to the
  // index.
  static std::vector<LazyNode*> walk_from(std::span<const Var> vars);
  // Likewise, without the nodes whose types are known and what only they depend on.
  static std::vector<LazyNode*> untyped_from(std::span<const Var> vars);
};

// Returns the type of an output; infers the inputs first.
Result<TensorType> type_of(LazyNode& node, int output);

// Makes the value of a number in a graph, in this dtype; see write_number() of hg/promotion.h.
using NumberValue =
    std::function<Result<Value>(Graph&, const LazyNode& number, DType, NumberRange)>;
// Adds a constant. Fails if the dtype cannot hold the number.
Result<Value> constant_number(Graph& graph, const LazyNode& number, DType dtype, NumberRange range);

// Adds the node to a graph and returns its outputs. `inputs` are values of the graph, empty where
// the node reads a number.
Result<std::vector<Value>> lower_node(Graph& graph, const LazyNode& node,
                                      std::span<const Value> inputs, const NumberValue& number);

}  // namespace hg
