// SPDX-License-Identifier: Apache-2.0
// Fused activations (hg/activation.h) as graph nodes.
#pragma once

#include "hg/activation.h"
#include "hg/graph.h"

namespace hg {

// Applies the op of the activation's row to x; returns x for none.
Value apply_activation(const Value& x, Activation activation);

// Returns the activation that a node with this op and attributes applies to its only input; none
// for other nodes.
Activation activation_of(const Node& node);

}  // namespace hg
