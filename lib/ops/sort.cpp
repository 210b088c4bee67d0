// SPDX-License-Identifier: Apache-2.0
// Sorting, topk, unique, searchsorted.
#include "hg/op.h"

namespace hg::ops {

std::span<const OpDef> sort() { return {}; }

}  // namespace hg::ops
