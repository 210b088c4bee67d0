// SPDX-License-Identifier: Apache-2.0
// Sizes that are 0 or 1, such as min(1, n), printed as conditions.
#pragma once

#include <optional>
#include <string>

#include "hg/dim.h"

namespace hg {

// Returns the condition under which the term is 1, or 0 if `holds` is false: "n == 1 or 3 < m".
// Returns nothing unless the term consists of comparisons, and, or, and not, expressed by min, max
// and 1 - x.
std::optional<std::string> condition_text(const Dim& term, bool holds = true);

}  // namespace hg
