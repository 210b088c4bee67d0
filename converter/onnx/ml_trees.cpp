// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: tree ensembles. tree_leaves finds the leaves, whose values are then looked up and
// added.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "converter/onnx/ml_forest.h"
#include "hg/ops/trees.h"

namespace hg::convert::onnx {
namespace {

// Returns the nodes reachable from the roots, each before its children, as tree_leaves requires.
std::vector<size_t> order_of(Node& n, const Forest& forest) {
  std::vector<size_t> waits(forest.nodes.size(), 0);  // number of unvisited parents
  std::vector<bool> seen(waits.size(), false);
  std::vector<size_t> open, order;
  const auto find = [&](size_t node) {
    if (!seen[node]) open.push_back(node);
    seen[node] = true;
  };
  const auto take = [&] {
    const size_t node = open.back();
    open.pop_back();
    return node;
  };
  for (const size_t root : forest.roots) find(root);
  size_t found = 0;
  for (; !open.empty(); ++found) {
    const Forest::Node& node = forest.nodes[take()];
    if (node.mode == kLeaf) continue;
    for (const size_t next : {node.yes, node.no}) {
      ++waits[next];
      find(next);
    }
  }
  seen.assign(seen.size(), false);
  for (const size_t root : forest.roots)
    if (waits[root] == 0) find(root);
  while (!open.empty()) {
    order.push_back(take());
    const Forest::Node& node = forest.nodes[order.back()];
    if (node.mode == kLeaf) continue;
    for (const size_t next : {node.yes, node.no})
      if (--waits[next] == 0) open.push_back(next);
  }
  if (order.size() != found) n.refuse("its nodes are no trees");
  return order;
}

// Returns the test flags of a node. If the split is NaN, only the mode "not equal" passes numbers.
int64_t test_of(const Forest::Node& node) {
  constexpr int64_t kOrdered[] = {
      kTreeLess | kTreeEqual, kTreeLess,  kTreeGreater | kTreeEqual,
      kTreeGreater,           kTreeEqual, kTreeLess | kTreeGreater | kTreeNan};
  const int64_t nan = node.nan_passes ? kTreeNan : 0;
  if (!std::isnan(node.split)) return kOrdered[node.mode] | nan;
  return node.mode == kUnequal ? kTreeLess | kTreeEqual | kTreeGreater | kTreeNan : nan;
}

// Calls f(node) for the leaves of a tree.
template <class F>
void each_leaf(const Forest& forest, size_t root, const F& f) {
  std::vector<size_t> open = {root};
  std::set<size_t> seen = {root};
  while (!open.empty()) {
    const size_t at = open.back();
    const Forest::Node& node = forest.nodes[at];
    open.pop_back();
    if (node.mode == kLeaf) {
      f(at);
      continue;
    }
    for (const size_t next : {node.yes, node.no})
      if (seen.insert(next).second) open.push_back(next);
  }
}

// Returns whether for each target all leaves of some tree have a weight, so that every row has one.
bool always_told(const Forest& forest) {
  std::vector<bool> told(forest.targets, false);
  for (const size_t root : forest.roots) {
    std::vector<bool> here(forest.targets, true);
    each_leaf(forest, root, [&](size_t leaf) {
      for (size_t t = 0; t < forest.targets; ++t)
        here[t] = here[t] && forest.has[leaf * forest.targets + t];
    });
    for (size_t t = 0; t < forest.targets; ++t) told[t] = told[t] || here[t];
  }
  return std::all_of(told.begin(), told.end(), [](bool each) { return each; });
}

// Returns the trees of each target if every tree has weights for one target only; otherwise
// nothing.
std::vector<std::vector<size_t>> trees_of_targets(const Forest& forest) {
  std::vector<std::vector<size_t>> trees(forest.targets);
  for (const size_t root : forest.roots) {
    std::set<size_t> told;
    each_leaf(forest, root, [&](size_t leaf) {
      for (size_t t = 0; t < forest.targets; ++t)
        if (forest.has[leaf * forest.targets + t]) told.insert(t);
    });
    if (told.size() > 1) return {};
    trees[told.empty() ? 0 : *told.begin()].push_back(root);
  }
  return trees;
}

// The leaves that rows reach, and their weights.
struct Leaves {
  Value at;         // i64[rows, trees]
  Value weights;    // [rows, trees, targets]
  Value has_table;  // bool[leaves, targets]

