// SPDX-License-Identifier: Apache-2.0
// Code shared by rows of elementwise ops.
#pragma once

#include <string_view>

#include "converter/rows/rows.h"

namespace hg::convert::rows {

// Returns "exp" for aten::exp, aten::exp_ and aten::special_exp.
std::string_view op_name(const Call& call);
// Returns a Python number argument as a rank-0 value of this dtype. A number that an integer dtype
// cannot represent is rejected, or fails the run if it depends on data.
Value number_as(Call& call, std::string_view argument, DType dtype);
// Returns the dtype in which torch computes with a tensor and numbers: f32 for 16-bit floats.
inline DType math_dtype(DType dtype) { return dtype == f16 || dtype == bf16 ? f32 : dtype; }

}  // namespace hg::convert::rows
