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

// "n < 3", "n = 0 or h < w", "n divisible by 4": the sizes for which any of the cases holds, of
// those that are admitted. Sizes are tried: a pattern may have exceptions among large ones. Empty
// where no case holds for any size that was tried: all small ones, and those around the numbers in
// a case.
std::string describe_cases(std::span<const SizeCase> cases, const Admits& admits);

}  // namespace hg::convert
