// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "lib/graph/border.h"
#include "lib/text/grammar/rules.h"

namespace hg {

Automaton::Automaton(std::shared_ptr<const Grammar::Rules> rules) : rules_(std::move(rules)) {}

int32_t Automaton::start() {
  std::vector<Node> stacks;
  for (const int32_t first : rules_->alternatives[static_cast<size_t>(rules_->root)])
    stacks.push_back({first, -1});
  return state_of(std::move(stacks));
}

int32_t Automaton::node_of(Node node) {
  const auto [found, is_new] = node_ids_.try_emplace(node, static_cast<int32_t>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return found->second;
}

// Replaces rules by their alternatives until each stack begins with a byte. Rules that begin with
// themselves have been refused, so this ends.
int32_t Automaton::state_of(std::vector<Node> stacks) {
  std::set<Node> seen;
  std::set<int32_t> nodes;
  bool is_whole = false;
  while (!stacks.empty()) {
    const Node top = stacks.back();
    stacks.pop_back();
    if (!seen.insert(top).second) continue;
    const Grammar::Rules::Element& element = rules_->elements[static_cast<size_t>(top.position)];
    if (element.is_end) {
      if (top.below < 0)
        is_whole = true;
      else
        stacks.push_back(nodes_[static_cast<size_t>(top.below)]);
    } else if (element.rule < 0) {
      nodes.insert(node_of(top));
    } else {
      // The last element of an alternative needs no place on the stack.
      const bool is_last = rules_->elements[static_cast<size_t>(top.position) + 1].is_end;
      const int32_t below = is_last ? top.below : node_of({top.position + 1, top.below});
      for (const int32_t first : rules_->alternatives[static_cast<size_t>(element.rule)])
        stacks.push_back({first, below});
    }
  }
  if (nodes.empty() && !is_whole) return kDead;
  return numbered({nodes.begin(), nodes.end()}, is_whole);
}

int32_t Automaton::numbered(std::vector<int32_t> nodes, bool is_whole) {
  std::pair key(std::move(nodes), is_whole);
  const auto [found, is_new] =
      state_ids_.try_emplace(std::move(key), static_cast<int32_t>(states_.size()));
  if (is_new) states_.push_back({found->first.first, is_whole});
  return found->second;
}

int32_t Automaton::forget_others(int32_t state) {
  const State kept = std::move(states_[static_cast<size_t>(state)]);
  const std::vector<Node> before = std::exchange(nodes_, {});
  node_ids_.clear();
  states_.clear();
  state_ids_.clear();
  std::vector<bool> is_used(before.size());
  for (int32_t id : kept.nodes)
    for (; id >= 0 && !is_used[static_cast<size_t>(id)]; id = before[static_cast<size_t>(id)].below)
      is_used[static_cast<size_t>(id)] = true;
  // A stack below another one has the smaller number, so the order of numbers stays.
  std::vector<int32_t> renamed(before.size(), -1);
  for (size_t i = 0; i < before.size(); ++i) {
    if (!is_used[i]) continue;
    const int32_t below = before[i].below;
    renamed[i] =
        node_of({before[i].position, below < 0 ? -1 : renamed[static_cast<size_t>(below)]});
  }
  std::vector<int32_t> nodes;
  for (const int32_t id : kept.nodes) nodes.push_back(renamed[static_cast<size_t>(id)]);
  limit_ = std::max(kLeastLimit, 2 * nodes_.size());
  return numbered(std::move(nodes), kept.is_whole);
}

int32_t Automaton::next(int32_t state, uint8_t byte) {
  const State& from = states_[static_cast<size_t>(state)];
  if (const auto known = from.next.find(byte); known != from.next.end()) return known->second;
  std::vector<Node> stacks;
  for (const int32_t id : from.nodes) {
    const Node node = nodes_[static_cast<size_t>(id)];
    if (rules_->elements[static_cast<size_t>(node.position)].bytes[byte])
      stacks.push_back({node.position + 1, node.below});
  }
  const int32_t to = state_of(std::move(stacks));
  states_[static_cast<size_t>(state)].next.emplace(byte, to);
  return to;
}

bool Grammar::accepts(std::string_view text) const {
  Automaton automaton(rules_);
  int32_t state = automaton.start();
  for (const char byte : text) {
    if (state == Automaton::kDead) return false;
    state = automaton.next(state, static_cast<uint8_t>(byte));
    if (state != Automaton::kDead && automaton.is_full()) state = automaton.forget_others(state);
  }
  return state != Automaton::kDead && automaton.is_whole(state);
}

}  // namespace hg
