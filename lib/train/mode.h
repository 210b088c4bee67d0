// SPDX-License-Identifier: Apache-2.0
// Switches the layers of a graph between training and inference, whatever the trace says.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/train.h"

namespace hg {

// '*' stands for any characters, '?' for one.
bool matches(std::string_view pattern, std::string_view name);

// Whether the last rule that matches freezes it.
bool is_frozen(std::span<const ParameterRule> rules, std::string_view name);
// Whether it is a parameter of floats that is trained: the last rule that matches says so, else its
// requires_grad.
bool is_trained(std::span<const ParameterRule> rules, const State& state);

// dropout and batch_norm of layers that are not frozen run as in training, all others as in
// inference. In training batch_norm's new statistics are assigned to the running ones. What cannot
// be switched is told in `notes`.
Status set_training(Graph& graph, std::span<const ParameterRule> rules,
                    std::vector<std::string>& notes);
Status set_inference(Graph& graph);

// Matrix products and convolutions of f32 compute in `dtype`, with casts around them.
Status set_compute(Graph& graph, DType dtype);

}  // namespace hg
