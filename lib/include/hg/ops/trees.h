// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/trees.cpp.
#pragma once

#include <cstdint>

#include "hg/graph.h"

namespace hg {

// What a node of a decision tree lets pass of its feature x: any sum of these. NaN of either side
// is neither less than, equal to nor greater than the other.
enum TreeTest : int32_t {
  kTreeNan = 1,
  kTreeGreater = 2,  // x > split
  kTreeLess = 4,     // x < split
  kTreeEqual = 8,    // x == split
};

// The leaf of each tree that each row of x, floats[rows, features], reaches: i64[rows, trees].
//
// nodes, i32[count, 4], are the nodes of all trees: the feature, the test (TreeTest), the next node
// of what passes, the next node of what does not. A leaf has the feature -1, and its third number
// is what is given for it. splits, [count] of x's dtype: what features are compared with. roots,
// i32[trees]: the node that each tree begins with.
//
// A node that leads to itself, to one before it, or out of the table fails the run, as does a
// feature that x lacks.
inline Value tree_leaves(const Value& x, const Value& nodes, const Value& splits,
                         const Value& roots) {
  return x.graph()->call("tree_leaves", {x, nodes, splits, roots});
}

}  // namespace hg
