// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/trees.cpp.
#pragma once

#include <cstdint>

#include "hg/graph.h"

namespace hg {

// The test of a decision node on its feature x: any sum of these. If x or split is NaN, no
// comparison is true.
enum TreeTest : int32_t {
  kTreeNan = 1,
  kTreeGreater = 2,  // x > split
  kTreeLess = 4,     // x < split
  kTreeEqual = 8,    // x == split
};

// Returns the leaf that each row of x (floats[rows, features]) reaches in each tree: i64[rows,
// trees].
//
// - nodes: i32[count, 4], of all trees. Columns: feature, test (TreeTest), next node if the test
//   passes, next node if it fails. In a leaf, the feature is -1 and the third column is the result.
// - splits: [count], of x's dtype, compared with the features.
// - roots: i32[trees], the first node of each tree.
//
// The run fails if a node leads to itself, to an earlier node or outside the table, or tests a
// feature that x does not have.
inline Value tree_leaves(const Value& x, const Value& nodes, const Value& splits,
                         const Value& roots) {
  return x.graph()->call("tree_leaves", {x, nodes, splits, roots});
}

}  // namespace hg
