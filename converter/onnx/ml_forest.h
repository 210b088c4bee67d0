// SPDX-License-Identifier: Apache-2.0
// Tree ensembles in the form of ai.onnx.ml.
#pragma once

#include "converter/onnx/ml.h"

namespace hg::convert::onnx {

enum Mode : int64_t { kLeq, kLess, kGeq, kGreater, kEqual, kUnequal, kMember, kLeaf };

struct Forest {
  struct Node {
    int64_t feature = 0;
    Mode mode = kLeaf;
    double split = 0;
    bool nan_passes = false;
    size_t yes = 0, no = 0;
  };
  std::vector<Node> nodes;
  std::vector<size_t> roots;
  size_t targets = 1;
  std::vector<double> weights;  // [nodes, targets]
  std::vector<bool> has;        // [nodes, targets]: whether the leaf has a weight for the target

  // Sizes the tables for the existing nodes.
  void size_tables(convert::onnx::Node& n);
  void weigh(convert::onnx::Node& n, size_t node, int64_t target, double weight);
};

// Reads an attribute that is a list or, for 64-bit numbers, a tensor.
std::vector<double> numbers_of(Node& n, const std::string& name);
// Reads the trees of versions 1 to 3, whose nodes are named by tree and number. `what` is target or
// class.
Forest named_forest(Node& n, const std::string& what, int64_t targets);
// Reads the trees of version 5. Leaves are a separate list. A node that tests for a set becomes a
// chain of nodes that test for one number each.
Forest placed_forest(Node& n);

}  // namespace hg::convert::onnx
