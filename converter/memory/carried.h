// SPDX-License-Identifier: Apache-2.0
// Which tensors a loop-carried tensor shares memory with, from round to round: tensors from outside
// the loop, other carried tensors, and views of both. The loop also carries a number per tensor
// that says which.
#pragma once

#include <set>
#include <vector>

#include "converter/memory/alias.h"

namespace hg::convert {

class Carried {
 public:
  // What the leaves are before the loop; null for those that are no tensors.
  Carried(Memory& memory, const std::vector<TensorRef>& start);

  // The numbers before the loop, of the leaves that it carries.
  std::vector<Value> numbers(const std::vector<bool>& carried);
  // The leaves, of which `own` are tensors with their values, in the body or after the loop.
  std::vector<TensorRef> placed(const std::vector<TensorRef>& own,
                                const std::vector<Value>& numbers);
  // At the end of a round that leaves these: the numbers for the next one. `settled` becomes false
  // when there are more tensors that a leaf may be than known before.
  std::vector<Value> next(const std::vector<TensorRef>& left, bool& settled);

 private:
  // A tensor from outside, or a leaf's own, or a view of one that each round makes alike.
  struct Target {
    TensorRef base;  // from outside
    size_t leaf = 0;
    std::vector<std::vector<Memory::Step>> steps;  // of the views, the last one first
    std::vector<TensorRef> views;
    TensorRef outside;  // the tensor that it is, where there is a base
    bool is_lost = false;
    bool is(const Target& other) const {
      return base == other.base && leaf == other.leaf && steps == other.steps;
    }
  };
  struct Leaf {
    std::vector<Target> targets;  // the number counts them from 1, and 0 is a tensor of its own
    bool starts_outside = false;
    std::set<TensorRef> vague;  // roots outside that its own tensor may share memory with
    std::set<size_t> vague_leaves;
  };
  // A way from a tensor that a round leaves through choices and views of the body.
  struct Way {
    Value condition;
    TensorRef tensor;
    std::vector<std::vector<Memory::Step>> steps;
    std::vector<TensorRef> views;
    bool is_steady = true;  // other rounds make the same views
  };
  void follow(const TensorRef& tensor, const Way& so_far, std::vector<Way>& ways);
  TensorRef viewed(const Target& target, TensorRef tensor);
  void share_views(const std::vector<std::vector<Way>>& ways, size_t i, size_t j, bool& settled);

  Memory& memory_;
  std::vector<Leaf> leaves_;
  std::vector<bool> carried_;
};

}  // namespace hg::convert
