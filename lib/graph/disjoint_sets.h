// SPDX-License-Identifier: Apache-2.0
// Disjoint sets of the numbers 0, 1, ..., merged in pairs (union-find with path halving: Tarjan and
// van Leeuwen 1984).
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace hg {

class DisjointSets {
 public:
  // Puts each number below `count` into its own set.
  explicit DisjointSets(size_t count = 0) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }

  // Adds the next number in its own set.
  size_t add() {
    parent_.push_back(parent_.size());
    return parent_.size() - 1;
  }
  size_t size() const { return parent_.size(); }
  bool is_root(size_t i) const { return parent_[i] == i; }
  // Returns the representative of the set of i.
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // Joins the sets of two representatives; `kept` represents the result.
  void join(size_t kept, size_t other) { parent_[other] = kept; }

 private:
  std::vector<size_t> parent_;
};

}  // namespace hg
