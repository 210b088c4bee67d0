// SPDX-License-Identifier: Apache-2.0
// Selects layers that stay float because 8 bits do not make the model faster: by runs of the whole
// model, since a layer's neighbors decide what it must convert.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/quantize/observe.h"

namespace hg {

// Milliseconds of a run of the model with a layer in 8 bits and in floats.
struct LayerTimes {
  double ms = 0, float_ms = 0;
};

struct Fastest {
  std::vector<std::string> stays;                 // reasons, by layer; empty: 8 bits
  std::vector<std::optional<LayerTimes>> layers;  // of the layers that could have 8 bits
  std::optional<double> ms, float_ms;             // of the selected model and of the float model
};

// Compares runs of two models, whose layers stay float if there is a reason.
using Stays = std::vector<std::string>;
using Compare = std::function<Result<std::pair<double, double>>(const Stays& a, const Stays& b)>;

// Starts with all layers in 8 bits except `stays`. Layer by layer, keeps 8 bits if the model is
// then faster. Finally keeps all layers in floats unless the selected model is faster.
// `measured` is called with the number of measured layers and their total.
Result<Fastest> choose_fastest(Stays stays, const Compare& compare,
                               const std::function<void(int64_t, int64_t)>& measured = {});

// A model with some layers in 8 bits. `stays` has the reasons of all layers.
struct Mixed {
  Model model;
  Stays stays;
};

// Selects layers by the times of runs with the first sample. `mixed` makes a model whose layers
// stay float if there is a reason; for no reasons, as many layers as possible have 8 bits.
Result<Fastest> find_fastest(const std::function<Result<Mixed>(const Stays&)>& mixed,
                             Samples samples, const std::function<void(int64_t, int64_t)>& measured,
                             const SessionOptions& session);

}  // namespace hg
