// SPDX-License-Identifier: Apache-2.0
// Arguments that PyTorch calls Scalar or float: constants, or numbers that sizes or data decide.
#pragma once

#include <string_view>
#include <vector>

#include "converter/rows/rows.h"
#include "lib/graph/real.h"

namespace hg::convert::rows {

// Also from an int or a bool, whose dtype a number of the graph keeps.
Real scalar(Call& call, std::string_view argument);
Real scalar(Call& call, std::string_view argument, double fallback);  // when missing or None
// A list, or one number; empty when missing or None.
std::vector<Real> scalars(Call& call, std::string_view argument);

}  // namespace hg::convert::rows
