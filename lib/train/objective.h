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
  size_t index = 0;  // among the targets
  std::string name;
  Dim classes;
  int64_t ignored = -100;
  std::vector<double> weights = {};  // of classes; empty: all 1
  bool is_mean = true;               // the loss divides by the sum of the labels' weights
};

struct Objective {
  // Of losses and metrics, and of what else is one number for all parameters: rates, norms. f64
  // where a trained parameter or the output of a loss is, else f32.
  DType dtype = f32;
  // Sums of the weighted losses, scalars: of means, with penalties, and of sums; either may be
  // none.
  Value mean, sum;
  Value total;
  std::vector<std::string> targets;  // inputs that were added, in order
  std::vector<ClassTarget> classes;
  std::vector<Value> metrics;  // scalars
};

// Adds inputs for the targets, and the nodes; no outputs.
Result<Objective> add_objective(Graph& graph, const TrainOptions& options);

}  // namespace hg