  Value has() const { return looked_up(has_table, at); }
};

// The tables of tree_leaves, and the nodes that they were built from.
struct Tables {
  std::vector<int64_t> nodes;
  std::vector<double> splits;
  std::vector<size_t> leaves;  // the node of each leaf number
  std::vector<int64_t> place;  // position of each node in the tables
};

Tables tables_of(Node& n, const Forest& forest) {
  Tables made;
  const std::vector<size_t> order = order_of(n, forest);
  made.place.assign(forest.nodes.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) made.place[order[i]] = static_cast<int64_t>(i);
  for (const size_t at : order) {
    const Forest::Node& node = forest.nodes[at];
    made.splits.push_back(node.mode == kLeaf || std::isnan(node.split) ? 0 : node.split);
    if (node.mode == kLeaf) {
      made.nodes.insert(made.nodes.end(), {-1, 0, static_cast<int64_t>(made.leaves.size()), 0});
      made.leaves.push_back(at);
      continue;
    }
    if (node.feature < 0 || node.feature > std::numeric_limits<int32_t>::max())
      n.refuse(str_cat("a node asks for feature ", node.feature));
    made.nodes.insert(made.nodes.end(),
                      {node.feature, test_of(node), made.place[node.yes], made.place[node.no]});
  }
  return made;
}

Value reached(const Tables& tables, const std::vector<int64_t>& roots, const Value& x) {
  Graph& g = *x.graph();
  const auto count = static_cast<int64_t>(tables.splits.size());
  return tree_leaves(x, reshape(cast(constant_list(g, tables.nodes), i32), {count, 4}),
                     constant_list(g, tables.splits, x.dtype()),
                     cast(constant_list(g, roots), i32));
}

// Returns the sums of the leaves of all trees, [rows, targets], if every tree has weights for one
// target only. Trees are sorted by target. Trees with a single leaf of weight 0 are added so that
// all targets have equally many.
Value sums_by_target(Tables tables, const Forest& forest,
                     const std::vector<std::vector<size_t>>& trees, const Value& x) {
  std::vector<double> weights;
  for (const size_t leaf : tables.leaves) {
    const auto first = forest.weights.begin() + static_cast<std::ptrdiff_t>(leaf * forest.targets);
    weights.push_back(
        std::accumulate(first, first + static_cast<std::ptrdiff_t>(forest.targets), 0.0));
  }
  const auto nothing = static_cast<int64_t>(tables.splits.size());
  tables.nodes.insert(tables.nodes.end(), {-1, 0, static_cast<int64_t>(weights.size()), 0});
  tables.splits.push_back(0);
  weights.push_back(0);
  size_t most = 1;
  for (const std::vector<size_t>& of : trees) most = std::max(most, of.size());
  std::vector<int64_t> roots;
  for (const std::vector<size_t>& of : trees) {
    for (const size_t root : of) roots.push_back(tables.place[root]);
    roots.insert(roots.end(), most - of.size(), nothing);
  }
  const Value told =
      looked_up(constant_list(*x.graph(), weights, x.dtype()), reached(tables, roots, x));
  return sum(
      reshape(told, {x.dim(0), static_cast<int64_t>(trees.size()), static_cast<int64_t>(most)}),
      {Dim(2)});
}

Leaves leaves_of(Node& n, const Forest& forest, const Value& x) {
  const Tables tables = tables_of(n, forest);
  std::vector<int64_t> roots, has;
  for (const size_t root : forest.roots) roots.push_back(tables.place[root]);
  std::vector<double> weights;
  for (const size_t leaf : tables.leaves)
    for (size_t t = leaf * forest.targets; t < (leaf + 1) * forest.targets; ++t) {
      weights.push_back(forest.weights[t]);
      has.push_back(forest.has[t]);
    }
  Graph& g = n.graph();
  const auto leaves = static_cast<int64_t>(tables.leaves.size()),
             targets = static_cast<int64_t>(forest.targets);
  const Value at = reached(tables, roots, x);
  return {at, looked_up(reshape(constant_list(g, weights, x.dtype()), {leaves, targets}), at),
          reshape(cast(constant_list(g, has), boolean), {leaves, targets})};
}

// Returns sums of weights, [rows, targets].
Value sums_of(Node& n, const Forest& forest, const Value& x) {
  const std::vector<std::vector<size_t>> trees = trees_of_targets(forest);
  if (!trees.empty()) return sums_by_target(tables_of(n, forest), forest, trees, x);
  return sum(leaves_of(n, forest, x).weights, {Dim(1)});
}

// Aggregates the leaves of all trees to one number per target.
Value aggregated(Node& n, const Forest& forest, const Value& x, const std::string& how) {
  const Dims along = {Dim(1)};
  if (how == "SUM") return sums_of(n, forest, x);
  if (how == "AVERAGE") return sums_of(n, forest, x) / static_cast<double>(forest.roots.size());
  if (how != "MIN" && how != "MAX")
    n.refuse(str_cat("attribute 'aggregate_function' is '", how, "'"));
  const bool least = how == "MIN";
  const Leaves leaves = leaves_of(n, forest, x);
  const Value never = constant_like(leaves.weights, least ? INFINITY : -INFINITY);
  const Value has = leaves.has(), told = where(has, leaves.weights, never);
  const Value best = least ? amin(told, along) : amax(told, along);
  return where(any(has, along), best, constant_like(best, 0));
}

DType wide_of(Node& n) { return n.type(0).dtype == f64 ? f64 : f32; }

Value with_base(Node& n, const Value& scores, const std::vector<double>& base, int64_t targets) {
  if (base.empty()) return scores;
  if (static_cast<int64_t>(base.size()) != targets)
    n.refuse(str_cat("attribute 'base_values' has ", static_cast<int64_t>(base.size()),
                     " numbers for ", targets, " targets"));
  return scores + constant_list(n.graph(), base, scores.dtype());
}

void tree_regressor(Node& n) {
  const int64_t targets = n.integer("n_targets");
  const Forest forest = named_forest(n, "target", targets);
  const Value x = feature_rows(n, 0, wide_of(n));
  const Value scores = aggregated(n, forest, x, n.string("aggregate_function", "SUM"));
  const Value y = with_base(n, scores, numbers_of(n, "base_values"), targets);
  n.give(cast(post_transformed(n, y, n.string("post_transform", "NONE")), f32));
}

// With two classes, all weights may belong to one of them. Its score alone decides then: compared
// with 1/2, or with 0 if any weight is negative.
void give_two_classes(Node& n, const Forest& forest, const Value& sums, int64_t id) {
  const std::vector<double> base = numbers_of(n, "base_values");
  const std::string transform = n.string("post_transform", "NONE");
  const bool positive =
      std::all_of(forest.weights.begin(), forest.weights.end(), [](double w) { return w >= 0; });
  Value s = slice(sums, 1, id, id + 1), scores;
  if (id == 1) {  // the other class has a score of 0
    if (!base.empty()) n.refuse("attribute 'base_values' is given for weights of class 1 alone");
    for (size_t i = 0; i < forest.nodes.size(); ++i)
      if (forest.nodes[i].mode == kLeaf && !forest.has[2 * i + 1])
        n.refuse("a leaf has no weight for the class that all other weights are of");
    scores = post_transformed(n, sums, transform);
  } else {
    if (base.size() > 1) n.refuse("attribute 'base_values' has two numbers for weights of class 0");
    if (transform != "NONE" && transform != "LOGISTIC")
      n.refuse(str_cat("one score of two classes with post_transform '", transform, "'"));
    if (!base.empty()) s = s + base[0];
    const Value other = transform == "LOGISTIC" || !positive ? -s : 1.0 - s;
    scores = post_transformed(n, concat({other, s}, 1), transform);
  }
  const Value flat = reshape(s, {s.dim(0)});
  const Value place = cast(gt(flat, constant_like(flat, positive ? 0.5 : 0.0)), i64);
  give_classes(n, place, cast(scores, f32), "classlabels_int64s");
}

void tree_classifier(Node& n) {
  const int64_t classes = label_count(n, "classlabels_int64s", "classlabels_strings");
  if (classes < 2) n.refuse(str_cat("it has ", classes, " classes"));
  const Forest forest = named_forest(n, "class", classes);
  const Value x = feature_rows(n, 0, wide_of(n));
  const std::vector<int64_t> ids = n.integers("class_ids");
  const bool one = std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  if (classes == 2 && one && !ids.empty())
    return give_two_classes(n, forest, sums_of(n, forest, x), ids[0]);
  const std::vector<double> base = numbers_of(n, "base_values");
  Value scores, known;
  if (!base.empty() || always_told(forest)) {
    known = scores = with_base(n, sums_of(n, forest, x), base, classes);
  } else {  // a class without any leaf must not win
    const Leaves leaves = leaves_of(n, forest, x);
    scores = sum(leaves.weights, {Dim(1)});
    known = where(any(leaves.has(), {Dim(1)}), scores, constant_like(scores, -INFINITY));
  }
  give_classes(n, argmax(known, Dim(1)),
               cast(post_transformed(n, scores, n.string("post_transform", "NONE")), f32),
               "classlabels_int64s");
}

void tree_ensemble(Node& n) {
  constexpr const char* kHow[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t how = n.integer("aggregate_function", 1),
                transform = n.integer("post_transform", 0);
  if (how < 0 || how > 3) n.refuse(str_cat("attribute 'aggregate_function' is ", how));
  if (transform < 0 || transform > 4)
    n.refuse(str_cat("attribute 'post_transform' is ", transform));
  const Forest forest = placed_forest(n);
  const DType dtype = n.type(0).dtype;
  const Value x = feature_rows(n, 0, wide_of(n));
  const Value scores = aggregated(n, forest, x, kHow[how]);
  n.give(cast(post_transformed(n, scores, kTransforms[transform]), dtype));
}

constexpr Builtin kRows[] = {
    {"ai.onnx.ml::TreeEnsembleRegressor", row<tree_regressor>},
    {"ai.onnx.ml::TreeEnsembleClassifier", row<tree_classifier>},
    {"ai.onnx.ml::TreeEnsemble", row<tree_ensemble>},
};

}  // namespace

Rows ml_trees_rows() { return kRows; }

}  // namespace hg::convert::onnx
