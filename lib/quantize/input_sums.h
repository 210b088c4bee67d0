// SPDX-License-Identifier: Apache-2.0
// Second moments of the inputs of products, from runs with samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/quantize/observe.h"
#include "lib/quantize/weights.h"

namespace hg {

// A weight as matrices, one per group of a convolution: y[row] = sum_column w[row, column]
// x[column].
struct WeightMatrix {
  int64_t groups = 1, rows = 0, columns = 0;
  bool by_column = false;  // stored as [columns, rows]
  int64_t element(int64_t group, int64_t row, int64_t column) const {
    return by_column ? column * rows + row : (group * rows + row) * columns + column;
  }
  bool operator==(const WeightMatrix&) const = default;
};

// The matrix of a weight that only linear, matmul and conv of the graph itself read, and only as
// their weight; otherwise nothing.
std::optional<WeightMatrix> matrix_of(const Graph& graph, const Weight& weight);

struct InputSums {
  // Per group, [columns, columns]: the sums of x[i] x[j] over all inputs x of the products.
  std::vector<std::vector<double>> moments;
  bool is_finite = true;  // otherwise an input had a NaN or infinity
};

// Observes the inputs of the products that read the weights, which have matrices. The weights are
// states of the model's graph, or of a copy of it.
Result<std::vector<InputSums>> observe_inputs(const Model& model, const Graph& graph,
                                              std::span<const Weight* const> weights,
                                              Samples samples, const SessionOptions& session);

}  // namespace hg
