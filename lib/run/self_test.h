// SPDX-License-Identifier: Apache-2.0
// Trust in a device: before a kernel of it is used for the first time it computes small cases that
// the CPU computes too. Verdicts are kept with what else was measured on the device, in its cache.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "hg/options.h"
#include "lib/device/measured_times.h"

namespace hg {

// The kernels of the device, as "op=kernel", whose answers for the ops of this graph are wrong.
// Those behind one that is right are not tested, unless it has cases of its own, as one for few
// shapes has. `options.gpu` is open. With `options.kernels` nothing is tested: the host has chosen.
Result<std::set<std::string>> distrusted_kernels(const Graph& graph, const SessionOptions& options,
                                                 const Registry& registry);

// Graphs whose only node is this op, on inputs of this type where it takes any: the cases of the
// kernel or else those of the op; none when there are none.
std::vector<Graph> self_test_cases(const Op& op, DType real, const Registry& registry,
                                   std::string_view kernel = "");
// Whether a kernel, as "op=kernel", has cases of its own.
bool has_self_test_cases(std::string_view kernel);
// Values that repeat after 31 elements: between 0.1 and 0.9, or small numbers that serve as
// indices.
void fill_case(const Tensor& tensor, int64_t seed);

// How long the cases of a kernel took, of those that it takes: 0 where it takes none, infinity on
// the device where an answer is wrong. Fails when the device does.
Result<DeviceTimes> judge(const KernelDef& kernel, const Op& op, DType real,
                          const SessionOptions& options, const Registry& registry);

}  // namespace hg
