// SPDX-License-Identifier: Apache-2.0
// Rounds numbers to values that a dtype can hold.
#pragma once

#include <vector>

#include "hg/tensor.h"

namespace hg::reference {

// As stored in the dtype: floats rounded to nearest, integers truncated and wrapped around.
std::vector<double> rounded(std::vector<double> values, DType dtype);

}  // namespace hg::reference
