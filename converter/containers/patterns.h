// SPDX-License-Identifier: Apache-2.0
// The structure of script values, and the common structure of two values. Grown lists and control
// flow require values of one pattern.
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
// Returns the pattern that both fit, or nothing. With `in_list`, both are elements of one list, and
// sizes in which they differ become open.
std::optional<Pattern> joined(const Pattern& a, const Pattern& b, bool in_list);

// Appends the leaves of a pattern, in the order of collect(). The leaves of a grown list are its
// columns. Throws Refusal if the pattern contains something that columns cannot represent.
void flatten(const Pattern& pattern, std::vector<Pattern>& leaves);
// Returns the dims of an element that all elements share, in order; `open` are the others.
std::vector<int> shared_dims(const std::vector<int>& open, int rank);
// Returns the sizes that the current graph and those around it know.
std::set<std::string> known_symbols(Memory& memory);
bool is_known(const std::set<std::string>& known, const Dim& dim);

}  // namespace hg::convert
