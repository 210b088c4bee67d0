// SPDX-License-Identifier: Apache-2.0
// Other orders of the nodes of a part, each after those that it reads, that may need less memory.
#pragma once

#include <vector>

#include "lib/plan/liveness.h"

namespace hg {

std::vector<NodeOrder> other_orders(const Liveness& liveness);

}  // namespace hg
