// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions.
#include "hg/op.h"

namespace hg::ops {

std::span<const OpDef> conv() { return {}; }

}  // namespace hg::ops
