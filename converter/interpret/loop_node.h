// SPDX-License-Identifier: Apache-2.0
// A loop whose end data or sizes decide, while it becomes a `while` node.
#pragma once

#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "converter/containers/columns.h"
#include "converter/interpret/changed_containers.h"
#include "converter/memory/carried.h"

namespace hg::convert {

// The body is run on symbolic values, a pass after the other, until a pass finds out nothing new
// about what a round changes: leaves (the tensors and numbers inside what the loop carries),
// tensors from outside, and sizes of both. The last pass is the body of the node.
class Interpreter::LoopNode {
 public:
  // `done` rounds have been unrolled. `held` are lists and dicts from outside that the body
  // changes.
  LoopNode(Interpreter& interpreter, const ScriptNode& node, const Item& trips, const Dim& done,
           const Item& condition, const std::vector<Item>& held);

  // False where an op of the body is not supported. Throws what makes the loop start over:
  // Changing, Growing, Shaped, Peeling.
  bool find_changes();
  void add_node();

  // Thrown where the body gives what is undefined before the loop its containers.
  struct Shaped {};
  // Thrown where a round gives what the loop carries another structure or dtype. The loop may start
  // over after its first round; `refusal` where that is of no use.
  struct Peeling {
    Refusal refusal;
  };
  // After a throw: what the loop carries is what it was, or has the containers that were found.
  void start_over();
  // The container that the script knows, of a copy that a round has.
  Item original(const Item& container) const;
  bool carries(const void* container) const;

 private:
  // What one pass over the body has.
  struct Pass {
    std::vector<bool> takes;         // by leaf: it is an input of the body
    std::vector<Value> inside;       // the inputs: counter, leaves, tensors from outside, places
    size_t first_place = 0;          // of `inside`: which tensor each leaf is (Carried)
    std::vector<Item> items;         // the leaves inside
    std::vector<TensorRef> own;      // those that are tensors
    std::vector<const Item*> after;  // the leaves at the end of the round
    std::vector<std::pair<size_t, TensorType>> fresh;  // leaves that get their first value
    bool settled = true;                               // nothing new was found out
  };

  Value go_on(Value condition, Value counter);
  bool run_pass(Pass& pass);
  void enter(Pass& pass);
  void set_carried(Pass& pass);
  bool run_body();
  void check_structure(Pass& pass);
  void pair_lists(const Item& copy, const Item& known);
  Item fit_lists(const Item& known, const Item& last, const Pattern& pattern);
  void grow_lists(const Item& known, const Pattern& pattern);
  void note_members(Pass& pass);
  void note_changed_lists(Pass& pass);
  void leave_to_loop(const Item& known);
  void note_changes(Pass& pass);
  void give_outputs(Pass& pass);
  bool grows(const void* what, const Shape& before, const Shape& after);
  bool note_sign(size_t i, const Value& value);
  void note_region(Pass& pass);
  void seed(Pass& pass);
  Value with_length(const Value& after, size_t k) const;
  void give_back(const std::vector<Item>& results);

  Interpreter& in_;
  Memory& memory_;
  const ScriptNode& node_;
  const ScriptBlock& block_;
  const Item trips_;
  const Dim done_;
  const Item condition_;
  const std::vector<Item> held_;
  const size_t carried_, failures_;
  const Identities::Marks marks_;
  bool counted_;
  Value counter_, first_;    // of rounds, and whether there is one
  std::vector<Item> start_;  // what the loop carries, and then what is held
  std::vector<const Item*> leaves_;
  std::vector<bool> changes_;                         // by leaf
  std::set<std::pair<const void*, size_t>> growing_;  // leaves or tensors from outside, and a dim
  std::vector<TensorRef> touched_, invalidated_;  // tensors from outside: written, no longer known
  std::set<std::pair<size_t, const void*>> members_;  // leaves, and lists or tensors of lists
  std::vector<TensorRef> left_;        // by leaf: what a round leaves behind, for lists
  std::deque<Item> seeds_;             // values that only the body sets; they start as zeros
  std::vector<bool> numeric_;          // of those
  std::vector<bool> may_be_negative_;  // by leaf; where it is no integer
  std::vector<MemoryOrder> orders_;    // of leaves, after every round
  Carried places_;
  std::vector<std::pair<const void*, Item>> copies_;  // lists of a round, and before the loop
  std::vector<bool> rewritten_;  // by what is carried: lists that are both changed and replaced
  std::vector<Value> initial_;   // the inputs of the node, but for its condition
  Memory::Region region_;
  std::vector<Item> last_;  // what a round gives
};

}  // namespace hg::convert
