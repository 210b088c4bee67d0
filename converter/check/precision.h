// SPDX-License-Identifier: Apache-2.0
// The precision of outputs.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg::convert {

// Returns for each output the coarsest float dtype in which any part of it is computed. For
// example, an f64 number that Python makes from a sum of f32 numbers is as inexact as that sum.
// Returns f64 if no part uses floats.
std::vector<DType> precisions_of_outputs(const Graph& graph);

}  // namespace hg::convert
