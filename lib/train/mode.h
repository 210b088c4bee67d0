// SPDX-License-Identifier: Apache-2.0
// Switches the layers of a graph between training and inference mode, regardless of the trace.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/train.h"
#include "lib/graph/state_names.h"

namespace hg {

// Whether the last matching rule freezes it.
bool is_frozen(std::span<const ParameterRule> rules, const State& state);
// Whether it is a float parameter that is trained: the last matching rule decides, otherwise its
// requires_grad.
bool is_trained(std::span<const ParameterRule> rules, const State& state);

// Sets dropout and batch_norm of layers that are not frozen to training mode, and all others to
// inference mode. In training, the new statistics of batch_norm are assigned to the running ones.
// `notes` receives the layers that cannot be switched.
Status set_training(Graph& graph, std::span<const ParameterRule> rules,
                    std::vector<std::string>& notes);
Status set_inference(Graph& graph);

// Computes f32 matrix products and convolutions in `dtype`, between casts.
Status set_compute(Graph& graph, DType dtype);

}  // namespace hg
