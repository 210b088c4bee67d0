// SPDX-License-Identifier: Apache-2.0
// Which states of a model are weights that can be rounded, and what shares a scale in each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/quantize.h"
#include "lib/quantize/rounding.h"

namespace hg {

// States that are one tensor in memory: most often one.
struct Weight {
  std::string name;
  std::string module_path;  // of the first node that reads it
  TensorData data;
  Blocks blocks;
  std::vector<std::pair<Graph*, int32_t>> states;  // of the graphs or of bodies in them, by index
};

// Whether a state or a module of the graphs or their bodies has the name, or lies below it.
bool is_any_named(std::span<Graph* const> graphs, std::string_view path);

// In the order of the states, those of bodies after those of their graph. Fails with
// invalid_argument where an option does not fit. `all`: also those that are too small, or would not
// shrink.
Result<std::vector<Weight>> find_weights(std::span<Graph* const> graphs,
                                         const QuantizeOptions& options, bool all = false);

// A copy that shares no body with the graph, without what an optimizer left.
Graph copy_with_bodies(const Graph& graph);

// Rounds the weights of the graphs, which share no body with others, and adds the errors to `info`.
Result<std::vector<QuantizedWeight>> quantize_weights(std::span<Graph* const> graphs,
                                                      const QuantizeOptions& options,
                                                      Model::Info& info);

}  // namespace hg
