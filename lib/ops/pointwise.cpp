// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: arithmetic, comparison, logic, activations, casts, where.
#include "hg/op.h"

namespace hg::ops {

std::span<const OpDef> pointwise() { return {}; }

}  // namespace hg::ops
