// SPDX-License-Identifier: Apache-2.0
// Sets of numbers from 0 on that have none in common, joined two at a time (union-find with path
// halving: Tarjan, van Leeuwen 1984).
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace hg {

class DisjointSets {
 public:
  // Each number below `count` alone.
  explicit DisjointSets(size_t count = 0) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }

  // One number more, alone.
  size_t add() {
    parent_.push_back(parent_.size());
    return parent_.size() - 1;
  }
  size_t size() const { return parent_.size(); }
  bool is_root(size_t i) const { return parent_[i] == i; }
  // The number that stands for the set of i.
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // Makes one set of two roots', for which `kept` stands.
  void join(size_t kept, size_t other) { parent_[other] = kept; }

 private:
  std::vector<size_t> parent_;
};

}  // namespace hg
