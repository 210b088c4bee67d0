// SPDX-License-Identifier: Apache-2.0
// Casts the numbers of a file to the types that a model accepts.
#pragma once

#include <optional>

#include "hg/npy.h"

namespace hg::tools {

// The same numbers as `type`, where no more than digits are lost: integers as i64, f64, which is
// what numpy makes, as f32, and both as f16 and bf16. None for all other types.
std::optional<Array> cast(const Array& array, DType type);

}  // namespace hg::tools
