// SPDX-License-Identifier: Apache-2.0
// Ops defined by other ops.
#include "hg/op.h"

namespace hg::ops {

std::span<const OpDef> composite() { return {}; }

}  // namespace hg::ops
