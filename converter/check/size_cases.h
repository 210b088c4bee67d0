// SPDX-License-Identifier: Apache-2.0
// For which sizes one size is smaller than another, in words.
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

// Describes the admitted sizes for which any of the cases holds: "n < 3", "n = 0 or h < w",
// "n divisible by 4". Tries all small sizes and those around the numbers in a case, so a pattern
// may have exceptions among large sizes. Returns an empty string if no case holds for a size that
// was tried.
std::string describe_cases(std::span<const SizeCase> cases, const Admits& admits);

}  // namespace hg::convert
