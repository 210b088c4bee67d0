// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: ensembles of trees. What their leaves say is looked up and added behind tree_leaves.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "converter/onnx/ml_forest.h"
#include "hg/ops/trees.h"

namespace hg::convert::onnx {
namespace {

// Nodes that the roots lead to, so that what follows a node stands behind it, as tree_leaves wants.
std::vector<size_t> order_of(Node& n, const Forest& forest) {
  std::vector<size_t> waits(forest.nodes.size(), 0);  // for so many that lead to it
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

// What a node lets pass. A split that is no number compares as the mode says: only "not equal"
// holds.
int64_t test_of(const Forest::Node& node) {
  constexpr int64_t kOrdered[] = {
      kTreeLess | kTreeEqual, kTreeLess,  kTreeGreater | kTreeEqual,
      kTreeGreater,           kTreeEqual, kTreeLess | kTreeGreater | kTreeNan};
  const int64_t nan = node.nan_passes ? kTreeNan : 0;
  if (!std::isnan(node.split)) return kOrdered[node.mode] | nan;
  return node.mode == kUnequal ? kTreeLess | kTreeEqual | kTreeGreater | kTreeNan : nan;
}

// Whether each target is spoken of by all leaves of some tree, and so in every row.
bool always_told(const Forest& forest) {
  std::vector<bool> told(forest.targets, false);
  for (const size_t root : forest.roots) {
    std::vector<bool> here(forest.targets, true);
    std::vector<size_t> open = {root};
    std::set<size_t> seen = {root};
    while (!open.empty()) {
      const size_t at = open.back();
      const Forest::Node& node = forest.nodes[at];
      open.pop_back();
      if (node.mode == kLeaf) {
        for (size_t t = 0; t < forest.targets; ++t)
          here[t] = here[t] && forest.has[at * forest.targets + t];
        continue;
      }
      for (const size_t next : {node.yes, node.no})
        if (seen.insert(next).second) open.push_back(next);
    }
    for (size_t t = 0; t < forest.targets; ++t) told[t] = told[t] || here[t];
  }
  return std::all_of(told.begin(), told.end(), [](bool each) { return each; });
}

// The leaves that rows reach, and what leaves say.
struct Leaves {
  Value at;            // i64[rows, trees]
  Value weight_table;  // [leaves, targets]
  Value has_table;     // bool[leaves, targets]

  Value weights() const { return looked_up(weight_table, at); }  // [rows, trees, targets]
  Value has() const { return looked_up(has_table, at); }
};

Leaves leaves_of(Node& n, const Forest& forest, const Value& x) {
  Graph& g = n.graph();
  const std::vector<size_t> order = order_of(n, forest);
  std::vector<int64_t> place(forest.nodes.size(), 0), nodes, roots, has;
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int64_t>(i);
  std::vector<double> splits, weights;
  int64_t leaves = 0;
  for (const size_t at : order) {
    const Forest::Node& node = forest.nodes[at];
    if (node.mode == kLeaf) {
      nodes.insert(nodes.end(), {-1, 0, leaves++, 0});
      splits.push_back(0);
      for (size_t t = at * forest.targets; t < (at + 1) * forest.targets; ++t) {
        weights.push_back(forest.weights[t]);
        has.push_back(forest.has[t]);
      }
      continue;
    }
    if (node.feature < 0 || node.feature > std::numeric_limits<int32_t>::max())
      n.refuse(str_cat("a node asks for feature ", node.feature));
    nodes.insert(nodes.end(), {node.feature, test_of(node), place[node.yes], place[node.no]});
    splits.push_back(std::isnan(node.split) ? 0 : node.split);
  }
  for (const size_t root : forest.roots) roots.push_back(place[root]);
  const auto count = static_cast<int64_t>(order.size()),
             targets = static_cast<int64_t>(forest.targets);
  const Value table = reshape(cast(constant_list(g, nodes), i32), {count, 4}),
              first = cast(constant_list(g, roots), i32);
  return {tree_leaves(x, table, constant_list(g, splits, x.dtype()), first),
          reshape(constant_list(g, weights, x.dtype()), {leaves, targets}),
          reshape(cast(constant_list(g, has), boolean), {leaves, targets})};
}

// The leaves of all trees as one number for each target.
Value aggregated(Node& n, const Leaves& leaves, const std::string& how, size_t trees) {
  const Dims along = {Dim(1)};
  const Value w = leaves.weights();
  if (how == "SUM") return sum(w, along);
  if (how == "AVERAGE") return sum(w, along) / static_cast<double>(trees);
  if (how != "MIN" && how != "MAX")
    n.refuse(str_cat("attribute 'aggregate_function' is '", how, "'"));
  const bool least = how == "MIN";
  const Value never = constant_like(w, least ? INFINITY : -INFINITY);
  const Value has = leaves.has(), told = where(has, w, never);
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
  const Value scores = aggregated(n, leaves_of(n, forest, x), n.string("aggregate_function", "SUM"),
                                  forest.roots.size());
  const Value y = with_base(n, scores, numbers_of(n, "base_values"), targets);
  n.give(cast(post_transformed(n, y, n.string("post_transform", "NONE")), f32));
}

// Where all weights of two classes are of one, its score alone decides: by the half, or by its sign
// where some weight is negative.
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
  const Leaves leaves = leaves_of(n, forest, feature_rows(n, 0, wide_of(n)));
  const Value sums = sum(leaves.weights(), {Dim(1)});
  const std::vector<int64_t> ids = n.integers("class_ids");
  const bool one = std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  if (classes == 2 && one && !ids.empty()) return give_two_classes(n, forest, sums, ids[0]);
  const std::vector<double> base = numbers_of(n, "base_values");
  const Value scores = with_base(n, sums, base, classes);
  // A class that no leaf speaks of is not the best one.
  Value known = scores;
  if (base.empty() && !always_told(forest))
    known = where(any(leaves.has(), {Dim(1)}), scores, constant_like(scores, -INFINITY));
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
  const Value scores = aggregated(n, leaves_of(n, forest, x), kHow[how], forest.roots.size());
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
