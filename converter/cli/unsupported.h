// SPDX-License-Identifier: Apache-2.0
// The report about ops that the converter does not support.
#pragma once

#include <string>
#include <vector>

#include "converter/core/imported.h"

namespace hg::convert {

// Lists each op once: number of occurrences, first place, and reason.
std::string list_unsupported(const std::vector<Unsupported>& all);
// Whether the op is supported, so that only this call is the problem.
bool is_call(const Unsupported& each);
// Sets suggestions for unsupported ops; `unknown_ops` are custom ops.
void suggest(std::vector<Unsupported>& all, const std::vector<std::string>& unknown_ops);

}  // namespace hg::convert
