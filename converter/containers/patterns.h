// SPDX-License-Identifier: Apache-2.0
// The structure of script values, and what two of them have in common. Lists that grow and control
// flow hold values of one pattern.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "converter/core/grown.h"
#include "converter/rows/node_call.h"

namespace hg::convert {

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
