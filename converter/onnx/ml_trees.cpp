// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: ensembles of trees. All trees go down one step at once: the nodes of all rows and
// trees are one tensor of places in tables, and a leaf leads to itself.
#include <algorithm>
#include <cmath>
#include <map>

#include "converter/onnx/ml.h"

namespace hg::convert::onnx {
namespace {

enum Mode : int64_t { kLeq, kLess, kGeq, kGreater, kEqual, kUnequal, kMember, kLeaf };

struct Forest {
  std::vector<int64_t> features, yes, no, modes, missing;  // by node; missing: NaN goes to yes
  std::vector<double> splits;
  std::vector<int64_t> roots;
  int64_t targets = 1;
  std::vector<double> weights;  // [nodes, targets]
  std::vector<int64_t> has;     // [nodes, targets]: whether the leaf says anything of the target
  int64_t count() const { return static_cast<int64_t>(features.size()); }

  int64_t add(int64_t feature, int64_t mode, double split, int64_t tracks) {
    features.push_back(feature);
    modes.push_back(mode);
    splits.push_back(split);
    missing.push_back(tracks);
    yes.push_back(count() - 1);
    no.push_back(count() - 1);
    return count() - 1;
  }
  void size_tables() {
    weights.assign(count() * targets, 0.0);
    has.assign(weights.size(), 0);
  }
  void weigh(int64_t node, int64_t target, double weight) {
    const auto at = static_cast<size_t>(node * targets + target);
    weights[at] += weight;
    has[at] = 1;
  }
};

// Steps from the roots to the deepest leaf; refuses what leads back to itself.
int64_t depth_of(Node& n, const Forest& forest) {
  std::vector<int64_t> level = forest.roots;
  for (int64_t depth = 0; depth <= forest.count(); ++depth) {
    std::vector<int64_t> next;
    for (const int64_t node : level) {
      const auto at = static_cast<size_t>(node);
      if (forest.modes[at] == kLeaf) continue;
      next.push_back(forest.yes[at]);
      next.push_back(forest.no[at]);
    }
    if (next.empty()) return depth;
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    level = std::move(next);
  }
  n.refuse("its nodes are no trees");
}

Value compared(int64_t mode, const Value& x, const Value& split) {
  switch (mode) {
    case kLeq:
      return le(x, split);
    case kLess:
      return lt(x, split);
    case kGeq:
      return ge(x, split);
    case kGreater:
      return gt(x, split);
    case kEqual:
      return eq(x, split);
    default:
      return ne(x, split);
  }
}

struct Leaves {
  Value weights, has;  // [rows, trees, targets]; has: bool
};

Leaves leaves_of(Node& n, const Forest& forest, const Value& x) {
  Graph& g = n.graph();
  const int64_t depth = depth_of(n, forest);
  if (depth > 512) n.refuse(str_cat("its trees are ", depth, " deep"));
  const auto trees = static_cast<int64_t>(forest.roots.size());
  const Value features = constant_list(g, forest.features), yes = constant_list(g, forest.yes),
              no = constant_list(g, forest.no), modes = constant_list(g, forest.modes),
              splits = constant_list(g, forest.splits, x.dtype());
  std::vector<int64_t> used = forest.modes;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::erase(used, int64_t{kLeaf});
  const bool tracks = std::any_of(forest.missing.begin(), forest.missing.end(),
                                  [](int64_t each) { return each != 0; });
  const Value missing = cast(constant_list(g, forest.missing), boolean);
  Value at = expand(reshape(constant_list(g, forest.roots), {1, trees}), {x.dim(0), trees});
  for (int64_t step = 0; step < depth; ++step) {
    const Value value = gather(x, looked_up(features, at), 1), split = looked_up(splits, at);
    Value goes = compared(used[0], value, split);
    for (size_t i = 1; i < used.size(); ++i) {
      const Value own = eq(looked_up(modes, at), g.scalar(used[i], i64));
      goes = where(own, compared(used[i], value, split), goes);
    }
    if (tracks) goes = logical_or(goes, logical_and(isnan(value), looked_up(missing, at)));
    at = where(goes, looked_up(yes, at), looked_up(no, at));
  }
  const int64_t nodes = forest.count();
  const Value weights =
      reshape(constant_list(g, forest.weights, x.dtype()), {nodes, forest.targets});
  const Value has = reshape(cast(constant_list(g, forest.has), boolean), {nodes, forest.targets});
  return {looked_up(weights, at), looked_up(has, at)};
}

// The leaves of all trees as one number for each target.
Value aggregated(Node& n, const Leaves& leaves, const std::string& how, size_t trees) {
  const Dims along = {Dim(1)};
  const Value w = leaves.weights;
  if (how == "SUM") return sum(w, along);
  if (how == "AVERAGE") return sum(w, along) / static_cast<double>(trees);
  if (how != "MIN" && how != "MAX")
    n.refuse(str_cat("attribute 'aggregate_function' is '", how, "'"));
  const bool least = how == "MIN";
  const Value never = constant_like(w, least ? INFINITY : -INFINITY);
  const Value told = where(leaves.has, w, never);
  const Value best = least ? amin(told, along) : amax(told, along);
  return where(any(leaves.has, along), best, constant_like(best, 0));
}

std::vector<double> numbers_of(Node& n, const std::string& name) {
  if (!n.has(name + "_as_tensor")) return n.reals(name);
  const Value given = n.graph().constant(n.tensor(name + "_as_tensor"));
  const TensorData* data = n.graph().constant_of(given.id());
  std::vector<double> result;
  for (int64_t i = 0; data != nullptr && i < data->tensor.count(); ++i)
    result.push_back(data->tensor.dtype == f64 ? data->tensor.as<const double>()[i]
                                               : data->tensor.as<const float>()[i]);
  return result;
}

int64_t mode_of(Node& n, const std::string& name) {
  constexpr std::string_view kNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name && i != kMember) return static_cast<int64_t>(i);
  n.refuse(str_cat("a node's mode is '", name, "'"));
}

// The trees of versions 1 to 3, whose nodes are named by tree and number. `what` is target or
// class.
Forest named_forest(Node& n, const std::string& what, int64_t targets) {
  if (targets < 1 || targets > 65536) n.refuse(str_cat("it has ", targets, " targets"));
  Forest forest;
  forest.targets = targets;
  const std::vector<int64_t> trees = n.integers("nodes_treeids"), ids = n.integers("nodes_nodeids"),
                             features = n.integers("nodes_featureids"),
                             yes = n.integers("nodes_truenodeids"),
                             no = n.integers("nodes_falsenodeids"),
                             missing = n.integers("nodes_missing_value_tracks_true");
  const std::vector<std::string> modes = n.strings("nodes_modes");
  const std::vector<double> splits = numbers_of(n, "nodes_values");
  const size_t count = trees.size();
  for (const size_t size :
       {ids.size(), features.size(), yes.size(), no.size(), modes.size(), splits.size()})
    if (size != count) n.refuse("its lists of nodes are of different lengths");
  if (count == 0) n.refuse("it has no nodes");
  std::map<std::pair<int64_t, int64_t>, int64_t> places;
  for (size_t i = 0; i < count; ++i) {
    const int64_t mode = mode_of(n, modes[i]);
    const int64_t node = forest.add(mode == kLeaf ? 0 : features[i], mode, splits[i],
                                    i < missing.size() ? missing[i] : 0);
    if (!places.emplace(std::pair(trees[i], ids[i]), node).second)
      n.refuse(str_cat("node ", ids[i], " of tree ", trees[i], " is there twice"));
    if (i == 0 || trees[i] != trees[i - 1]) forest.roots.push_back(node);
  }
  const auto find = [&](int64_t tree, int64_t id) {
    const auto found = places.find({tree, id});
    if (found == places.end()) n.refuse(str_cat("tree ", tree, " has no node ", id));
    return found->second;
  };
  for (size_t i = 0; i < count; ++i) {
    if (forest.modes[i] == kLeaf) continue;
    forest.yes[i] = find(trees[i], yes[i]);
    forest.no[i] = find(trees[i], no[i]);
  }
  forest.size_tables();
  const std::vector<int64_t> of = n.integers(what + "_ids"), in = n.integers(what + "_treeids"),
                             at = n.integers(what + "_nodeids");
  const std::vector<double> weights = numbers_of(n, what + "_weights");
  if (of.size() != in.size() || of.size() != at.size() || of.size() != weights.size())
    n.refuse("its lists of weights are of different lengths");
  for (size_t i = 0; i < of.size(); ++i) {
    if (of[i] < 0 || of[i] >= targets)
      n.refuse(str_cat("a weight is one of target ", of[i], " of ", targets));
    forest.weigh(find(in[i], at[i]), of[i], weights[i]);
  }
  return forest;
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
    for (size_t i = 0; i < forest.modes.size(); ++i)
      if (forest.modes[i] == kLeaf && forest.has[2 * i + 1] == 0)
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
  const Value sums = sum(leaves.weights, {Dim(1)});
  const std::vector<int64_t> ids = n.integers("class_ids");
  const bool one = std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  if (classes == 2 && one && !ids.empty()) return give_two_classes(n, forest, sums, ids[0]);
  const std::vector<double> base = numbers_of(n, "base_values");
  const Value scores = with_base(n, sums, base, classes);
  // A class that no leaf speaks of is not the best one.
  Value known = scores;
  if (base.empty())
    known = where(any(leaves.has, {Dim(1)}), scores, constant_like(scores, -INFINITY));
  give_classes(n, argmax(known, Dim(1)),
               cast(post_transformed(n, scores, n.string("post_transform", "NONE")), f32),
               "classlabels_int64s");
}

// The trees of version 5: leaves are a list of their own, and a node may ask for one of a set,
// which becomes a chain of nodes that ask for one number each.
std::vector<double> doubles_of(Node& n, const std::string& name) {
  std::vector<double> result;
  if (!n.has(name)) return result;
  const Tensor& data = n.tensor(name).tensor;
  for (int64_t i = 0; i < data.count(); ++i) {
    if (data.dtype == f64)
      result.push_back(data.as<const double>()[i]);
    else if (data.dtype == f32)
      result.push_back(data.as<const float>()[i]);
    else if (data.dtype == f16)
      result.push_back(static_cast<float>(data.as<const Half>()[i]));
    else if (data.dtype == u8)
      result.push_back(data.as<const uint8_t>()[i]);
    else
      n.refuse(str_cat("attribute '", name, "' is ", data.dtype));
  }
  return result;
}

Forest placed_forest(Node& n) {
  Forest forest;
  forest.targets = n.integer("n_targets");
  if (forest.targets < 1 || forest.targets > 65536)
    n.refuse(str_cat("it has ", forest.targets, " targets"));
  const std::vector<int64_t> features = n.integers("nodes_featureids"),
                             yes = n.integers("nodes_truenodeids"),
                             no = n.integers("nodes_falsenodeids"),
                             yes_leaf = n.integers("nodes_trueleafs"),
                             no_leaf = n.integers("nodes_falseleafs"),
                             missing = n.integers("nodes_missing_value_tracks_true"),
                             of = n.integers("leaf_targetids");
  const std::vector<double> splits = doubles_of(n, "nodes_splits"),
                            modes = doubles_of(n, "nodes_modes"),
                            weights = doubles_of(n, "leaf_weights"),
                            members = doubles_of(n, "membership_values");
  const size_t count = features.size();
  for (const size_t size :
       {yes.size(), no.size(), yes_leaf.size(), no_leaf.size(), splits.size(), modes.size()})
    if (size != count) n.refuse("its lists of nodes are of different lengths");
  if (of.size() != weights.size()) n.refuse("its lists of leaves are of different lengths");
  for (size_t i = 0; i < count; ++i)
    forest.add(features[i], static_cast<int64_t>(modes[i]), splits[i],
               i < missing.size() ? missing[i] : 0);
  const int64_t first_leaf = forest.count();
  for (size_t i = 0; i < of.size(); ++i) forest.add(0, kLeaf, 0, 0);
  const auto child = [&](int64_t id, int64_t leaf) {
    const int64_t place = leaf != 0 ? first_leaf + id : id;
    const int64_t end = leaf != 0 ? first_leaf + static_cast<int64_t>(of.size()) : first_leaf;
    if (id < 0 || place >= end) n.refuse(str_cat("a node leads to ", id, ", which is not there"));
    return place;
  };
  auto member = members.begin();
  for (size_t i = 0; i < count; ++i) {
    forest.yes[i] = child(yes[i], yes_leaf[i]);
    forest.no[i] = child(no[i], no_leaf[i]);
    if (forest.modes[i] < 0 || forest.modes[i] > kMember)
      n.refuse(str_cat("a node's mode is ", forest.modes[i]));
    if (forest.modes[i] != kMember) continue;
    std::vector<double> set;
    while (member != members.end() && !std::isnan(*member)) set.push_back(*member++);
    if (member != members.end()) ++member;
    if (set.empty()) n.refuse("a node asks for a set without members");
    const int64_t hit = forest.yes[i], miss = forest.no[i], tracks = forest.missing[i];
    size_t at = i;
    for (size_t k = 0;; ++k) {
      forest.modes[at] = kEqual;
      forest.splits[at] = set[k];
      forest.yes[at] = hit;
      if (k + 1 == set.size()) break;
      const auto next = static_cast<size_t>(forest.add(features[i], kEqual, 0, tracks));
      forest.no[at] = static_cast<int64_t>(next);
      at = next;
    }
    forest.no[at] = miss;
  }
  forest.roots = n.integers("tree_roots");
  for (const int64_t root : forest.roots)
    if (root < 0 || root >= first_leaf) n.refuse(str_cat("its root ", root, " is no node"));
  forest.size_tables();
  for (size_t i = 0; i < of.size(); ++i) {
    if (of[i] < 0 || of[i] >= forest.targets)
      n.refuse("a leaf is one of a target that is not there");
    forest.weigh(first_leaf + static_cast<int64_t>(i), of[i], weights[i]);
  }
  return forest;
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
