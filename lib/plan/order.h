// SPDX-License-Identifier: Apache-2.0
// Alternative topological orders of the nodes of a part, which may need less memory.
#pragma once

#include <vector>

#include "lib/plan/liveness.h"

namespace hg {

std::vector<NodeOrder> other_orders(const Liveness& liveness);

}  // namespace hg
