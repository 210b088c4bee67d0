// SPDX-License-Identifier: Apache-2.0
// Patterns of nodes, written as text, and rules that replace matches.
//
// A pattern is a list of definitions, one per line. The last one is the root, the node that a rule
// replaces. A definition may have alternatives. All combinations are tried, in order:
//   cube: mul(mul(x, x), x) | pow(x, 3)
//   y: add(x, mul(cube, 0.044715))
// A term is
//   cube          a definition of that name above
//   x             otherwise a variable: any value, but the same one at each occurrence
//   $eps          a constant of one element; captures its number under that name
//   3, 0.044715   a constant of one element with this number, to the precision of f32
//   op(t, ...)    a node of that op with exactly these inputs; add, mul, maximum and minimum match
//                 in both orders
//   op[n](t, ..)  the same; the rule can read the attributes of the node by the name n
// Nodes inside a match have no readers outside it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/compile/passes.h"

namespace hg {

// The match of each name in a pattern. Builders of rules add nodes with the graph's builders.
class Match {
 public:
  Graph& graph() const { return *graph_; }
  const CompileContext& context() const { return *context_; }
  Value root() const { return graph_->value(root_); }
  bool has(std::string_view name) const;
  Value value(std::string_view name) const;
  double number(std::string_view name, double fallback = 0) const;  // of $name
  // The attributes of a named node. Call it only if has() is true.
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
  // Returns the value that replaces the root. An empty Value, a value of another type or a failed
  // call leaves the graph unchanged.
  Value (*build)(const Match& match);
};

// Replaces until no rule matches. Roots must be f32 unless `any_dtype`.
Status apply_rules(Graph& graph, const CompileContext& context, std::span<const Rule> rules,
                   bool any_dtype = false);

// Whether the value is a constant of floats that all equal this number.
bool is_filled(const Match& m, ValueId id, double with);

// The number of a constant of one element.
std::optional<double> constant_number(const Graph& graph, const CompileContext& context,
                                      ValueId id);

}  // namespace hg
