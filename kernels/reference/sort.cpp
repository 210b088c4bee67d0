// SPDX-License-Identifier: Apache-2.0
// Sorting, topk, unique, searchsorted.
#include "kernels/reference/reference.h"

namespace hg::reference::rows {

std::span<const Row> sort() { return {}; }

}  // namespace hg::reference::rows
