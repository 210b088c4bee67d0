// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: arithmetic, comparison, logic, activations, casts, where.
#include "hg/kernel.h"

namespace hg::kernels {

std::span<const KernelDef> pointwise() { return {}; }

}  // namespace hg::kernels
