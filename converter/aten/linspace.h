// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hg/graph.h"

namespace hg::convert::rows {

// From one number of rank 0 to another, both included: start + i step up to the middle,
// end - (steps - 1 - i) step beyond it, as torch rounds them.
Value linspace_between(const Value& start, const Value& end, const Dim& steps);

}  // namespace hg::convert::rows
