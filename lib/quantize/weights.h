// SPDX-License-Identifier: Apache-2.0
// Finds the states of a model that are weights to quantize, and which elements share a scale.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/quantize.h"
#include "lib/quantize/rounding.h"

namespace hg {

// States that are one tensor in memory; usually one state.
struct Weight {
  std::string name;
  std::string module_path;  // of the first node that reads it
  TensorData data;
  Blocks blocks;
  std::vector<std::pair<Graph*, int32_t>> states;  // states of the graphs or their bodies, by index
};

// Whether the name is that of a state or module of the graphs or their bodies, or above one.
bool is_any_named(std::span<Graph* const> graphs, std::string_view path);

// In the order of the states, those of bodies after those of their graph. Fails with
// invalid_argument if an option is invalid. `all`: includes weights that are too small or would not
// shrink.
Result<std::vector<Weight>> find_weights(std::span<Graph* const> graphs,
                                         const QuantizeOptions& options, bool all = false);

// Returns a copy that shares no body with the graph, without optimizer state.
Graph copy_with_bodies(const Graph& graph);

// Replaces the weights, found in the graphs, which must not share bodies, and adds the errors to
// `info`. `round` returns the levels of weights[i], or nothing to leave the weight as it is.
using Round = std::function<Result<std::optional<Rounded>>(size_t i)>;
Result<std::vector<QuantizedWeight>> replace_weights(std::span<Graph* const> graphs,
                                                     std::span<const Weight> weights,
                                                     const Round& round, Model::Info& info);

// Finds, rounds and replaces weights without samples.
Result<std::vector<QuantizedWeight>> quantize_weights(std::span<Graph* const> graphs,
                                                      const QuantizeOptions& options,
                                                      Model::Info& info);

}  // namespace hg
