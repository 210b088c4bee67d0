// SPDX-License-Identifier: Apache-2.0
// Lists that a loop carries. They become grown lists if iterations change their length. They are
// changed in place only if nothing else refers to them.
#include <algorithm>

#include "converter/containers/containers.h"
#include "converter/interpret/loop_node.h"

namespace hg::convert {
namespace {

void collect_lists(const Item& item, std::vector<const void*>& lists) {
  if (item.is_list()) lists.push_back(identity_of(item));
  if (const Items* items = elements_of(item))
    for (const Item& each : *items) collect_lists(each, lists);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value))
    for (const auto& [key, value] : (*dict)->items) collect_lists(value, lists);
}

}  // namespace

// Pairs the lists of an iteration with those from before the loop.
void Interpreter::LoopNode::pair_lists(const Item& copy, const Item& known) {
  if (copy.is_list() || copy.is_dict()) in_.identities_.inherit(copy, known);
  if (copy.is_list()) copies_.emplace_back(identity_of(copy), known);
  const Items *a = elements_of(copy), *b = elements_of(known);
  for (size_t i = 0; a && b && i < a->size(); ++i) pair_lists((*a)[i], (*b)[i]);
  if (!copy.is_dict()) return;
  const auto &x = std::get<std::shared_ptr<Dict>>(copy.value)->items,
             &y = std::get<std::shared_ptr<Dict>>(known.value)->items;
  for (size_t i = 0; i < x.size(); ++i) pair_lists(x[i].second, y[i].second);
}

// Fits the results of an iteration to the lists that it starts with. Starts over if these must
// become grown lists.
Item Interpreter::LoopNode::fit_lists(const Item& known, const Item& last, const Pattern& pattern) {
  grow_lists(known, pattern);
  return in_.fit(last, pattern);
}

// Starts over with the first list whose length must become variable.
void Interpreter::LoopNode::grow_lists(const Item& known, const Pattern& pattern) {
  const auto* list = std::get_if<std::shared_ptr<List>>(&known.value);
  if (list && pattern.kind == Pattern::Kind::grown) {
    if (!(*list)->grown || !same_structure(known, fitted(memory_, known, pattern)))
      throw Growing{std::get<std::shared_ptr<List>>(original(known).value), pattern, false};
    return;
  }
  if (const Items* items = elements_of(known))
    for (size_t i = 0; i < items->size(); ++i) grow_lists((*items)[i], pattern.parts.at(i));
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&known.value))
    for (size_t i = 0; i < (*dict)->items.size(); ++i)
      grow_lists((*dict)->items[i].second, pattern.parts.at(i));
}

// Records which leaves are elements of lists: results of an iteration are inputs of the next one.
void Interpreter::LoopNode::note_members(Pass& pass) {
  const auto note = [&](size_t leaf, const TensorRef& other) {
    const void* known = memory_.is_outer(other) ? other.get() : nullptr;
    for (size_t k = 0; k < leaves_.size(); ++k)
      if (column_of(*pass.after[k]) == other || column_of(pass.items[k]) == other)
        known = leaves_[k];
    if (known != nullptr) pass.settled &= !members_.emplace(leaf, known).second;
  };
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!changes_[i]) continue;
    const TensorRef item = tensor_of(pass.items[i]), end = tensor_of(*pass.after[i]);
    const TensorRef column = column_of(*pass.after[i]);
    if (item && end) {
      left_[i] = end;
      for (const TensorRef& list : memory_.lists_of(end)) note(i, list);
    }
    if (column) {
      left_[i] = column;
      for (const TensorRef& element : memory_.elements_of(column)) note(i, element);
    }
  }
}

// From now on only the loop may use these lists.
void Interpreter::LoopNode::leave_to_loop(const Item& known) {
  std::vector<const void*> lists;
  collect_lists(known, lists);
  for (const void* list : lists) {
    in_.identities_.make_stale(list);
    in_.identities_.marks().stale.insert(list);
  }
}

// Handles a list that some iterations change in place and others replace. The next iteration must
// own its list, and the list from before the loop must not be used.
void Interpreter::LoopNode::note_changed_lists(Pass& pass) {
  size_t first = 0;
  std::vector<const void*> seen;  // inputs of the next iteration
  for (size_t i = 0; i < start_.size(); ++i) collect_lists(last_[i + 1], seen);
  for (size_t i = 0; i < carried_; ++i) {
    std::vector<const void*> own, after;
    collect_lists(in_.get(block_.inputs[i + 1]), own);
    collect_lists(last_[i + 1], after);
    // Changed under its own name, or under the name of a list that may be the same.
    bool is_changed = std::any_of(own.begin(), own.end(), [&](const void* list) {
      return in_.identities_.marks().stale.contains(list);
    });
    const size_t leaves = count_leaves(start_[i]);
    for (size_t k = first; k < first + leaves; ++k) {
      const TensorRef column = column_of(pass.items[k]);
      is_changed |= column && pass.takes[k] && changes_[k] && column->is_written();
    }
    first += leaves;
    if (is_changed) {
      pass.settled &= rewritten_[i];
      rewritten_[i] = true;
    }
    if (!rewritten_[i]) continue;
    leave_to_loop(start_[i]);
    for (const void* list : after)
      for (const void* origin : in_.identities_.origins_of(list, own)) {
        const bool is_own = std::find(own.begin(), own.end(), origin) != own.end() ||
                            in_.identities_.depth_of(origin) >= memory_.depth();
        const auto uses = std::count_if(seen.begin(), seen.end(), [&](const void* other) {
          return in_.identities_.origins_of(other, own).contains(origin);
        });
        if (!is_own || uses > 1 || in_.identities_.marks().stored.contains(list))
          throw Refusal{
              "a list is changed in place by a loop of unknown length, and may be an "
              "element of another list, or the same as another",
              "make a new one in each round: x = x + [y]"};
      }
  }
}

}  // namespace hg::convert
