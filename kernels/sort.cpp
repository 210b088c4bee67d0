// SPDX-License-Identifier: Apache-2.0
// Sorting, topk, unique, searchsorted.
#include "hg/kernel.h"

namespace hg::kernels {

std::span<const KernelDef> sort() { return {}; }

}  // namespace hg::kernels
