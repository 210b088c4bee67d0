// SPDX-License-Identifier: Apache-2.0
// Rounds a weight so that the results of its products change little.
#pragma once

#include <string_view>

#include "hg/session.h"
#include "lib/quantize/input_sums.h"
#include "lib/quantize/rounding.h"

namespace hg {

struct SecondOrder {
  Rounded rounded;
  // sqrt(sum (x q - x w)^2 / sum (x w)^2) over all inputs, for nearest levels and for `rounded`.
  double nearest_error = 0, error = 0;
};

// Each row of the matrix gets the best of three: nearest levels, and levels that compensate each
// other with the scales of the largest elements, and with scales searched by squared error. Fails
// as round_to_levels(). The sums are finite. Uses the threads of `session`; the levels do not
// depend on their number.
Result<SecondOrder> round_second_order(std::string_view name, const Tensor& weight,
                                       const Blocks& blocks, int bits, const WeightMatrix& matrix,
                                       const InputSums& inputs, const SessionOptions& session);

}  // namespace hg
