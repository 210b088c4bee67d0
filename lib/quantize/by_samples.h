// SPDX-License-Identifier: Apache-2.0
// Rounds weights, selecting their levels by samples.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lib/quantize/observe.h"
#include "lib/quantize/weights.h"

namespace hg {

// A weight with some number of bits. The errors are those of QuantizedWeight.
struct Choice {
  Rounded rounded;
  std::optional<double> nearest_output_error, output_error;
};

// Fails if a sample has a NaN.
Status check_samples(Samples samples);

// For each weight of the model's graph, or of a copy of it, the choices for the numbers of bits, in
// their order, rounded by options.rounding.
Result<std::vector<std::vector<Choice>>> round_by_samples(const Model& model, const Graph& graph,
                                                          std::span<const Weight> weights,
                                                          std::span<const int> bits,
                                                          Samples samples,
                                                          const QuantizeOptions& options,
                                                          const SessionOptions& session);

// Quantizes weights alone, to options.bits. The samples have no NaN.
Result<Quantized> quantize_by_samples(const Model& model, Samples samples,
                                      const QuantizeOptions& options,
                                      const SessionOptions& session);

}  // namespace hg
