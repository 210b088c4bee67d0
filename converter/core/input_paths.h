// SPDX-License-Identifier: Apache-2.0
// Names of inputs as paths into the arguments of forward: 'x', 'x.0.key'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "converter/core/script.h"

namespace hg::convert {

// Returns whether the path is that of the container or leads into it.
bool is_path_into(std::string_view path, std::string_view container);
// Returns "key" for the path 'x.key.0' into 'x'.
std::string key_in_path(std::string_view path, std::string_view container);
// Returns whether the path leads into an argument other than the i-th.
bool is_for_another(const std::vector<ScriptInput>& inputs, size_t i, std::string_view path);

}  // namespace hg::convert
