// SPDX-License-Identifier: Apache-2.0
// max_pool(relu(x)) = relu(max_pool(x)), and the gradients are equal too: an element that relu sets
// to zero gets no gradient either way. After the pool, relu and its gradient process fewer
// elements, and its full-size result is not kept.
#pragma once

#include "hg/graph.h"

namespace hg {

Status relu_behind_max_pool(Graph& graph);

}  // namespace hg
