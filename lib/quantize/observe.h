// SPDX-License-Identifier: Apache-2.0
// The ranges that values of a model have in runs with samples.
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

// Of the numbers of one value in all samples.
struct Range {
  double low = 0, high = 0;
  int64_t count = 0;      // of the numbers
  bool is_finite = true;  // all of them; otherwise low and high say nothing
};

// Of the values of the model's graph, which are f32, by their ids: the least ranges that hold
// `percentile` per cent of the numbers to what 2048 steps between the least and the largest tell,
// cutting off as many below as above. No pass that could do without one of the values runs.
Result<std::unordered_map<ValueId, Range>> observe(const Model& model,
                                                   std::span<const ValueId> values, Samples samples,
                                                   const QuantizeOptions& options,
                                                   const SessionOptions& session);

}  // namespace hg
