// SPDX-License-Identifier: Apache-2.0
// Sizes that are 0 or 1, such as min(1, n), as conditions in words.
#pragma once

#include <optional>
#include <string>

#include "hg/dim.h"

namespace hg {

// When the term is 1, or 0 where `holds` is false: "n == 1 or 3 < m". Nothing where it is no such
// term of comparisons, and, or, not as min, max and 1 - x write them.
std::optional<std::string> condition_text(const Dim& term, bool holds = true);

}  // namespace hg
