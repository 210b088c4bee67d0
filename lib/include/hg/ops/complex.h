// SPDX-License-Identifier: Apache-2.0
// Complex tensors as pairs of reals. Only these ops have complex inputs or outputs.
#pragma once

#include "hg/graph.h"

namespace hg {

// c64[...] -> f32[..., 2], c128[...] -> f64[..., 2]: real and imaginary part.
inline Value view_as_real(const Value& x) { return x.graph()->call("view_as_real", {x}); }
// The inverse of view_as_real.
inline Value view_as_complex(const Value& x) { return x.graph()->call("view_as_complex", {x}); }

}  // namespace hg
