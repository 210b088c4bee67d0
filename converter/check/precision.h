// SPDX-License-Identifier: Apache-2.0
// How exact an output can be.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg::convert {

// Of each output the coarsest float dtype in which any part of it is computed: the f64 that Python
// makes of a sum of f32 numbers is no more exact than that sum. f64 where nothing is.
std::vector<DType> precisions_of_outputs(const Graph& graph);

}  // namespace hg::convert
