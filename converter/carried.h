// SPDX-License-Identifier: Apache-2.0
// What the tensors that a loop carries share memory with, from round to round: tensors from outside
// of the loop, or each other. A number for each of them, which the loop carries too, says which.
#pragma once

#include <set>
#include <vector>

#include "converter/alias.h"

namespace hg::convert {

class Carried {
 public:
  // What the leaves are before the loop; null for those that are no tensors.
  Carried(Memory& memory, std::vector<TensorRef> start);

  // The numbers before the loop, of the leaves that it carries.
  std::vector<Value> numbers(const std::vector<bool>& carried);
  // The leaves, of which `own` are tensors with their values, in the body or after the loop.
  std::vector<TensorRef> placed(const std::vector<TensorRef>& own,
                                const std::vector<Value>& numbers);
  // At the end of a round that leaves these: the numbers for the next one. `settled` becomes false
  // when there are more tensors that a leaf may be than known before.
  std::vector<Value> next(const std::vector<TensorRef>& left, bool& settled);

 private:
  struct Target {
    TensorRef outside;
    size_t leaf = 0;  // whose own tensor it is when there is none outside
    friend bool operator==(const Target&, const Target&) = default;
  };
  struct Leaf {
    std::vector<Target> targets;  // the number counts them from 1, and 0 is a tensor of its own
    bool starts_outside = false;
    std::set<TensorRef> vague;    // roots outside that its own tensor may share memory with
    std::set<size_t> vague_leaves;
  };
  int64_t code(Leaf& leaf, const Target& target, bool& settled);

  Memory& memory_;
  std::vector<Leaf> leaves_;
  std::vector<bool> carried_;
};

}  // namespace hg::convert
