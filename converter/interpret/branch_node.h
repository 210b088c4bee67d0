// SPDX-License-Identifier: Apache-2.0
// An `if` that data or sizes decide, while it becomes a graph node.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "converter/containers/columns.h"
#include "converter/interpret/changed_containers.h"
#include "converter/memory/leaving.h"

namespace hg::convert {

// Each side runs once to find what it returns, reads and writes. Once the other side is known, it
// runs again to become a subgraph: both take the same inputs and return the same outputs.
class Interpreter::BranchNode {
 public:
  // `sizes` where they decide the condition `item`. `held` are lists and dicts from outside that a
  // side changes.
  BranchNode(Interpreter& interpreter, const ScriptNode& node, const Item& item,
             const Scalar* sizes, const std::vector<Item>& held);

  // False where an op of a side is not supported. Throws Changing and Growing, and Refusal where
  // the sides do not fit.
  bool build();
  void add_node();

 private:
  struct Side {
    std::vector<Item> results;
    std::vector<std::optional<Pattern>> patterns;  // of results that hold lists
    std::vector<const Item*> leaves;
    std::map<const void*, TensorType> types;  // of tensors; the side alone may know its views
    TensorType type(const Item& leaf) const;
    std::vector<MemoryOrder> orders;  // by leaf
    std::optional<Leaving> leaving;
    Memory::Region region;
    Identities::Marks marks;
  };
  enum class Run { to_look, to_build };

  Side run_side(size_t index, const Side* other, const std::vector<Value>& captured, Run run);
  void take_results(Side& side, const Side* other);
  bool are_alike() const;
  void fit_sides();
  void choose_outside();
  void note_written();
  void give_outputs(size_t index, const Side& present);
  bool is_needed();
  std::vector<Value> call_if(const Value& condition);
  void name_sizes(std::vector<Value>& outputs);
  Item result_of(size_t i, const Value& condition, const Value& value);
  void give_back(Identities::Merge merge);
  bool has_failed() const { return in_.result_.unsupported.size() > failures_; }

  Interpreter& in_;
  Memory& memory_;
  const ScriptNode& node_;
  const Item& item_;
  const Scalar* const sizes_;
  const std::vector<Item>& held_;
  const size_t failures_;
  const Identities::Marks marks_;
  const Dim last_;                  // symbols that are younger are of the sides
  std::vector<Side> seen_, built_;  // the first where the condition holds
  std::vector<bool> kept_;     // by leaf: outside of the node, as both share it or sizes say it
  std::vector<Item> outside_;  // those
  std::vector<TensorRef> touched_, invalidated_;  // tensors from outside: written, no longer known
};

}  // namespace hg::convert
