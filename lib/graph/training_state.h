// SPDX-License-Identifier: Apache-2.0
// What training leaves in a model so that it can be resumed: buffers that no node reads, the last
// states of the graph (lib/train/step_graph.h has their names).
#pragma once

#include <string_view>
#include <vector>

#include "hg/graph.h"

namespace hg {

inline constexpr std::string_view kTrainPrefix = "train/";

inline bool is_training_state(const State& state) {
  return state.kind == State::Kind::buffer && state.name.starts_with(kTrainPrefix);
}

// Takes them out of the graph.
std::vector<State> take_training_state(Graph& graph);

}  // namespace hg
