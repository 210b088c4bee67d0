// SPDX-License-Identifier: Apache-2.0
// A plan that can run: its tensors at their addresses, and its recordings on the device. Once it is
// laid out, nothing in it is allocated any more.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hg/kernel.h"
#include "lib/plan/plan.h"
#include "lib/run/device_side.h"

namespace hg {

// What all steps of a program share.
struct RunShared {
  const ParallelFor* parallel = nullptr;
  std::atomic<const char*>* error = nullptr;
  const RandomState* random = nullptr;
};

struct ReadyPlan {
  Plan plan;
  std::vector<Tensor> tensors;       // of all steps, then of the measuring step
  std::vector<RunContext> contexts;  // one for each step, then for the measuring step
  struct InputPatch {
    size_t tensor;
    int32_t input;
    int64_t offset;
  };
  std::vector<InputPatch> patches;
  // What Program::run_on() sets beside them, and whether it did since the tensors were resolved.
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
  std::vector<int32_t> output_blocks;  // by output: the block that is this output alone, or -1
  // Of the first part: the sizes it was planned for, to find it again, and those of the outputs,
  // without the ones that only data decides.
  std::vector<Sizes> input_shapes;
  Bindings outer_sizes;
  std::vector<std::optional<Sizes>> output_shapes;
  // Of a later part: what it continues, and the sizes that data gave.
  const ReadyPlan* previous = nullptr;
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

  // Makes all of the above from `plan`, but the sizes that it is found by, and the device's part.
  void lay_out(const Graph& graph, const RunShared& shared, bool profile);

  // Sets the addresses: address_of(place) of each tensor, where those changed.
  template <class AddressOf>
  void resolve(int64_t now, const AddressOf& address_of) {
    if (generation == now && !is_rebound) return;
    size_t at = 0, context = 0;
    const auto resolve_step = [&](const Step& step) {
      for (const PlacedTensor& in : step.inputs) tensors[at++].data = address_of(in.place);
      for (const PlacedTensor& out : step.outputs) tensors[at++].data = address_of(out.place);
      contexts[context++].scratch = address_of(step.workspace);
    };
    for (const Step& step : plan.steps) resolve_step(step);
    if (plan.measure) resolve_step(*plan.measure);
    generation = now;
    is_rebound = false;
  }

 private:
  void make_contexts(const RunShared& shared);
  void make_lanes();
  void describe_measuring(const Graph& graph);
};

}  // namespace hg
