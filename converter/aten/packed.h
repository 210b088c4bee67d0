// SPDX-License-Identifier: Apache-2.0
// Packed sequences: the steps of all unfinished sequences, one time step after another. The graph
// works on the padded form, [time, batch, ...], and on the lengths.
#pragma once

#include "converter/rows/rows.h"

namespace hg::convert::rows {

// bool[time, batch]: whether a sequence goes on at a time.
Value going_on(Graph& g, const Packed& packed);
// The padded sequences of `data`, which has the steps that `sizes` counts.
Value padded_of(Call& call, const TensorRef& data, const TensorRef& sizes);
// The tensor `data` of a packed sequence.
TensorRef pack(Call& call, Value padded, Packed packed);

}  // namespace hg::convert::rows
