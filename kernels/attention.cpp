// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention.
#include "hg/kernel.h"

namespace hg::kernels {

std::span<const KernelDef> attention() { return {}; }

}  // namespace hg::kernels
