// SPDX-License-Identifier: Apache-2.0
// Whether a tensor is close enough to the reference.
#pragma once

#include <string>
#include <string_view>

#include "hg/tensor.h"

namespace hg::convert {

struct Comparison {
  bool equal = true;
  double largest_error = 0;  // |got - want|, over finite pairs
  double allowed = 0;        // at the place of the largest excess
  std::string difference;    // one clause, empty when equal
};

// dtype and shape must be equal, integers and bools too; NaN equals NaN, an infinity itself. Floats
// may differ by rtol * |want| + atol, where atol grows with the size of the values in `want`. What
// was computed in a coarser dtype than its own (precision.h) has the tolerance of that one. `whose`
// says in a difference who has `want`.
Comparison compare(const Tensor& got, const Tensor& want, DType computed_in = f64,
                   std::string_view whose = "libtorch");

// What compare() lets a float differ by: rtol * |want| + atol. 0 for integers and bools.
struct Tolerance {
  double rtol = 0, atol = 0;
};
Tolerance tolerance_for(const Tensor& want, DType computed_in = f64);
// Whether two computations of the same may differ so: floats by some units in the last place,
// relative to the size of the values in `want`; all else is equal.
inline constexpr double kSumUlps = 1000;  // what sums in another order lose in a net of many layers
bool is_rounding(const Tensor& got, const Tensor& want, double ulps = kSumUlps);
// One element of a row-major tensor, of any dtype.
double number_at(const Tensor& tensor, int64_t index);
// The tensor itself where it is row-major, else a copy that `owner` holds.
Result<Tensor> row_major(const Tensor& tensor, TensorData& owner);

}  // namespace hg::convert
