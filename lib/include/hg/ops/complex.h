// SPDX-License-Identifier: Apache-2.0
// Complex tensors as pairs of reals, and back: the only ops that take or give complex tensors.
#pragma once

#include "hg/graph.h"

namespace hg {

// c64[...] becomes f32[..., 2], c128[...] becomes f64[..., 2]: real parts, then imaginary ones.
inline Value view_as_real(const Value& x) { return x.graph()->call("view_as_real", {x}); }
// The reverse.
inline Value view_as_complex(const Value& x) { return x.graph()->call("view_as_complex", {x}); }

}  // namespace hg
