// SPDX-License-Identifier: Apache-2.0
// torch's words for shapes, built of the ops of movement.h. Dims count from the end where they are
// negative. What does not fit fails the graph.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

Value transpose(const Value& x, int dim0, int dim1);  // the two dims change places
Value unsqueeze(const Value& x, int dim);             // a new dim of size 1, before dim
Value squeeze(const Value& x, int dim);               // without dim, whose size must be 1
Value flatten(const Value& x, int start_dim = 0, int end_dim = -1);  // these dims become one
// x[..., index, ...] along dim, which goes; a negative index counts from the end.
Value select(const Value& x, int dim, const Dim& index);
// `length` elements of dim from start on.
Value narrow(const Value& x, int dim, const Dim& start, const Dim& length);
// Tensors of one shape, along a new dim.
Value stack(const std::vector<Value>& xs, int dim = 0);
// Pieces along dim of these sizes, whose sum is dim's.
std::vector<Value> split(const Value& x, const std::vector<Dim>& sizes, int dim = 0);
// At most `chunks` pieces of equal size, but for the last, which may be smaller. The size of dim is
// a number.
std::vector<Value> chunk(const Value& x, int64_t chunks, int dim = 0);
// x, but value where mask is true; the shapes broadcast.
Value masked_fill(const Value& x, const Value& mask, double value);

}  // namespace hg
