// SPDX-License-Identifier: Apache-2.0
// Recurrent layers.
#include "hg/kernel.h"

namespace hg::kernels {

std::span<const KernelDef> rnn() { return {}; }

}  // namespace hg::kernels
