// SPDX-License-Identifier: Apache-2.0
// A compiled graph that can be planned and run: what is inside a Session, and inside the control
// flow nodes of another program. Its parts stand alone: inputs, bound outputs, states, sizes, the
// cache of plans, control flow, and the way to a device.
//
// program.cpp makes programs, program_plans.cpp their plans, program_run.cpp, program_step.cpp and
// program_direct.cpp run them, and program_results.cpp says what came out.
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
#include "lib/run/states.h"

namespace hg {

class Program {
 public:
  // Runs the passes. The registry must outlive the program.
  static Result<std::unique_ptr<Program>> create(const Graph& graph, const SessionOptions& options,
                                                 const Registry& registry);
  // The same, with what other programs of that graph compiled and packed.
  static Result<std::unique_ptr<Program>> create(const Graph& graph, const SessionOptions& options,
                                                 const Registry& registry,
                                                 std::shared_ptr<Compiled> compiled);
  ~Program();

  Status set_input(int index, const ConstTensor& tensor);
  Status set_input(int index, const DeviceTensor& tensor);
  // As Session::set_output.
  Status set_output(int index, const Tensor& tensor);
  void forget_tensors();
  // Gives all inputs zeros of these sizes, which the caller keeps for as long as it runs.
  Result<std::vector<TensorData>> give_zeros(const Bindings& sizes);
  // Sizes of the graph that this one is a part of, for what the inputs alone do not tell.
  void set_outer_sizes(const Bindings& sizes);
  // Plans the first part for the sizes of the inputs and for `dims`.
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  Status run(const std::stop_token& stop = {}, RunProgress* progress = nullptr);
  // As Session::step.
  Result<std::optional<StepRow>> step();
  // As Session::release_memory, of bodies too.
  void release_memory();
  // As Session::seed.
  void seed(uint64_t seed) { random_ = {.seed = seed, .run = options_.first_run}; }
  // Runs on memory named at each call, for calls that take less time than what run() looks after.
  // Allowed where can_run_on() says so: a planned program of one part whose steps are kernels of
  // the CPU, each output in memory of its own. Inputs are contiguous, outputs too and 64-byte
  // aligned, and none shares a byte with another one or with an input, but where may_overwrite()
  // allows it.
  bool can_run_on();
  Status run_on(std::span<void* const> inputs, std::span<void* const> outputs);
  // Whether an output may lie exactly where an input lies.
  bool may_overwrite(size_t output, size_t input) const;
  // Of a planned program that runs nothing: where in an input this output lies; else nothing.
  struct InputView {
    size_t input = 0;
    int64_t offset = 0;  // bytes
    Tensor tensor;       // without data
  };
  std::optional<InputView> view_of_input(size_t output) const;
  // What the next run draws from.
  void set_random(const RandomState& state) { random_ = state; }
  // As a body of another program: within these limits instead of its own.
  void run_within(RunLimits* limits);
  Status run_once();
  // Of several runs, the first of which only warms up; none begins when they took `most_ms`.
  Result<double> least_ms(int most_runs, double most_ms);
  Result<Tensor> output(int index) const;
  Result<std::vector<TensorData>> copies_of_outputs() const;
  Result<DeviceTensor> device_output(int index) const;
  Result<Tensor> value(ValueId id) const;
  Status set_state(size_t index, const ConstTensor& tensor);

  const Gpu& gpu() const { return options_.gpu; }
  // As the host gave them; without data where it did not yet.
  std::span<const Tensor> inputs() const { return inputs_.tensors(); }
  // What runs write to instead of the arena; without data where nothing was set.
  std::span<const Tensor> bound_outputs() const { return outputs_.tensors(); }
  const Bindings& bindings() const;  // once planned
  const Graph& graph() const { return graph_; }
  bool is_planned() const { return !parts_.empty(); }
  Memory memory() const;
  std::vector<ArenaBlock> arena_blocks() const;
  double flops() const;
  std::vector<ProfileRow> profile() const;
  std::vector<WaysRow> ways() const;
  std::string report() const;
  std::vector<std::byte> tuning() const;

