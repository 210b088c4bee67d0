// SPDX-License-Identifier: Apache-2.0
// A compiled graph that can be planned and run: what is inside a Session, and inside the control
// flow nodes of another program.
#pragma once

#include <array>
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
#include "lib/run/compiled.h"
#include "lib/run/device_side.h"
#include "lib/run/memory.h"

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
  // Runs on memory named at each call, for calls that take less time than what run() looks after.
  // Allowed where can_run_on() says so: a planned program of one part whose steps are kernels of the
  // CPU, each output in memory of its own. Inputs are contiguous, outputs too and 64-byte aligned,
  // and none shares a byte with another one or with an input, but where may_overwrite() allows it.
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
  // Of several runs, the first of which only warms up; none begins when they took `most_ms`.
  Result<double> least_ms(int most_runs, double most_ms);
  Result<Tensor> output(int index) const;
  Result<std::vector<TensorData>> copies_of_outputs() const;
  Result<DeviceTensor> device_output(int index) const;
  Result<Tensor> value(ValueId id) const;
  Status set_state(size_t index, const ConstTensor& tensor);

  const Gpu& gpu() const { return options_.gpu; }
  // As the host gave them; without data where it did not yet.
  std::span<const Tensor> inputs() const { return inputs_; }
  // What runs write to instead of the arena; without data where nothing was set.
  std::span<const Tensor> bound_outputs() const { return bound_; }
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
  // A plan with pointers.
  struct Ready;
  // The subprograms of a control flow node, and what they gave in the last run.
  struct Control {
    std::vector<std::unique_ptr<Program>> bodies;
    std::vector<Tensor> results;
    // Of a value that a loop carries: what a round reads, and what the next one will read.
    struct Carried {
      Memory64 now, next;
      bool moves = false;  // `next` takes the place of `now`
    };
    std::vector<Carried> carried;
    std::array<int64_t, 3> taken{};  // as WaysRow has it
    std::array<int64_t, 2> runs{};   // of the bodies, in the last run
  };

  // What holds for a run of the outermost program and of all bodies inside of it.
  struct RunLimits {
    int64_t rounds_left = 0;
    const std::stop_token* stop = nullptr;  // null: the run goes on to its end
    RunProgress* progress = nullptr;        // null: nobody looks
  };

  Program(const SessionOptions& options, const Registry& registry,
          std::shared_ptr<Compiled> compiled);
  // With what this program and those like it have in common locked.
  static Status compile_for_all(const Graph& graph, const SessionOptions& options,
                                const Registry& registry, Compiled& compiled);
  void take_states(const Graph& source);
  Status prepare_states();
  Status check_input(const ValueInfo& info, DType dtype, const Sizes& shape) const;
  Status fetch_inputs(const Ready& ready);
  Result<Bindings> bindings_of_inputs(std::span<const std::pair<std::string, int64_t>> dims) const;
  // The plan for the sizes of the inputs where it was made before, else null.
  Ready* known_plan();
  Result<Ready*> part(size_t index, const Bindings& bindings, const Plan* previous);
  // The part after this one, whose sizes its measuring step has given.
  Result<Ready*> next_part(Ready& ready);
  Status make_ready(Ready& ready);
  void fill_packed(const Plan& plan, const std::vector<ValueId>& packed_before);
  Status fit_limit(const PlanRequest& request, Plan& plan) const;
  void resolve(Ready& ready);
  void* base_of(const Place& place) const;
  Status run_once();
  Status run_part(Ready& ready);
  // Whether the run is to end before this step.
  bool is_stopped(const Ready& ready, size_t step) const;
  Status stopped_before(const Ready& ready, size_t step) const;
  void add_progress(size_t known, size_t done) const;
  Status check_bound_outputs(const Ready& first) const;
  void place_bound_outputs(Ready& ready);
  void find_whole_blocks(Ready& ready) const;
  std::byte* home_of_output(const Ready& ready, size_t output) const;
  Status check_made_outputs() const;
  Status copy_bound_outputs();
  Tensor fitted(size_t output, const Tensor& made) const;
  Status run_step(Ready& ready, size_t index);
  Status run_branches(Ready& ready, size_t index);
  Status measure(Ready& ready);
  void describe_measuring(Ready& ready);
  Status make_controls(const Plan& plan);
  Status run_control(const Step& step, const RunContext& context, const Bindings& sizes);
  Status run_if(Control& control, const Step& step, std::span<const Tensor> inputs);
  Status run_while(Control& control, const Step& step, std::span<const Tensor> inputs);
  Status assign_states();
  Status failure(const Step& step);
  Result<Tensor> computed(ValueId id) const;

  Graph graph_;
  SessionOptions options_;
  const Registry* registry_;
  ParallelFor parallel_;
  std::shared_ptr<Compiled> compiled_;
  std::shared_ptr<const Plan> only_plan_;  // as Compiled has it, for the graph that this one has
  std::vector<bool> mutable_states_;
  std::vector<void*> state_data_;
  std::vector<Memory64> own_states_;
  std::vector<Tensor> inputs_;  // as the host gave them
  Bindings outer_sizes_;
  std::vector<Tensor> bound_;       // by output: where the host wants it
  std::vector<bool> is_staged_;     // by output: of the last run
  std::vector<bool> data_decides_;  // by output: some of its sizes
  std::vector<Memory64> staging_;   // by output: for what would be overwritten by a copy
  bool any_bound_ = false;
  std::vector<void*> input_data_;  // contiguous: the host's memory or a copy
  std::vector<Memory64> input_copies_;
  std::vector<std::vector<std::unique_ptr<Ready>>> plans_;  // by part: the cache
  std::vector<Ready*> parts_;                          // those of the last plan or run, in order
  std::vector<Memory64> arenas_;                       // by part
  std::vector<std::unique_ptr<Control>> controls_;     // by node
  std::map<int32_t, std::vector<int64_t>> size_ways_;  // by node: the sizes that data gave
  RunLimits own_limits_;
  RunLimits* limits_ = &own_limits_;    // of a body: those of the outermost program
  std::unique_ptr<DeviceSide> device_;  // null: the CPU alone
  std::set<std::string> distrusted_;    // kernels of the device that failed their self-test
  mutable std::map<ValueId, TensorData> fetched_;  // values read from the device since the last run
  int64_t generation_ = 0;                         // counts changes of addresses
  bool sizes_changed_ = true;
  bool has_run_ = false;
  std::atomic<const char*> error_{nullptr};
  RandomState random_;
};

}  // namespace hg
