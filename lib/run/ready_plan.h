// SPDX-License-Identifier: Apache-2.0
// A plan ready to run: tensors with addresses, and recordings on the device. After lay_out() and
// refresh(), it allocates nothing.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hg/kernel.h"
#include "lib/plan/refill.h"
#include "lib/run/device_side.h"

namespace hg {

// Shared by all steps of an engine.
struct RunShared {
  const ParallelFor* parallel = nullptr;
  std::atomic<const char*>* error = nullptr;
  const RandomState* random = nullptr;
};

// Sizes of a symbol, both inclusive.
struct SizeInterval {
  int64_t lowest = 0, highest = 0;
  bool holds(int64_t size) const { return lowest <= size && size <= highest; }
};

struct ReadyPlan {
  Plan plan;
  // The sizes that it can be refilled for, per symbol of Plan::bindings; empty: only its own.
  std::vector<SizeInterval> ranges;
  RefillCache refills;
  bool is_stale = false;  // a refill failed: not usable until the next one
  int64_t fill = 0;       // counts refills
  int64_t layout = 0;     // counts changes of offsets
  int64_t last_use = 0;
  std::vector<Tensor> tensors;       // of all steps, then of the measuring step
  std::vector<size_t> first_tensor;  // per step, then of the measuring step
  std::vector<RunContext> contexts;  // one per step, then for the measuring step
  struct InputPatch {
    size_t tensor;
    int32_t input;
    int64_t offset;
  };
  std::vector<InputPatch> patches;
  // Output addresses that Engine::run_on() sets, and whether it did so since resolve().
  struct OutputPatch {
    size_t tensor;
    size_t output;
    int64_t offset;
  };
  std::vector<OutputPatch> output_patches;
  bool is_rebound = false;
  std::vector<int32_t> host_inputs;  // read by a CPU step
  // Per block: its address minus its offset in the arena, if it is not in the arena.
  std::vector<std::byte*> homes;
  bool has_homes = false;
  // per output: the block that contains only this output, or -1
  std::vector<int32_t> output_blocks;
  // First part: the sizes it was planned for, as cache key, and those of the outputs, except sizes
  // that depend on data.
  std::vector<Sizes> input_shapes;
  Bindings outer_sizes;
  std::vector<std::optional<Sizes>> output_shapes;
  // Later parts: the part it continues, its state then, and the sizes from its data.
  const ReadyPlan* previous = nullptr;
  int64_t previous_fill = 0, previous_layout = 0;
  std::vector<int64_t> given_sizes;
  // How the measuring step determines the sizes of the next part: the symbols, where a control flow
  // node shows them (output, dim), their last values, and their statistics.
  std::vector<std::string> symbols;
  std::vector<std::pair<size_t, int>> shown_at;
  std::vector<int64_t> measured;
  std::vector<int64_t>* ways = nullptr;
  // The first step that writes a state: from here on the run cannot be stopped.
  size_t first_commit = 0;
  std::vector<DeviceSegment> segments;
  int64_t device_generation = -1;
  // A lane of the plan's branches: its error, and the step at which it stopped.
  struct Lane {
    std::atomic<const char*> error{nullptr};
    int32_t stopped_at = -1;
  };
  std::unique_ptr<Lane[]> lanes;   // of all branches, in order
  std::vector<size_t> first_lane;  // of each branch group of the plan
  std::vector<double> ms;          // of the last run, when profiling
  int64_t generation = -1;
  std::vector<int32_t> refreshed;  // steps without addresses, although `generation` is current

  // Makes all of the above from `plan`, except the cache keys and the device's part.
  void lay_out(const Graph& graph, const RunShared& shared, bool profile);
  // Takes over what the last refill has changed.
  void refresh(const Graph& graph);

  // Notes the part that it continues; null: it is the first one.
  void continue_from(const ReadyPlan* part) {
    previous = part;
    if (part == nullptr) return;
    previous_fill = part->fill;
    previous_layout = part->layout;
  }

  // Sets the address of each tensor to address_of(place), if addresses have changed.
  template <class AddressOf>
  void resolve(int64_t now, const AddressOf& address_of) {
    const auto resolve_step = [&](size_t i) {
      const Step& step = step_at(i);
      size_t at = first_tensor[i];
      for (const PlacedTensor& in : step.inputs) tensors[at++].data = address_of(in.place);
      for (const PlacedTensor& out : step.outputs) tensors[at++].data = address_of(out.place);
      contexts[i].scratch = address_of(step.workspace);
    };
    if (generation == now && !is_rebound) {
      for (const int32_t i : refreshed) resolve_step(static_cast<size_t>(i));
    } else {
      for (size_t i = 0; i < contexts.size(); ++i) resolve_step(i);
    }
    refreshed.clear();
    generation = now;
    is_rebound = false;
  }

  const Step& step_at(size_t i) const {
    return i < plan.steps.size() ? plan.steps[i] : *plan.measure;
  }

 private:
  void describe_outputs(const Graph& graph);
  void make_contexts(const RunShared& shared);
  void make_lanes();
  void describe_measuring(const Graph& graph);
};

}  // namespace hg
