// SPDX-License-Identifier: Apache-2.0
// Recurrent layers.
#include "converter/rows.h"

namespace hg::convert::rows {

std::span<const Row> rnn() { return {}; }

}  // namespace hg::convert::rows
