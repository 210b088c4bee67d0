// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions.
#include "hg/kernel.h"

namespace hg::kernels {

std::span<const KernelDef> conv() { return {}; }

}  // namespace hg::kernels
