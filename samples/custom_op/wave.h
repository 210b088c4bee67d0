// SPDX-License-Identifier: Apache-2.0
// An application's op in a static library, which is linked like any other.
#pragma once

#include "hg/op.h"

namespace acme {

// Adds acme.wave(x, gain) = x + gain * sin(x) with its kernel and its gradient. Nothing registers
// itself: calling this function keeps the linker from dropping the library.
hg::Status add_ops(hg::Registry& registry);

}  // namespace acme
