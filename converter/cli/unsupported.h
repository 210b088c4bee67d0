// SPDX-License-Identifier: Apache-2.0
// What the report says of ops that the converter does not support.
#pragma once

#include <string>
#include <vector>

#include "converter/core/imported.h"

namespace hg::convert {

// Each op once: how often, where first, and why.
std::string list_unsupported(const std::vector<Unsupported>& all);
// The op exists here, so it is this call that does not fit.
bool is_call(const Unsupported& each);
// Says what to do about ops that do not exist here; `unknown_ops` are custom ones.
void suggest(std::vector<Unsupported>& all, const std::vector<std::string>& unknown_ops);

}  // namespace hg::convert
