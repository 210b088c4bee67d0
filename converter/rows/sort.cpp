// SPDX-License-Identifier: Apache-2.0
// Sorting, topk, unique, searchsorted.
#include "converter/rows.h"

namespace hg::convert::rows {

std::span<const Row> sort() { return {}; }

}  // namespace hg::convert::rows
