// SPDX-License-Identifier: Apache-2.0
// Describes for which sizes one size is smaller than another.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "hg/dim.h"

namespace hg::convert {

struct SizeCase {  // left < right
  Dim left, right;
};
using Admits = std::function<bool(const Bindings&)>;

// Describes the admitted sizes for which any of the cases holds: "n < 3", "n = 0 or h < w", "n
// divisible by 4". Tries all small sizes, and those near the numbers in a case, so the description
// may be wrong for some large sizes. Returns an empty string if no case holds for any of these
// sizes.
std::string describe_cases(std::span<const SizeCase> cases, const Admits& admits);

}  // namespace hg::convert
