// SPDX-License-Identifier: Apache-2.0
// Tracks which tensors a loop-carried tensor shares memory with in each iteration: tensors from
// outside the loop, other carried tensors, and views of both. For each tensor the loop also carries
// a number that selects one of them.
#pragma once

#include <set>
#include <vector>

#include "converter/memory/alias.h"

namespace hg::convert {

class Carried {
 public:
  // `start` are the leaves before the loop; null for leaves that are not tensors.
  Carried(Memory& memory, const std::vector<TensorRef>& start);

  // Returns the numbers before the loop, for the carried leaves.
  std::vector<Value> numbers(const std::vector<bool>& carried);
  // Returns the leaves in the body or after the loop. `own` are tensors with their values.
  std::vector<TensorRef> placed(const std::vector<TensorRef>& own,
                                const std::vector<Value>& numbers);
  // At the end of an iteration: returns the numbers for the next one. Sets `settled` to false if a
  // leaf may be more tensors than known before. `left` are the leaves after the iteration.
  std::vector<Value> next(const std::vector<TensorRef>& left, bool& settled);

 private:
  // A tensor from outside, a leaf's own tensor, or a view of one that each iteration makes in the
  // same way.
  struct Target {
    TensorRef base;  // the tensor from outside, if any
    size_t leaf = 0;
    std::vector<std::vector<Memory::Step>> steps;  // ops of the views, last view first
    std::vector<TensorRef> views;
    TensorRef outside;  // the view of `base`, if there is a base
    bool is_lost = false;
    bool is(const Target& other) const {
      return base == other.base && leaf == other.leaf && steps == other.steps;
    }
  };
  struct Leaf {
    std::vector<Target> targets;  // number k selects targets[k - 1]; 0 means its own tensor
    bool starts_outside = false;
    std::set<TensorRef> vague;  // outside roots that its own tensor may share memory with
    std::set<size_t> vague_leaves;
  };
  // A path from a tensor after an iteration through choices and views of the body.
  struct Way {
    Value condition;
    TensorRef tensor;
    std::vector<std::vector<Memory::Step>> steps;
    std::vector<TensorRef> views;
    bool is_steady = true;  // other iterations make the same views
  };
  void follow(const TensorRef& tensor, const Way& so_far, std::vector<Way>& ways);
  TensorRef viewed(const Target& target, TensorRef tensor);
  void share_views(const std::vector<std::vector<Way>>& ways, size_t i, size_t j, bool& settled);

  Memory& memory_;
  std::vector<Leaf> leaves_;
  std::vector<bool> carried_;
};

}  // namespace hg::convert
