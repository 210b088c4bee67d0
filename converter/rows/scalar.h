// SPDX-License-Identifier: Apache-2.0
// Arguments that PyTorch calls Scalar or float: constants, or numbers that depend on sizes or data.
#pragma once

#include <string_view>
#include <vector>

#include "converter/rows/rows.h"
#include "lib/graph/real.h"

namespace hg::convert::rows {

// Also accepts an int or a bool; a number of the graph keeps its dtype.
Real scalar(Call& call, std::string_view argument);
Real scalar(Call& call, std::string_view argument, double fallback);  // if missing or None
// Accepts a list or one number; returns an empty list if missing or None.
std::vector<Real> scalars(Call& call, std::string_view argument);

}  // namespace hg::convert::rows
