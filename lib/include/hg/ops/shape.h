// SPDX-License-Identifier: Apache-2.0
// torch's shape functions, built from other ops. Negative dims count from the end.
// Invalid arguments fail the graph.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

Value transpose(const Value& x, int dim0, int dim1);  // swaps two dims
Value unsqueeze(const Value& x, int dim);             // inserts a dim of size 1 before dim
Value squeeze(const Value& x, int dim);               // removes dim, whose size must be 1
Value flatten(const Value& x, int start_dim = 0, int end_dim = -1);  // merges these dims
// Removes dim by selecting index, which counts from the end if negative.
Value select(const Value& x, int dim, const Dim& index);
// Elements [start, start + length) of dim.
Value narrow(const Value& x, int dim, const Dim& start, const Dim& length);
// Joins tensors of one shape along a new dim.
Value stack(const std::vector<Value>& xs, int dim = 0);
// Splits along dim into pieces of these sizes, which must sum to its size.
std::vector<Value> split(const Value& x, const std::vector<Dim>& sizes, int dim = 0);
// Splits along dim into at most `chunks` pieces of equal size; the last may be smaller. The size of
// dim must be a number.
std::vector<Value> chunk(const Value& x, int64_t chunks, int dim = 0);
// x with elements replaced by value where mask is true. Shapes broadcast.
Value masked_fill(const Value& x, const Value& mask, double value);

}  // namespace hg
