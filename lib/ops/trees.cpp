// SPDX-License-Identifier: Apache-2.0
// Decision trees.
#include "hg/ops/trees.h"

#include "hg/op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Status tree_leaves_infer(InferContext& c) {
  const TensorType &x = c.in(0), &nodes = c.in(1), &splits = c.in(2), &roots = c.in(3);
  if (!is_float(x.dtype) || x.rank() != 2)
    return c.fail("x must be floats of two dims, but is ", x);
  if (nodes.dtype != i32 || nodes.rank() != 2 || !c.require_equal(nodes.shape[1], 4))
    return c.fail("nodes must be i32[count, 4], but are ", nodes);
  if (!c.require_equal(splits, {x.dtype, {nodes.shape[0]}}))
    return c.fail("splits must be ", x.dtype, "[", nodes.shape[0], "], but are ", splits);
  if (roots.dtype != i32 || roots.rank() != 1)
    return c.fail("roots must be i32 of one dim, but are ", roots);
  c.out(0) = {i64, {x.shape[0], roots.shape[0]}};
  return {};
}

constexpr OpDef kOps[] = {
    // Returns the leaf that each row of x (floats[rows, features]) reaches in each tree: i64[rows,
    // trees].
    //
    // - nodes: i32[count, 4], of all trees. Columns: feature, test (TreeTest), next node if the
    //   test passes, next node if it fails. In a leaf, the feature is -1 and the third column is
    //   the result.
    // - splits: [count], of x's dtype, compared with the features.
    // - roots: i32[trees], the first node of each tree.
    //
    // The run fails if a node leads to itself, to an earlier node or outside the table, or tests a
    // feature that x does not have.
    {.signature = "tree_leaves(x, nodes, splits, roots) -> leaves",
     .infer = tree_leaves_infer,
     .traits = kNoGradient},
};

}  // namespace

std::span<const OpDef> trees() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
