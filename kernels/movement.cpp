// SPDX-License-Identifier: Apache-2.0
// Views and copies that only move elements.
#include "hg/kernel.h"

namespace hg::kernels {

std::span<const KernelDef> movement() { return {}; }

}  // namespace hg::kernels
