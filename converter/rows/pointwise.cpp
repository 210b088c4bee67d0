// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: arithmetic, comparison, logic, activations, casts, where.
#include "converter/rows.h"

namespace hg::convert::rows {

std::span<const Row> pointwise() { return {}; }

}  // namespace hg::convert::rows
