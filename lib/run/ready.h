// SPDX-License-Identifier: Apache-2.0
// A plan that can run: its tensors at their addresses, and its recordings on the device.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
  // What run_on() sets beside them, and whether it did since the tensors were resolved.
  struct OutputPatch {
    size_t tensor;
    size_t output;
    int64_t offset;
  };
  std::vector<OutputPatch> output_patches;
  bool is_rebound = false;
  std::vector<int32_t> host_inputs;  // that a step on the CPU reads
  // By block: where it lies, less its offset in the arena, when that is not in the arena.
  std::vector<std::byte*> homes;
  bool has_homes = false;
  std::vector<int32_t> whole_blocks;  // by output: the block that is this output alone, or -1
  // Of the first part: the sizes it was planned for, to find it again, and those of the outputs,
  // without the ones that only data decides.
  std::vector<Sizes> input_shapes;
  Bindings outer_sizes;
  std::vector<std::optional<Sizes>> output_shapes;
  // Of a later part: what it continues, and the sizes that data gave.
  const Ready* previous = nullptr;
  std::vector<int64_t> given_sizes;
  // How its own measuring step tells the sizes of the next part: the symbols, where a control flow
  // node shows them (output, dim), their last values, and their statistics.
  std::vector<std::string> symbols;
  std::vector<std::pair<size_t, int>> shown_at;
  std::vector<int64_t> measured;
  std::vector<int64_t>* ways = nullptr;
  // The first step that writes to a state: from there on the run is not given up.
  size_t first_commit = 0;
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
