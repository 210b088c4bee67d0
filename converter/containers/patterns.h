// SPDX-License-Identifier: Apache-2.0
// The structure of script values, and what two of them have in common. Lists that grow and control
// flow hold values of one pattern.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "converter/interpret/interpreter.h"

namespace hg::convert {

// The containers of an item and the types of its leaves.
struct Pattern {
  enum class Kind : uint8_t { leaf, list, grown, tuple, dict, other };
  Kind kind = Kind::other;
  TensorType type;  // of a leaf
  bool is_number = false, is_column = false, is_complex = false;
  std::vector<int> open;       // of a leaf of a list's elements: the dims that differ
  std::vector<Pattern> parts;  // of a grown list: what all elements have in common
  Item item;                   // a tuple or dict for its names and keys, or something else
};

Pattern pattern_of(Memory& memory, const Item& item);
// Makes an empty list a list of numbers if its type in the script says so.
void note_types(Pattern& pattern, std::string_view type);
// Returns the pattern that both fit, or nullopt. With `in_list` both are elements of one list, and
// sizes in which they differ become open.
std::optional<Pattern> joined(const Pattern& a, const Pattern& b, bool in_list);

// The leaves of a pattern, in the order of collect(). A list that grows has its columns as leaves.
// Throws Refusal if the pattern holds something that no column can hold.
void flatten(const Pattern& pattern, std::vector<Pattern>& leaves);
// The dims of an element that all elements share, in order; `open` are the others.
std::vector<int> shared_dims(const std::vector<int>& open, int rank);
// The sizes that the present graph and those around it know.
std::set<std::string> known_symbols(Memory& memory);
bool is_known(const std::set<std::string>& known, const Dim& dim);

}  // namespace hg::convert
