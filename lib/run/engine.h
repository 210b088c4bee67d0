// SPDX-License-Identifier: Apache-2.0
// A compiled graph that can be planned and run: the core of a Session and of control flow bodies.
// Its components are independent: inputs, bound outputs, states, sizes, the plan cache, control
// flow, and the device side.
//
// engine.cpp creates engines, engine_plans.cpp plans them, engine_run.cpp, engine_step.cpp and
// engine_direct.cpp run them, and engine_results.cpp returns results.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "hg/session.h"
#include "lib/plan/plan.h"
#include "lib/run/arenas.h"
#include "lib/run/bound_outputs.h"
#include "lib/run/compiled.h"
#include "lib/run/control.h"
#include "lib/run/device_side.h"
#include "lib/run/inputs.h"
#include "lib/run/memory.h"
#include "lib/run/plans_by_size.h"
#include "lib/run/self_test.h"
#include "lib/run/sizes.h"
#include "lib/run/states.h"

namespace hg {

class Engine {
 public:
  // Runs the passes. The registry must outlive the engine.
  static Result<std::unique_ptr<Engine>> create(const Graph& graph, const SessionOptions& options,
                                                const Registry& registry);
  // As above, sharing what other engines of the graph compiled and packed.
  static Result<std::unique_ptr<Engine>> create(const Graph& graph, const SessionOptions& options,
                                                const Registry& registry,
                                                std::shared_ptr<Compiled> compiled);
  ~Engine();

  Status set_input(int index, const ConstTensor& tensor);
  Status set_input(int index, const DeviceTensor& tensor);
  // See Session::set_output().
  Status set_output(int index, const Tensor& tensor);
  void forget_tensors();
  // Sets all inputs to zeros of these sizes. The caller must keep the returned tensors while it
  // runs.
  Result<std::vector<TensorData>> give_zeros(const Bindings& sizes);
  void set_outer_sizes(const Bindings& sizes) { sizes_.set_outer(sizes); }
  // Plans the first part for the sizes of the inputs and for `dims`.
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  Status run(const std::stop_token& stop = {}, RunProgress* progress = nullptr);
  // See Session::step().
  Result<std::optional<StepRow>> step();
  // See Session::release_memory(); includes bodies.
  void release_memory();
  // See Session::seed().
  void seed(uint64_t seed) { random_ = {.seed = seed, .run = options_.first_run}; }
  // Runs on memory passed in each call, without the checks of run(), for very short calls. Requires
  // can_run_on(): a planned engine of one part whose steps are CPU kernels, each output in its own
  // memory. Inputs and outputs must be contiguous, outputs 64-byte aligned. Outputs must not
  // overlap each other or an input, except as may_overwrite() allows.
  bool can_run_on();
  Status run_on(std::span<void* const> inputs, std::span<void* const> outputs);
  // Whether the output may have the same memory as the input.
  bool may_overwrite(size_t output, size_t input) const;
  // For a planned engine without steps: the position of this output in an input; otherwise
  // nothing.
  struct InputView {
    size_t input = 0;
    int64_t offset = 0;  // in bytes
    Tensor tensor;       // data is null
  };
  std::optional<InputView> view_of_input(size_t output) const;
  // The random state of the next run.
  void set_random(const RandomState& state) { random_ = state; }
  // Runs as a body of another engine, within its limits.
  void run_within(RunLimits* limits);
  Status run_once();
  // Least time of several runs, of which the first is a warm-up; no run starts after `most_ms`.
  Result<double> least_ms(int most_runs, double most_ms);
  Result<Tensor> output(int index) const;
  Result<std::vector<TensorData>> copies_of_outputs() const;
  Result<DeviceTensor> device_output(int index) const;
  Result<Tensor> value(ValueId id) const;
  Status set_state(size_t index, const ConstTensor& tensor);

  const Gpu& gpu() const { return options_.gpu; }
  // As set by the host; null data if not set.
  std::span<const Tensor> inputs() const { return inputs_.tensors(); }
  // Memory that runs write to instead of the arena; null data if not set.
  std::span<const Tensor> bound_outputs() const { return outputs_.tensors(); }
  const Bindings& bindings() const;  // after planning
  const Graph& graph() const { return graph_; }
  bool is_planned() const { return !parts_.empty(); }
  Memory memory() const;
  std::vector<ArenaBlock> arena_blocks() const;
  double flops() const;
  std::vector<ProfileRow> profile() const;
  // Whether the plan runs this kernel, as "op=kernel", on the device.
  bool uses(std::string_view kernel) const;
  // For engines with SessionOptions::kernels: device kernels that plans do not use.
  void distrust(std::set<std::string> kernels) { verdicts_.wrong = std::move(kernels); }
  std::vector<WaysRow> ways() const;
  std::string report() const;
  std::vector<std::byte> tuning() const;
  Status save_packed() const;

 private:
  Engine(const SessionOptions& options, const Registry& registry,
         std::shared_ptr<Compiled> compiled);
  // With the shared compiled data locked.
  static Status compile_for_all(const Graph& graph, const SessionOptions& options,
                                const Registry& registry, Compiled& compiled);
  void take_states(const Graph& source);
  Status prepare_states(Graph& graph);

  // -- Plans --------------------------------------------------------------------------------------

