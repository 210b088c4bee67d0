// SPDX-License-Identifier: Apache-2.0
// Activations that fuse (hg/activation.h) as nodes of a graph.
#pragma once

#include "hg/activation.h"
#include "hg/graph.h"

namespace hg {

// The op of the activation's row, applied to x; x itself for none.
Value apply_activation(const Value& x, Activation activation);

// What a node of one of these ops, with these attributes, applies to its only input; none for all
// other nodes.
Activation activation_of(const Node& node);

}  // namespace hg
