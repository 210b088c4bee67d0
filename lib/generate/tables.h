// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hg/graph.h"

namespace hg {

// Rows of the smallest table that the values of the input index, directly or after a cast; 0 if
// they index no table.
int64_t rows_of_table(const Graph& graph, ValueId indices);

}  // namespace hg
