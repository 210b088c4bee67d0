// SPDX-License-Identifier: Apache-2.0
// The loss and the metrics of a graph, as nodes.
#pragma once

#include <string>
#include <vector>

#include "hg/ops/pointwise.h"
#include "hg/train.h"

namespace hg {

inline Value as_type(const Value& x, DType dtype) {
  return x.dtype() == dtype ? x : cast(x, dtype);
}

// A target of class indices.
struct ClassTarget {
  size_t index = 0;  // index among the targets
  std::string name;
  Dim classes;
  int64_t ignored = -100;
  std::vector<double> weights = {};  // of classes; empty: all 1
  bool is_mean = true;               // the loss divides by the sum of the labels' weights
};

struct Objective {
  // The dtype of losses, metrics, rates and norms: f64 if a trained parameter or the output of a
  // loss is f64, otherwise f32.
  DType dtype = f32;
  // Sums of the weighted losses, as scalars: of means, including penalties, and of sums. Either may
  // be empty.
  Value mean, sum;
  Value total;
  std::vector<std::string> targets;  // inputs that were added, in order
  std::vector<ClassTarget> classes;
  std::vector<Value> metrics;  // scalars
};

// Adds inputs for the targets, and the nodes, but no outputs.
Result<Objective> add_objective(Graph& graph, const TrainOptions& options);

}  // namespace hg
