// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention.
#include "converter/rows.h"

namespace hg::convert::rows {

std::span<const Row> attention() { return {}; }

}  // namespace hg::convert::rows
