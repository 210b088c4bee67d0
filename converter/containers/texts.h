// SPDX-License-Identifier: Apache-2.0
// Code shared by the builtins on text.
#pragma once

#include <optional>
#include <string>

#include "converter/rows/node_call.h"

namespace hg::convert {

// Returns the text, or unknown text that depends on sizes or data. The result is always true.
bool give_text(NodeCall& call, std::optional<std::string> out);

}  // namespace hg::convert
