// SPDX-License-Identifier: Apache-2.0
// Finds keys and values that attention reads through a sliding window only, and lets a session keep
// their last positions instead of all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hg/graph.h"
#include "hg/stateful.h"

namespace hg {

// An input bool[window_past], whose size is the number of positions that windows still hold.
inline constexpr char kWindowPast[] = "window_past";

struct Windows {
  Graph graph;                      // in which the inputs below have window_past positions
  std::vector<std::string> inputs;  // carried
  int64_t size;  // of the largest window: positions that a token sees, with its own
};

// Returns nullopt if no carried value is read through windows only. The results of the graph do not
// change if the inputs hold the last positions, at least `size` - 1 or all.
Result<std::optional<Windows>> find_windows(const Graph& graph,
                                            const std::vector<CarriedValue>& carried);

}  // namespace hg
