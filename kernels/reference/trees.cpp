// SPDX-License-Identifier: Apache-2.0
// Decision trees.
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

void tree_leaves(const Call& c) {
  const Array &x = c.in[0], &nodes = c.in[1], &splits = c.in[2], &roots = c.in[3];
  const int64_t features = x.shape[1], trees = roots.count();
  const auto column = [&](int64_t node, int k) {
    return static_cast<int64_t>(nodes.at(node * 4 + k));
  };
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    auto node = static_cast<int64_t>(roots.at(i % trees));
    while (column(node, 0) >= 0) {
      const double value = x.at(i / trees * features + column(node, 0)), split = splits.at(node);
      int relation = 1;
      if (value > split) relation = 2;
      if (value < split) relation = 4;
      if (value == split) relation = 8;
      const bool passes = column(node, 1) / relation % 2 == 1;
      node = column(node, passes ? 2 : 3);
    }
    c.out[0].at(i) = static_cast<double>(column(node, 2));
  }
}

constexpr Row kRows[] = {{"tree_leaves", tree_leaves}};

}  // namespace

std::span<const Row> trees() { return kRows; }

}  // namespace hg::reference::rows
