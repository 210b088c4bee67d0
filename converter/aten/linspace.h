// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hg/graph.h"

namespace hg::convert::rows {

// From one rank-0 number to another, both included: start + i step up to the middle, then end -
// (steps - 1 - i) step, rounded as in torch.
Value linspace_between(const Value& start, const Value& end, const Dim& steps);

}  // namespace hg::convert::rows
