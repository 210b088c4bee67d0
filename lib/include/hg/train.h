// SPDX-License-Identifier: Apache-2.0
// Gradients as graphs. They are ordinary nodes of the same graph: printed, optimised, planned and
// differentiated again like all others.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "hg/graph.h"

namespace hg {

// The vector-Jacobian products sum_k seeds[k] * d ys[k] / d wrt[i], one for each of `wrt`, in its
// dtype and shape; zeros where nothing depends on it. `wrt` may hold any float values: inputs,
// parameters, intermediate results. A seed has the type of its y; an empty Value, or no seeds at
// all, stand for ones. On ops without a gradient between `wrt` and `ys` the graph fails with the
// names of all of them, and the result is empty.
std::vector<Value> gradients(std::span<const Value> ys, std::span<const Value> wrt,
                             std::span<const Value> seeds = {});

inline std::vector<Value> gradients(const Value& y, std::initializer_list<Value> wrt,
                                    const Value& seed = {}) {
  return gradients(std::span(&y, 1), std::span(wrt.begin(), wrt.size()), std::span(&seed, 1));
}

}  // namespace hg
