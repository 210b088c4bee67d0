// SPDX-License-Identifier: Apache-2.0
// Whether a tensor is close enough to libtorch's.
#pragma once

#include <string>

#include "hg/tensor.h"

namespace hg::convert {

struct Comparison {
  bool equal = true;
  double largest_error = 0;  // |got - want|, over finite pairs
  double allowed = 0;        // at the place of the largest excess
  std::string difference;    // one clause, empty when equal
};

// dtype and shape must be equal, integers and bools too; NaN equals NaN, an infinity itself. Floats
// may differ by rtol * |want| + atol, where atol grows with the size of the values in `want`.
Comparison compare(const Tensor& got, const Tensor& want);
// The same for the elements in ascending order.
Comparison compare_sorted(const Tensor& got, const Tensor& want);

}  // namespace hg::convert
