// SPDX-License-Identifier: Apache-2.0
// The rules of a grammar, and the pushdown automaton that reads bytes by them.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "hg/text/grammar.h"

namespace hg {

using ByteSet = std::bitset<256>;

class Grammar::Rules {
 public:
  // What stands at a position: a byte, another rule, or the end of an alternative.
  struct Element {
    int32_t rule = -1;  // -1: a byte of `bytes`
    ByteSet bytes = {};
    bool is_end = false;
  };

  std::vector<Element> elements;
  std::vector<std::vector<int32_t>> alternatives;  // first positions, per rule
  int32_t root = 0;
};

// States are sets of stacks, which are numbered when they first occur. Their memory is bounded by
// the depth of a text's nesting if full automata forget. Not thread-safe.
class Automaton {
 public:
  static constexpr int32_t kDead = -1;

  explicit Automaton(std::shared_ptr<const Grammar::Rules> rules);
  int32_t start();
  // The state after a byte; kDead: no text continues so.
  int32_t next(int32_t state, uint8_t byte);
  // Whether a text may end here.
  bool is_whole(int32_t state) const { return states_[static_cast<size_t>(state)].is_whole; }
  // Number of states and stacks, and whether it is time to forget some.
  size_t size() const { return states_.size() + nodes_.size(); }
  bool is_full() const { return size() > limit_; }
  // Forgets all states but one. Returns its new number.
  int32_t forget_others(int32_t state);
  static constexpr size_t kLeastLimit = 1 << 14;

 private:
  // A stack: what follows, and the stack below.
  struct Node {
    int32_t position, below;  // below -1: the bottom
    friend auto operator<=>(const Node&, const Node&) = default;
  };
  struct State {
    std::vector<int32_t> nodes;  // stacks whose next element is a byte
    bool is_whole = false;
    std::map<uint8_t, int32_t> next = {};
  };
  int32_t node_of(Node node);
  int32_t state_of(std::vector<Node> stacks);
  int32_t numbered(std::vector<int32_t> nodes, bool is_whole);

  std::shared_ptr<const Grammar::Rules> rules_;
  std::vector<Node> nodes_;
  std::map<Node, int32_t> node_ids_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<int32_t>, bool>, int32_t> state_ids_;
  size_t limit_ = kLeastLimit;
};

}  // namespace hg
