// SPDX-License-Identifier: Apache-2.0
// Values of the graph as another dtype.
#pragma once

#include "hg/graph.h"

namespace hg::convert {

// `value` as dtype; the same Value when it has it already.
Value cast(const Value& value, DType dtype);

}  // namespace hg::convert
