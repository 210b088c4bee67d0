// SPDX-License-Identifier: Apache-2.0
// Whether nodes draw random numbers, including those in branches and loops.
#pragma once

#include <algorithm>

#include "lib/graph/access.h"

namespace hg {

inline bool draws(const Graph& graph);
inline bool draws(const Node& node) {
  return (node.op->def.traits & kRandom) != 0 ||
         std::any_of(node.subgraphs.begin(), node.subgraphs.end(),
                     [](const auto& body) { return draws(*body); });
}
inline bool draws(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return draws(node); });
}

}  // namespace hg
