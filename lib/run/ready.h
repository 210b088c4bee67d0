// SPDX-License-Identifier: Apache-2.0
// A plan that can run: its tensors at their addresses, and its recordings on the device.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lib/run/program.h"

namespace hg {

struct Program::Ready {
  Plan plan;
  std::vector<Tensor> tensors;       // of all steps, then of the measuring step
  std::vector<RunContext> contexts;  // one for each step, then for the measuring step
  struct InputPatch {
    size_t tensor;
    int32_t input;
    int64_t offset;
  };
  std::vector<InputPatch> patches;
  std::vector<int32_t> host_inputs;  // that a step on the CPU reads
  std::vector<DeviceSegment> segments;
  int64_t device_generation = -1;
  // A lane of the plan's branches: what failed in it, and where it stopped then.
  struct Lane {
    std::atomic<const char*> error{nullptr};
    int32_t stopped_at = -1;
  };
  std::unique_ptr<Lane[]> lanes;   // of all branches, in order
  std::vector<size_t> first_lane;  // of each of the plan's branches
  std::vector<double> ms;          // of the last run, when profiling
  int64_t generation = -1;
};

}  // namespace hg
