// SPDX-License-Identifier: Apache-2.0
// What torch.autocast casts on the CPU. A node in such a region has the region's dtype as its
// attribute; prim nodes, which have attributes of their own, are never cast.
#pragma once

#include <optional>

#include "converter/script/script.h"
#include "hg/tensor.h"

namespace hg::convert {

class NodeCall;

void set_autocast(ScriptNode& node, DType dtype);
std::optional<DType> autocast_of(const ScriptNode& node);

// What the call's floating point arguments other than f64 are cast to in its region; none where
// they stay. Throws Refusal where PyTorch casts within the op.
std::optional<DType> autocast_target(NodeCall& call);
// The tensor as this dtype where autocast may change it, else the item itself.
Item autocast(NodeCall& call, const Item& item, DType dtype);

}  // namespace hg::convert
