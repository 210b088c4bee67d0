// SPDX-License-Identifier: Apache-2.0
// Parses the sizes of an exported program: sympy expressions as text.
#pragma once

#include <string_view>

#include "hg/dim.h"

namespace hg::convert {

// Parses "Mul(Integer(5), Symbol('s77', positive=True, integer=True))", as PyTorch 2.7 and newer
// write sizes, or "5*s77 + s1//2", as older versions do. Throws Refusal if a Dim cannot express the
// size.
Dim parse_size_expression(std::string_view text);

}  // namespace hg::convert
