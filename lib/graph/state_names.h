// SPDX-License-Identifier: Apache-2.0
// All names of a state: its own and its aliases.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "hg/graph.h"
#include "lib/graph/name_pattern.h"

namespace hg {

// Its own name first.
inline std::vector<std::string_view> names_of(const State& state) {
  std::vector<std::string_view> names = {state.name};
  names.insert(names.end(), state.aliases.begin(), state.aliases.end());
  return names;
}

inline bool has_name(const State& state, std::string_view name) {
  return state.name == name ||
         std::find(state.aliases.begin(), state.aliases.end(), name) != state.aliases.end();
}

// Whether a pattern matches one of its names.
inline bool matches(std::string_view pattern, const State& state) {
  const std::vector<std::string_view> names = names_of(state);
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return matches(pattern, name); });
}

}  // namespace hg
