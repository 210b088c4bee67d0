// SPDX-License-Identifier: Apache-2.0
// Views and copies that only move elements.
#include "hg/op.h"

namespace hg::ops {

std::span<const OpDef> movement() { return {}; }

}  // namespace hg::ops
