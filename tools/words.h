// SPDX-License-Identifier: Apache-2.0
// Words of a command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hg::tools {

// Without the spaces around it.
std::string_view trim(std::string_view text);
// The parts between commas outside parentheses, trimmed: min(n, 4) is one. "" is one empty part.
std::vector<std::string_view> split(std::string_view text);
// The name closest in spelling to `name`; empty when none is close.
std::string closest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace hg::tools
