// SPDX-License-Identifier: Apache-2.0
// Code shared by rows of elementwise ops.
#pragma once

#include <string_view>

#include "converter/rows/rows.h"

namespace hg::convert::rows {

// "exp" for aten::exp, aten::exp_ and aten::special_exp.
std::string_view op_name(const Call& call);
// A Python number argument as a constant of rank 0 with this dtype; refused when an integer dtype
// cannot hold it.
Value number_as(Call& call, std::string_view argument, DType dtype);

}  // namespace hg::convert::rows
