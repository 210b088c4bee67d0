// SPDX-License-Identifier: Apache-2.0
// Decision trees. Each step of a walk waits for the previous load, so several walks run
// interleaved.
#include "hg/ops/trees.h"

#include <algorithm>

#include "kernels/ceil_div.h"
#include "kernels/lines.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct TreeNode {
  int32_t feature, test;
  int32_t next[2];  // if the test passes, if not
};

// The bit of a test that says whether x passes.
template <class Number>
int relation_of(Number x, Number split) {
  static_assert(kTreeNan == 1 << 0 && kTreeGreater == 1 << 1 && kTreeLess == 1 << 2 &&
                kTreeEqual == 1 << 3);
  return (x >= split) + 2 * (x <= split);
}

constexpr int kLanes = 12;
// Rows that one thread processes together. They stay in the cache while trees pass.
constexpr int64_t kRows = 64, kWalks = 1024;

template <class T>
struct Forest {
  const TreeNode* nodes;
  const T *splits, *x;
  const int32_t* roots;
  int64_t* leaves;
  int64_t count, features, trees;

  struct Walk {
    const T* row;
    int64_t* leaf;
    int64_t at;
  };

  // Some rows through some trees. Returns false if a table is wrong. A lane that has reached a leaf
  // starts the next walk.
  bool walk(int64_t row, int64_t row_end, int64_t tree, int64_t tree_end) const {
    Walk lanes[kLanes];
    int live = 0;
    int64_t next_row = row;
    const auto begin = [&](Walk& lane) {
      lane = {x + next_row * features, leaves + next_row * trees + tree, roots[tree]};
      if (++next_row == row_end) {
        next_row = row;
        ++tree;
      }
      return lane.at >= 0 && lane.at < count;
    };
    while (live < kLanes && tree < tree_end)
      if (!begin(lanes[live++])) return false;
    while (live > 0) {
      for (int i = 0; i < live; ++i) {
        Walk& lane = lanes[i];
        const TreeNode& node = nodes[lane.at];
        if (node.feature < 0) {
          *lane.leaf = node.next[0];
          if (tree == tree_end)
            lane = lanes[--live];
          else if (!begin(lane))
            return false;
          continue;
        }
        if (node.feature >= features) return false;
        const int bit = relation_of(wide(lane.row[node.feature]), wide(splits[lane.at]));
        const int64_t next = node.next[~node.test >> bit & 1];
        if (next <= lane.at || next >= count) return false;
        lane.at = next;
      }
    }
    return true;
  }
};

void run_tree_leaves(const RunContext& c) noexcept {
  for_float(c.in(0).dtype, [&]<class T>() {
    const int64_t rows = c.in(0).shape[0];
    const Forest<T> forest = {.nodes = c.in(1).as<const TreeNode>(),
                              .splits = c.in(2).as<const T>(),
                              .x = c.in(0).as<const T>(),
                              .roots = c.in(3).as<const int32_t>(),
                              .leaves = c.out(0).as<int64_t>(),
                              .count = c.in(1).shape[0],
                              .features = c.in(0).shape[1],
                              .trees = c.in(3).count()};
    if (rows == 0 || forest.trees == 0) return;
    const int64_t tall = std::min(kRows, rows), broad = std::min(kWalks / tall, forest.trees);
    const int64_t across = ceil_div(forest.trees, broad);
    c.parallel_for(ceil_div(rows, tall) * across, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t row = tile / across * tall, tree = tile % across * broad;
        if (!forest.walk(row, std::min(rows, row + tall), tree,
                         std::min(forest.trees, tree + broad)))
          c.fail("a node, a root or a feature is not where the table says");
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "tree_leaves", .name = "lanes", .run = run_tree_leaves},
};

}  // namespace

std::span<const KernelDef> trees() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
