// SPDX-License-Identifier: Apache-2.0
// Code shared by rows of elementwise ops.
#pragma once

#include <string_view>

#include "converter/rows/rows.h"

namespace hg::convert::rows {

// "exp" for aten::exp, aten::exp_ and aten::special_exp.
std::string_view op_name(const Call& call);
// A Python number argument of rank 0 with this dtype; refused when an integer dtype cannot hold it,
// which fails the run where only data tells.
Value number_as(Call& call, std::string_view argument, DType dtype);
// The dtype that torch computes in where numbers meet a tensor: f32 for 16-bit floats.
inline DType math_dtype(DType dtype) { return dtype == f16 || dtype == bf16 ? f32 : dtype; }

}  // namespace hg::convert::rows
