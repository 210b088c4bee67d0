// SPDX-License-Identifier: Apache-2.0
// Packed sequences: the steps of all unfinished sequences, one time step after another. In the
// graph they are represented by the padded form, [time, batch, ...], and the lengths.
#pragma once

#include "converter/rows/rows.h"

namespace hg::convert::rows {

// bool[time, batch]: whether a sequence has not ended at this time.
Value going_on(Graph& g, const Packed& packed);
// Returns the padded sequences for `data`, whose steps `sizes` counts.
Value padded_of(Call& call, const TensorRef& data, const TensorRef& sizes);
// Makes the tensor `data` of a packed sequence.
TensorRef pack(Call& call, Value padded, Packed packed);

}  // namespace hg::convert::rows
