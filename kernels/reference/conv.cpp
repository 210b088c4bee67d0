// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions.
#include "kernels/reference/reference.h"

namespace hg::reference::rows {

std::span<const Row> conv() { return {}; }

}  // namespace hg::reference::rows
