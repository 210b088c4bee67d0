// SPDX-License-Identifier: Apache-2.0
// max_pool(relu(x)) = relu(max_pool(x)), and so are the gradients: an element that a relu would
// make zero gets none either way. Behind the pool the relu and its gradient see fewer elements, and
// its result in full size is not kept.
#pragma once

#include "hg/graph.h"

namespace hg {

Status relu_behind_max_pool(Graph& graph);

}  // namespace hg
