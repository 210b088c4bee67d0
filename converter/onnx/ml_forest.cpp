// SPDX-License-Identifier: Apache-2.0
#include "converter/onnx/ml_forest.h"

#include <cmath>
#include <map>
#include <set>

namespace hg::convert::onnx {
namespace {

Mode mode_of(Node& n, const std::string& name) {
  constexpr std::string_view kNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name && i != kMember) return static_cast<Mode>(i);
  n.refuse(str_cat("a node's mode is '", name, "'"));
}

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

size_t target_count(Node& n, int64_t targets) {
  if (targets < 1 || targets > 65536) n.refuse(str_cat("it has ", targets, " targets"));
  return static_cast<size_t>(targets);
}

}  // namespace

void Forest::size_tables(convert::onnx::Node& n) {
  if (nodes.size() > size_t{1} << 30 || nodes.size() * targets > size_t{1} << 30)
    n.refuse(str_cat("it has ", static_cast<int64_t>(nodes.size()), " nodes and ",
                     static_cast<int64_t>(targets), " targets"));
  weights.assign(nodes.size() * targets, 0.0);
  has.assign(weights.size(), false);
}

void Forest::weigh(convert::onnx::Node& n, size_t node, int64_t target, double weight) {
  if (target < 0 || target >= static_cast<int64_t>(targets))
    n.refuse(str_cat("a weight is one of target ", target, " of ", static_cast<int64_t>(targets)));
  const size_t at = node * targets + static_cast<size_t>(target);
  weights[at] += weight;
  has[at] = true;
}

std::vector<double> numbers_of(Node& n, const std::string& name) {
  const std::string tensor = name + "_as_tensor";
  return n.has(tensor) ? doubles_of(n, tensor) : n.reals(name);
}

Forest named_forest(Node& n, const std::string& what, int64_t targets) {
  Forest forest;
  forest.targets = target_count(n, targets);
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
  std::map<std::pair<int64_t, int64_t>, size_t> places;
  std::set<int64_t> begun;
  for (size_t i = 0; i < count; ++i) {
    if (!places.emplace(std::pair(trees[i], ids[i]), i).second)
      n.refuse(str_cat("node ", ids[i], " of tree ", trees[i], " is there twice"));
    if (i > 0 && trees[i] == trees[i - 1]) continue;
    forest.roots.push_back(i);
    if (!begun.insert(trees[i]).second)
      n.refuse(str_cat("the nodes of tree ", trees[i], " do not stand together"));
  }
  const auto find = [&](int64_t tree, int64_t id) {
    const auto found = places.find({tree, id});
    if (found == places.end()) n.refuse(str_cat("tree ", tree, " has no node ", id));
    return found->second;
  };
  for (size_t i = 0; i < count; ++i) {
    Forest::Node node = {.mode = mode_of(n, modes[i])};
    if (node.mode != kLeaf)
      node = {.feature = features[i],
              .mode = node.mode,
              .split = splits[i],
              .nan_passes = i < missing.size() && missing[i] != 0,
              .yes = find(trees[i], yes[i]),
              .no = find(trees[i], no[i])};
    forest.nodes.push_back(node);
  }
  forest.size_tables(n);
  const std::vector<int64_t> of = n.integers(what + "_ids"), in = n.integers(what + "_treeids"),
                             at = n.integers(what + "_nodeids");
  const std::vector<double> weights = numbers_of(n, what + "_weights");
  if (of.size() != in.size() || of.size() != at.size() || of.size() != weights.size())
    n.refuse("its lists of weights are of different lengths");
  for (size_t i = 0; i < of.size(); ++i) forest.weigh(n, find(in[i], at[i]), of[i], weights[i]);
  return forest;
}

Forest placed_forest(Node& n) {
  Forest forest;
  forest.targets = target_count(n, n.integer("n_targets"));
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
  const size_t leaves = of.size();
  forest.nodes.resize(count + leaves);  // new nodes are leaves by default
  const auto child = [&](int64_t id, int64_t leaf) {
    if (id < 0 || id >= static_cast<int64_t>(leaf != 0 ? leaves : count))
      n.refuse(str_cat("a node leads to ", id, ", which is not there"));
    return static_cast<size_t>(id) + (leaf != 0 ? count : 0);
  };
  auto member = members.begin();
  for (size_t i = 0; i < count; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= int64_t{kMember}))
      n.refuse(str_cat("a node's mode is ", modes[i]));
    const Forest::Node node = {.feature = features[i],
                               .mode = static_cast<Mode>(modes[i]),
                               .split = splits[i],
                               .nan_passes = i < missing.size() && missing[i] != 0,
                               .yes = child(yes[i], yes_leaf[i]),
                               .no = child(no[i], no_leaf[i])};
    forest.nodes[i] = node;
    if (node.mode != kMember) continue;
    if (member == members.end() || std::isnan(*member))
      n.refuse("a node asks for a set without members");
    for (size_t at = i;;) {
      forest.nodes[at] = node;
      forest.nodes[at].mode = kEqual;
      forest.nodes[at].split = *member++;
      if (member == members.end() || std::isnan(*member)) break;
      forest.nodes[at].no = forest.nodes.size();
      at = forest.nodes.size();
      forest.nodes.emplace_back();
    }
    if (member != members.end()) ++member;
  }
  for (const int64_t root : n.integers("tree_roots")) {
    if (root < 0 || root >= static_cast<int64_t>(count))
      n.refuse(str_cat("its root ", root, " is no node"));
    forest.roots.push_back(static_cast<size_t>(root));
  }
  forest.size_tables(n);
  for (size_t i = 0; i < leaves; ++i) forest.weigh(n, count + i, of[i], weights[i]);
  return forest;
}

}  // namespace hg::convert::onnx
