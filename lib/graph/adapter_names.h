// SPDX-License-Identifier: Apache-2.0
// Names of the states of an adapter (hg/adapter.h).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "hg/graph.h"
#include "lib/graph/training_state.h"

namespace hg {

inline constexpr std::string_view kAdapterA = ".lora_A.weight", kAdapterB = ".lora_B.weight",
                                  kAdapterScale = ".lora_scale";

// The states of an adapter beside one layer, by index.
struct AdapterStates {
  std::string layer;
  int32_t a = -1, b = -1, scale = -1;
};

// In the order of A. Only layers that have all three states.
inline std::vector<AdapterStates> adapter_states(const Graph& graph) {
  const auto find = [&](const std::string& name) {
    const auto& all = graph.states();
    const auto found = std::find_if(all.begin(), all.end(), [&](const State& state) {
      return state.kind != State::Kind::constant && state.name == name;
    });
    return found == all.end() ? -1 : static_cast<int32_t>(found - all.begin());
  };
  std::vector<AdapterStates> layers;
  for (const State& state : graph.states()) {
    if (!state.name.ends_with(kAdapterA) || is_training_state(state)) continue;
    AdapterStates layer{state.name.substr(0, state.name.size() - kAdapterA.size())};
    layer.a = find(state.name);
    layer.b = find(layer.layer + std::string(kAdapterB));
    layer.scale = find(layer.layer + std::string(kAdapterScale));
    if (layer.a >= 0 && layer.b >= 0 && layer.scale >= 0) layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace hg
