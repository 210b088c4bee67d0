// SPDX-License-Identifier: Apache-2.0
// Ops defined by other ops.
#include "converter/rows.h"

namespace hg::convert::rows {

std::span<const Row> composite() { return {}; }

}  // namespace hg::convert::rows
