// SPDX-License-Identifier: Apache-2.0
// Rounds numbers to what a dtype can hold.
#pragma once

#include <vector>

#include "hg/tensor.h"

namespace hg::reference {

// As the dtype stores them: floats rounded to the nearest, integers cut and wrapped around.
std::vector<double> rounded(std::vector<double> values, DType dtype);

}  // namespace hg::reference