 private:
  Program(const SessionOptions& options, const Registry& registry,
          std::shared_ptr<Compiled> compiled);
  // With what this program and those like it have in common locked.
  static Status compile_for_all(const Graph& graph, const SessionOptions& options,
                                const Registry& registry, Compiled& compiled);
  void take_states(const Graph& source);
  Status prepare_states(Graph& graph);

  // -- Plans --------------------------------------------------------------------------------------

  Result<Bindings> bindings_of_inputs(std::span<const std::pair<std::string, int64_t>> dims) const;
  // The plan for the sizes of the inputs, made where it is not known.
  Status plan_for_inputs();
  // A part for these sizes, made where it is not known.
  Result<ReadyPlan*> part(size_t index, const Bindings& bindings, const Plan* previous);
  // The part after this one, whose sizes its measuring step has given.
  Result<ReadyPlan*> next_part(ReadyPlan& ready);
  Result<Plan> make_plan_of_part(const PlanRequest& request, PreparedNodes& prepared,
                                 NodeKernels& preferred, bool is_first);
  Status expand_node(int32_t index);
  Status fit_limit(const PlanRequest& request, Plan& plan) const;
  Status fill_packed(const Plan& plan, const std::vector<ValueId>& packed_before);
  // The only plan, or one that another program of this graph made for these sizes, or null.
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
  // Where a run is in the steps of its last part.
  struct Cursor {
    size_t step = 0, done = 0;
    size_t branches = 0, segment = 0;  // the next of each
  };
  Status begin_run();
  Status begin_part(ReadyPlan& ready);
  Status advance(ReadyPlan& ready, Cursor& at);
  // Whether there is a further part, which then is the last one.
  Result<bool> next_part_begins();
  Status finish_run();
  // A run by single steps.
  struct Stepping {
    Cursor at;
    std::vector<std::vector<ValueId>> made;  // by step of the last part: what it makes
  };
  std::vector<std::vector<ValueId>> values_by_step(const Plan& plan) const;
  // A value of that step on the host, right after it; nothing where it is not there.
  std::optional<Tensor> made_by(const ReadyPlan& ready, size_t step, ValueId id) const;
  StepRow row_of(const ReadyPlan& ready, size_t step) const;
  Status run_part(ReadyPlan& ready);
  Status run_segment(ReadyPlan& ready, DeviceSegment& segment);
  Status run_step(ReadyPlan& ready, size_t index);
  Status run_branches(ReadyPlan& ready, size_t index);
  Status run_control(const Step& step, const RunContext& context, const Bindings& sizes);
  // Whether the run is to end before this step.
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
  std::shared_ptr<void> threads_;  // of parallel_, unless the host lent it
  ParallelFor parallel_;
  std::shared_ptr<Compiled> compiled_;
  std::shared_ptr<const Plan> only_plan_;  // as Compiled has it, for the graph that this one has
  Inputs inputs_;
  BoundOutputs outputs_;
  States states_;
  Bindings outer_sizes_;
  bool outer_sizes_changed_ = false;
  PlansBySize plans_;
  std::vector<ReadyPlan*> parts_;  // those of the last plan or run, in order
  Arenas arenas_;
  bool is_as_compiled_ = true;                         // no node was expanded since
  std::optional<Stepping> stepping_;                   // a run by single steps
  int64_t generation_ = 0;                             // counts changes of addresses
  std::vector<std::unique_ptr<Control>> controls_;     // by node
  std::map<int32_t, std::vector<int64_t>> size_ways_;  // by node: the sizes that data gave
  RunLimits own_limits_;
  RunLimits* limits_ = &own_limits_;    // of a body: those of the outermost program
  std::unique_ptr<DeviceSide> device_;  // null: the CPU alone
  std::set<std::string> distrusted_;    // kernels of the device that failed their self-test
  mutable std::map<ValueId, TensorData> fetched_;  // values read from the device since the last run
  bool has_run_ = false;
  std::atomic<const char*> error_{nullptr};
  RandomState random_;
};

}  // namespace hg
