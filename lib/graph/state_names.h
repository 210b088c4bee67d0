// SPDX-License-Identifier: Apache-2.0
// All names of a state: its own and its aliases.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "hg/graph.h"

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

}  // namespace hg
