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
#include "hg/session.h"

namespace hg {

using Samples = std::span<const std::vector<ConstTensor>>;

// Sessions that can be observed: on the CPU, without passes that could remove a value.
Result<Session> create_observed(const Model& model, const SessionOptions& options);

// Sets the inputs of a run to samples[i]. Fails if it does not fit the inputs.
Status set_inputs(Session& session, Samples samples, size_t i);

// Runs the samples and passes each input and each result of a node, by name. `after` is called
// after each sample.
using See = std::function<Status(std::string_view name, const ConstTensor& value)>;
Status observe_runs(Session& session, Samples samples, const See& see,
                    const std::function<void()>& after);

// Range of the numbers of one value in all samples.
struct Range {
  double low = 0, high = 0;
  int64_t count = 0;      // of the numbers
  bool is_finite = true;  // true if all are finite; otherwise low and high are undefined
};

// Ranges of f32 values of the model's graph, by id. Each is the smallest range that holds
// `percentile` percent of the numbers, with a resolution of 1/2048 of the full range; equal shares
// are cut off at both ends.
Result<std::unordered_map<ValueId, Range>> observe(const Model& model,
                                                   std::span<const ValueId> values, Samples samples,
                                                   const QuantizeOptions& options,
                                                   const SessionOptions& session);

}  // namespace hg
