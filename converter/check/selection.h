// SPDX-License-Identifier: Apache-2.0
// Which elements sort, topk and similar ops select: the order of equal elements is undefined.
#pragma once

#include "hg/tensor.h"

namespace hg::convert {

// Both results take, along `dim`, other elements of `source` of the same values: at each place, or
// in each line as a whole where no order is asked for. `values`, where they are given, are those at
// `indices`. The dim may be missing in the results. False where `dim` does not fit.
bool selects_equally(const Tensor& source, int dim, const Tensor* values, const Tensor& indices,
                     const Tensor& other_indices, bool in_order);

}  // namespace hg::convert
