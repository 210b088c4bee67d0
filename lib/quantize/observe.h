// SPDX-License-Identifier: Apache-2.0
// Ranges of a model's values in runs with samples.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hg/quantize.h"

namespace hg {

using Samples = std::span<const std::vector<ConstTensor>>;

// Range of the numbers of one value in all samples.
struct Range {
  double low = 0, high = 0;
  int64_t count = 0;      // of the numbers
  bool is_finite = true;  // true if all are finite; otherwise low and high are undefined
};

// Ranges of f32 values of the model's graph, by id. Each is the smallest range that holds
// `percentile` percent of the numbers, with a resolution of 1/2048 of the full range; equal shares
// are cut off at both ends. Runs without passes that could remove one of the values.
Result<std::unordered_map<ValueId, Range>> observe(const Model& model,
                                                   std::span<const ValueId> values, Samples samples,
                                                   const QuantizeOptions& options,
                                                   const SessionOptions& session);

}  // namespace hg
