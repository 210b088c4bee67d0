// SPDX-License-Identifier: Apache-2.0
// What passes and the planner ask of a session's options.
#pragma once

#include <algorithm>
#include <string_view>

#include "hg/options.h"

namespace hg {

// True if disabled_passes contains the pass or "*".
inline bool is_disabled(const SessionOptions& options, std::string_view pass) {
  return std::ranges::any_of(options.disabled_passes,
                             [&](const auto& name) { return name == pass || name == "*"; });
}

// True if the options trade speed for memory.
inline bool saves_memory(const SessionOptions& options) {
  return options.low_memory || options.memory_limit > 0;
}

}  // namespace hg
