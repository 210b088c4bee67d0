// SPDX-License-Identifier: Apache-2.0
// Builds a `while` node for a loop whose end depends on data or sizes.
#pragma once

#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "converter/containers/columns.h"
#include "converter/interpret/changed_containers.h"
#include "converter/memory/carried.h"

namespace hg::convert {

// Interprets the body on symbolic values in passes, until a pass finds no new changes. Changes
// concern leaves (tensors and numbers in the carried values), tensors from outside, and sizes of
// both. The last pass becomes the body of the node.
class Interpreter::LoopNode {
 public:
  // `done` iterations have been unrolled. `held` are lists and dicts from outside that the body
  // changes.
  LoopNode(Interpreter& interpreter, const ScriptNode& node, const Item& trips, const Dim& done,
           const Item& condition, const std::vector<Item>& held);

  enum class Outcome {
    found,        // all changes: add_node() may be called
    unsupported,  // an op of the body is not supported
    shaped,       // the body determines the containers of a value that is undefined before the loop
    // An iteration changes the structure or dtype of a carried value. The loop may start over after
    // unrolling its first iteration; refusal() is the error if that does not help.
    changes_types,
  };
  // Throws Changing or Growing if the loop must start over.
  Outcome find_changes();
  const Refusal& refusal() const { return refusal_; }
  void add_node();

  // Resets the carried values to those from before, in the containers that were found, so that the
  // loop may start over.
  void start_over();
  // Returns the script's container for an iteration's copy.
  Item original(const Item& container) const;
  bool carries(const void* container) const;

 private:
  // The state of one pass over the body.
  struct Pass {
    std::vector<bool> takes;         // by leaf: whether it is an input of the body
    std::vector<Value> inside;       // the inputs: counter, leaves, tensors from outside, places
    size_t first_place = 0;          // in `inside`: which tensor each leaf is (Carried)
    std::vector<Item> items;         // the leaves in the body
    std::vector<TensorRef> own;      // those of them that are tensors
    std::vector<const Item*> after;  // the leaves at the end of the iteration
    std::vector<std::pair<size_t, TensorType>> fresh;  // leaves with their first value
    bool settled = true;                               // the pass found nothing new
  };

  Value go_on(Value condition, Value counter);
  Outcome run_pass(Pass& pass);
  Outcome interpret(Pass& pass);
  Outcome changes_types(std::string reason, std::string suggestion);
  void enter(Pass& pass);
  void set_carried(Pass& pass);
  bool run_body();
  Outcome check_structure(Pass& pass);
  void pair_lists(const Item& copy, const Item& known);
  Item fit_lists(const Item& known, const Item& last, const Pattern& pattern);
  void grow_lists(const Item& known, const Pattern& pattern);
  void note_members(Pass& pass);
  void note_changed_lists(Pass& pass);
  void leave_to_loop(const Item& known);
  Outcome note_changes(Pass& pass);
  Outcome give_outputs(Pass& pass);
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
  Value counter_, first_;    // iteration counter; whether there is an iteration
  std::vector<Item> start_;  // carried values, followed by held ones
  std::vector<const Item*> leaves_;
  std::vector<bool> changes_;                         // by leaf
  std::set<std::pair<const void*, size_t>> growing_;  // leaves or tensors from outside, and a dim
  std::vector<TensorRef> touched_, invalidated_;  // tensors from outside: written, become unknown
  std::set<std::pair<size_t, const void*>> members_;  // leaves, and lists or tensors in lists
  std::vector<TensorRef> left_;                       // by leaf: result of an iteration, for lists
  std::deque<Item> seeds_;             // start values, zeros, of values that only the body sets
  std::vector<bool> numeric_;          // by leaf: its seed is a number
  std::vector<bool> may_be_negative_;  // by leaf; only for integers
  std::vector<MemoryOrder> orders_;    // of leaves, after every iteration
  Carried places_;
  std::vector<std::pair<const void*, Item>> copies_;  // lists of an iteration, and before the loop
  std::vector<bool> rewritten_;                       // by carried value: both changed and replaced
  std::vector<Value> initial_;                        // the inputs of the node except its condition
  Memory::Region region_;
  std::vector<Item> last_;  // results of an iteration
  Refusal refusal_;
};

}  // namespace hg::convert
