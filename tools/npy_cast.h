// SPDX-License-Identifier: Apache-2.0
// Casts the numbers of a file to the types that a model accepts.
#pragma once

#include <optional>

#include "hg/npy.h"

namespace hg::tools {

// Converts to `type` if only precision is lost: integers to i64, f64 (numpy's default) to f32, and
// both to f16 and bf16. Returns nullopt for other types.
std::optional<Array> cast(const Array& array, DType type);

}  // namespace hg::tools
