// SPDX-License-Identifier: Apache-2.0
// State that training stores in a model so that it can be resumed: buffers that no node reads, at
// the end of the graph's states. Names: lib/train/step_graph.h.
#pragma once

#include <string_view>
#include <vector>

#include "hg/graph.h"

namespace hg {

inline constexpr std::string_view kTrainPrefix = "train/";

inline bool is_training_state(const State& state) {
  return state.kind == State::Kind::buffer && state.name.starts_with(kTrainPrefix);
}

// Removes them from the graph and returns them.
std::vector<State> take_training_state(Graph& graph);

}  // namespace hg
