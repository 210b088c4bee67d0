// SPDX-License-Identifier: Apache-2.0
// The table of all rows: of aten ops, and of ops on script values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/rows/rows.h"

namespace hg::convert {

// Returns the row that runs this overload on tensors, or else the row for all overloads; null if
// neither exists.
const Row* find_row(std::string_view kind, std::string_view overload);
// Returns the row with exactly this name, on tensors or not; null if no row has it.
const Row* row_named(std::string_view op);
std::vector<std::string> all_rows();  // rows that run on tensors, sorted; complex::x for complex
std::span<const Row* const> every_row();  // sorted by name

}  // namespace hg::convert
