// SPDX-License-Identifier: Apache-2.0
// Self-test of a device: before a device kernel is first used, it runs small cases that the CPU
// also computes. The verdicts are stored in the device's cache with other measurements.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "hg/kernel.h"
#include "hg/options.h"
#include "lib/device/measured_times.h"

namespace hg {

// Device kernels, as "op=kernel".
struct Verdicts {
  std::set<std::string> wrong;                  // never used
  std::map<std::string, std::string> untested;  // that accept no case: of floats of these dtypes
};

// Tests the device kernels of the ops of this graph. Kernels after a correct one are not tested,
// unless they have their own cases, as those for few shapes do. `options.gpu` must be open.
Result<Verdicts> test_kernels(const Graph& graph, const SessionOptions& options,
                              const Registry& registry);

// Graphs with this op as their last node, on inputs of this type if the op accepts any. Cases of
// the kernel, or otherwise of the op; may be empty.
std::vector<Graph> self_test_cases(const Op& op, DType real, const Registry& registry,
                                   std::string_view kernel = "");
// Whether a kernel, as "op=kernel", has its own cases.
bool has_self_test_cases(std::string_view kernel);
// Values that repeat after 31 elements: in [0.1, 0.9], or small integers usable as indices.
void fill_case(const Tensor& tensor, int64_t seed);

// Time that a kernel took for the cases it accepts: 0 if it accepts none, infinity on the device if
// a result is wrong. Other kernels of the device are not used, except for copies. Fails if the
// device fails.
Result<DeviceTimes> judge(const KernelDef& kernel, const Op& op, DType real,
                          const SessionOptions& options, const Registry& registry);

}  // namespace hg
