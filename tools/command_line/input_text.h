// SPDX-License-Identifier: Apache-2.0
// The language of --input: the type of one tensor, and the range of its random numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "hg/graph.h"
#include "tools/command_line/cli.h"

namespace hg::tools {

// The range of random numbers, both ends included.
using Range = std::optional<std::pair<double, double>>;

// "ids=input:i64[n,h*2]=0..99" is NEW=NAME:DTYPE[SIZES]=LOW..HIGH.
struct InputText {
  std::string name;      // of the input; empty: the next input that no name selects
  std::string new_name;  // empty: the input keeps its name
  TensorType type;
  Range range;
};
// A failure is usage.
Outcome parse_input_text(std::string_view text, InputText& parsed);

// Parses "0..255", the part after '='. `whole` is the value of --input, for messages.
Outcome parse_range(std::string_view text, std::string_view whole, Range& range);

}  // namespace hg::tools
