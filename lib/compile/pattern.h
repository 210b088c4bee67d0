// SPDX-License-Identifier: Apache-2.0
// Patterns of nodes, written as text, and the rules that replace what they match.
//
// A pattern is a list of definitions, one a line; the last one is the root, the node that a rule
// replaces. Alternatives are tried in order, and all combinations of them are:
//   cube: mul(mul(x, x), x) | pow(x, 3)
//   y: add(x, mul(cube, 0.044715))
// A term is
//   cube          the definition of that name above
//   x             else a variable: any value, the same one wherever the name stands again
//   $eps          a constant of one element, whose number gets that name
//   3, 0.044715   a constant of one element with this number, to the precision of f32
//   op(t, ...)    a node of that op with exactly these inputs; add, mul, maximum and minimum match
//                 in both orders
//   op[n](t, ..)  the same, and the node is called n so that the rule can read its attributes
// Nodes inside a match have no readers outside of it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/compile/passes.h"

namespace hg {

// What the names of a pattern stand for. Builders add nodes with the graph's builder.
class Match {
 public:
  Graph& graph() const { return *graph_; }
  const CompileContext& context() const { return *context_; }
  Value root() const { return graph_->value(root_); }
  bool has(std::string_view name) const;
  Value value(std::string_view name) const;
  double number(std::string_view name, double fallback = 0) const;  // of $name
  // The attributes of a named node; only for nodes that has() says are there.
  AttrReader attrs(std::string_view name) const;
  const Node& node(std::string_view name) const;

 private:
  friend class Matcher;
  struct Binding {
    std::string_view name;
    ValueId value = kNoValue;  // of a variable, or the first output of a named node
    double number = 0;
  };
  const Binding* find(std::string_view name) const;
  Graph* graph_ = nullptr;
  const CompileContext* context_ = nullptr;
  ValueId root_ = kNoValue;
  std::vector<Binding> bindings_;
  std::vector<ValueId> inside_;  // first outputs of the matched nodes
};

struct Rule {
  std::string_view pattern;
  // The value that replaces the root, or an empty Value to leave all as it is. A value of another
  // type than the root's, or a call that fails, leaves all as it is too.
  Value (*build)(const Match& match);
};

// Replaces until no rule fits any more. Roots are f32 unless `any_dtype`.
Status apply_rules(Graph& graph, const CompileContext& context, std::span<const Rule> rules,
                   bool any_dtype = false);

// Whether a value is a constant of floats that are all this number.
bool is_filled(const Match& m, ValueId id, double with);

// The one number of a constant of one element.
std::optional<double> constant_number(const Graph& graph, const CompileContext& context,
                                      ValueId id);

}  // namespace hg
