// SPDX-License-Identifier: Apache-2.0
#include "converter/core/input_paths.h"

#include <algorithm>

namespace hg::convert {

bool is_path_into(std::string_view path, std::string_view container) {
  return !container.empty() && path.starts_with(container) &&
         (path.size() == container.size() || path[container.size()] == '.');
}

std::string key_in_path(std::string_view path, std::string_view container) {
  const std::string_view rest = path.substr(std::min(path.size(), container.size() + 1));
  return std::string(rest.substr(0, rest.find('.')));
}

bool is_for_another(const std::vector<ScriptInput>& inputs, size_t i, std::string_view path) {
  if (is_path_into(path, inputs[i].name)) return false;
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const ScriptInput& each) { return is_path_into(path, each.name); });
}

}  // namespace hg::convert
