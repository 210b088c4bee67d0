// SPDX-License-Identifier: Apache-2.0
// What torch.autocast casts on the CPU. A node in an autocast region has the region's dtype as its
// attribute; prim nodes, which have their own attributes, are never cast.
#pragma once

#include <optional>
#include <string_view>

#include "converter/core/script.h"
#include "hg/tensor.h"

namespace hg::convert {

class NodeCall;

void set_autocast(ScriptNode& node, DType dtype);
std::optional<DType> autocast_of(const ScriptNode& node);

// What floating point arguments other than f64 are cast to: first to `dtype`, and for states that
// stay wider than the gates of a recurrent cell on to the dtype that it is computed in.
struct Autocast {
  DType dtype, computed;
};
// None where the arguments stay. Throws Refusal where PyTorch casts within the op.
std::optional<Autocast> autocast_target(NodeCall& call);
// The argument as it is cast, where autocast may change it, else the item itself.
Item autocast(NodeCall& call, std::string_view argument, const Item& item, const Autocast& to);

}  // namespace hg::convert
