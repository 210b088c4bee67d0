// SPDX-License-Identifier: Apache-2.0
// Compares selections by sort, topk and similar ops, for which the order of equal elements is
// undefined.
#pragma once

#include "hg/tensor.h"

namespace hg::convert {

// Returns whether both results select elements of `source` with equal values along `dim`: at each
// position, or, unless `in_order`, in each line as a whole. `values`, if given, are the values at
// `indices`. The results may lack the dim. Returns false if `dim` does not fit.
bool selects_equally(const Tensor& source, int dim, const Tensor* values, const Tensor& indices,
                     const Tensor& other_indices, bool in_order);

}  // namespace hg::convert
