// SPDX-License-Identifier: Apache-2.0
// Parses sizes of an exported program, which are sympy expressions as text.
#pragma once

#include <string_view>

#include "hg/dim.h"

namespace hg::convert {

// "Mul(Integer(5), Symbol('s77', positive=True, integer=True))" as PyTorch 2.7 and newer write it,
// or "5*s77 + s1//2" as older ones do. Throws Refusal for what a Dim cannot say.
Dim parse_size_expression(std::string_view text);

}  // namespace hg::convert
