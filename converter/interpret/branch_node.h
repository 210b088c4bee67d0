// SPDX-License-Identifier: Apache-2.0
// Builds a graph node for an `if` whose condition depends on data or sizes.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "converter/containers/columns.h"
#include "converter/interpret/changed_containers.h"
#include "converter/memory/leaving.h"

namespace hg::convert {

// Each side first runs once to find what it returns, reads and writes. When the other side is
// known, it runs again to become a subgraph. Both subgraphs have the same inputs and outputs.
class Interpreter::BranchNode {
 public:
  // `sizes` is set if sizes decide the condition `item`. `held` are lists and dicts from outside
  // that a side changes.
  BranchNode(Interpreter& interpreter, const ScriptNode& node, const Item& item,
             const Scalar* sizes, const std::vector<Item>& held);

  // Returns false if an op of a side is not supported. Throws Changing and Growing, and Refusal if
  // the sides do not fit.
  bool build();
  void add_node();

 private:
  struct Side {
    std::vector<Item> results;
    std::vector<std::optional<Pattern>> patterns;  // of results with lists
    std::vector<const Item*> leaves;
    std::map<const void*, TensorType> types;  // of tensors; only the side may know its views
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
  bool has_failed() const { return in_.report_.rejected() > failures_; }

  Interpreter& in_;
  Memory& memory_;
  const ScriptNode& node_;
  const Item& item_;
  const Scalar* const sizes_;
  const std::vector<Item>& held_;
  const size_t failures_;
  const Identities::Marks marks_;
  const Dim last_;                  // newer symbols belong to the sides
  std::vector<Side> seen_, built_;  // [0] is for a true condition
  std::vector<bool> kept_;          // by leaf: not an output, as both share it or sizes decide
  std::vector<Item> outside_;       // the values of kept leaves
  std::vector<TensorRef> touched_, invalidated_;  // tensors from outside: written, become unknown
};

}  // namespace hg::convert