  // Returns the plan for the sizes of the inputs; makes it if needed.
  Status plan_for_inputs();
  // Returns a part for these sizes; makes it if needed.
  Result<ReadyPlan*> part(size_t index, const Bindings& bindings, const ReadyPlan* previous);
  // Makes a plan for these sizes alone.
  Result<ReadyPlan*> exact_part(size_t index, const Bindings& bindings, const ReadyPlan* previous);
  // Makes a plan for a range of sizes and fills it for these; returns null if no range fits.
  Result<ReadyPlan*> ranged_part(size_t index, const Bindings& bindings, const ReadyPlan* previous);
  // The ranges to plan for, per symbol; empty if a plan for these sizes alone is better.
  std::vector<SizeInterval> ranges_for(size_t index, const Bindings& bindings,
                                       const ReadyPlan* previous) const;
  // Fills a plan for other sizes. Returns whether it fits; if not, it is stale.
  Result<bool> refill(ReadyPlan& ready, const Bindings& bindings);
  PlanRequest request_for(const Bindings& bindings, const ReadyPlan* previous, PackCache& packs);
  // Returns the next part, for the sizes that its measuring step produced.
  Result<ReadyPlan*> next_part(ReadyPlan& ready);
  // Makes a plan within the memory limit, with branches side by side.
  Result<Plan> make_plan_of_part(PlanRequest request, bool may_expand);
  Status expand_node(int32_t index);
  Status fit_limit(const PlanRequest& request, Plan& plan) const;
  Status fill_packed(const Plan& plan, const std::vector<ValueId>& packed_before);
  // Returns the only plan, or one that another engine of this graph made for these sizes, or null.
  std::shared_ptr<const Plan> plan_of_others(const Bindings& bindings) const;
  void share_plan(const Plan& plan);
  Status make_ready(ReadyPlan& ready);
  Status hold_arena(const Plan& plan);
  Status make_controls(const Plan& plan);

  // -- Runs ---------------------------------------------------------------------------------------

  void* address_of(const Place& place) const;
  void resolve(ReadyPlan& ready);
  void place_outputs(ReadyPlan& ready);
  Status fetch_inputs(const ReadyPlan& ready);
  Status record(ReadyPlan& ready);
  // Position of a run in the steps of its last part.
  struct Cursor {
    size_t step = 0, done = 0;
    size_t branches = 0, segment = 0;  // the next ones
  };
  Status begin_run();
  Status begin_part(ReadyPlan& ready);
  Status advance(ReadyPlan& ready, Cursor& at);
  // Whether another part follows; it then becomes the last one.
  Result<bool> next_part_begins();
  Status finish_run();
  // State of a run in single steps.
  struct Stepping {
    Cursor at;
    std::vector<std::vector<ValueId>> made;  // per step of the last part: the values it makes
  };
  std::vector<std::vector<ValueId>> values_by_step(const Plan& plan) const;
  // The host value that this step has just made; nothing if it is not on the host.
  std::optional<Tensor> made_by(const ReadyPlan& ready, size_t step, ValueId id) const;
  StepRow row_of(const ReadyPlan& ready, size_t step) const;
  Status run_part(ReadyPlan& ready);
  Status run_segment(ReadyPlan& ready, DeviceSegment& segment);
  Status run_step(ReadyPlan& ready, size_t index);
  Status run_branches(ReadyPlan& ready, size_t index);
  Status run_control(const Step& step, const RunContext& context, const Bindings& sizes);
  // Whether the run must stop before this step.
  bool is_stopped(const ReadyPlan& ready, size_t step) const;
  Status stopped_before(const ReadyPlan& ready, size_t step) const;
  void add_progress(size_t known, size_t done) const;
  Status measure(ReadyPlan& ready);
  Status take_outputs();
  void assign_states();
  Status failure(const Step& step);
  Result<Tensor> computed(ValueId id) const;

  Graph graph_;
  SessionOptions options_;
  const Registry* registry_;
  std::shared_ptr<void> threads_;  // of parallel_, unless it is the host's
  ParallelFor parallel_;
  std::shared_ptr<Compiled> compiled_;
  std::shared_ptr<const Plan> only_plan_;  // as in Compiled, for the current graph
  Inputs inputs_;
  BoundOutputs outputs_;
  States states_;
  BoundSizes sizes_;
  PlansBySize plans_;
  std::vector<ReadyPlan*> parts_;  // of the last plan or run, in order
  Arenas arenas_;
  bool is_as_compiled_ = true;                         // no node was expanded since
  std::optional<Stepping> stepping_;                   // a run in single steps
  int64_t generation_ = 0;                             // counts changes of addresses
  std::vector<std::unique_ptr<Control>> controls_;     // per node
  std::map<int32_t, std::vector<int64_t>> size_ways_;  // per node: sizes that depended on data
  RunLimits own_limits_;
  RunLimits* limits_ = &own_limits_;               // in a body: those of the outermost engine
  std::unique_ptr<DeviceSide> device_;             // null: CPU only
  Verdicts verdicts_;                              // of the self-tests of device kernels
  mutable std::map<ValueId, TensorData> fetched_;  // values read from the device since the last run
  bool has_run_ = false;
  std::atomic<const char*> error_{nullptr};
  RandomState random_;
};

}  // namespace hg
