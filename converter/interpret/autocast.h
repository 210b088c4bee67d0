// SPDX-License-Identifier: Apache-2.0
// The casts of torch.autocast on the CPU. A node in an autocast region stores the region's dtype in
// its attribute. prim nodes, which use their attributes themselves, are never cast.
#pragma once

#include <optional>
#include <string_view>

#include "converter/core/script.h"
#include "hg/tensor.h"

namespace hg::convert {

class NodeCall;

void set_autocast(ScriptNode& node, DType dtype);
std::optional<DType> autocast_of(const ScriptNode& node);

// The cast of floating point arguments other than f64: first to `dtype`, then to the dtype
// `computed` in which the op runs. The two differ for recurrent cells whose states stay wider than
// the gates.
struct Autocast {
  DType dtype, computed;
};
// Returns nothing if the arguments are not cast. Throws Refusal if PyTorch casts inside the op.
std::optional<Autocast> autocast_target(NodeCall& call);
// Casts the argument if autocast may change it; otherwise returns the item itself.
Item autocast(NodeCall& call, std::string_view argument, const Item& item, const Autocast& to);

}  // namespace hg::convert
