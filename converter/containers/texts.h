// SPDX-License-Identifier: Apache-2.0
// Code shared by the builtins on text.
#pragma once

#include <optional>
#include <string>

#include "converter/rows/node_call.h"

namespace hg::convert {

inline constexpr double kFirstBeyondI64 = 9223372036854775808.0;  // 2^63

// Returns the text, or unknown text that depends on sizes or data. The result is always true.
bool give_text(NodeCall& call, std::optional<std::string> out);
// text_lengths.cpp: how many letters libtorch prints for a number of the graph.
Value length_of_number(Memory& memory, const Item& item);

}  // namespace hg::convert
