// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of a graph by name; kNoValue if the graph lacks the name.
#pragma once

#include <algorithm>
#include <string_view>

#include "hg/graph.h"

namespace hg {

inline ValueId input_named(const Graph& graph, std::string_view name) {
  const auto found = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                  [&](ValueId id) { return graph.value_info(id).name == name; });
  return found == graph.inputs().end() ? kNoValue : *found;
}

inline ValueId output_named(const Graph& graph, std::string_view name) {
  const auto found = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                  [&](const auto& output) { return output.first == name; });
  return found == graph.outputs().end() ? kNoValue : found->second;
}

}  // namespace hg
