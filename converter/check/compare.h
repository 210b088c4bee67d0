// SPDX-License-Identifier: Apache-2.0
// Decides whether a tensor is close enough to the reference.
#pragma once

#include <string>
#include <string_view>

#include "hg/tensor.h"

namespace hg::convert {

struct Comparison {
  bool equal = true;
  double largest_error = 0;  // |got - want|, over finite pairs
  double allowed = 0;        // at the element that exceeds it most
  std::string difference;    // one clause; empty if equal
};

// dtype, shape, integers and bools must be equal; NaN equals NaN, and an infinity equals itself.
// Floats may differ by rtol * |want| + atol, where atol grows with the magnitude of `want`. A value
// computed in a coarser dtype than its own (precision.h) has the tolerance of that dtype. `whose`
// names the source of `want` in `difference`.
Comparison compare(const Tensor& got, const Tensor& want, DType computed_in = f64,
                   std::string_view whose = "libtorch");

// The difference that compare() allows for floats: rtol * |want| + atol. 0 for integers and bools.
struct Tolerance {
  double rtol = 0, atol = 0;
};
Tolerance tolerance_for(const Tensor& want, DType computed_in = f64);
// Returns whether a difference is rounding: floats differ by at most some units in the last place,
// relative to the magnitude of `want`; everything else is equal.
inline constexpr double kSumUlps = 1000;  // for reordered sums in a net of many layers
bool is_rounding(const Tensor& got, const Tensor& want, double ulps = kSumUlps);
// Returns one element of a row-major tensor of any dtype.
double number_at(const Tensor& tensor, int64_t index);
// Returns the tensor itself if it is row-major, otherwise a copy that `owner` owns.
Result<Tensor> row_major(const Tensor& tensor, TensorData& owner);

}  // namespace hg::convert
