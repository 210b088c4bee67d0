// SPDX-License-Identifier: Apache-2.0
// Creating and running a program.
#include "lib/run/program.h"

#include <algorithm>
#include <chrono>

#include "lib/compile/passes.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/symbols.h"
#include "lib/parallel/openmp.h"
#include "lib/run/ready.h"

namespace hg {
namespace {

// What the constant folding pass runs: no passes but those that are needed.
Result<std::vector<TensorData>> evaluate_constants(Graph graph, const CompileContext& context) {
  SessionOptions options;
  options.threads = context.options->threads;
  options.parallel_for = context.options->parallel_for;
  options.keep_all_values = true;
  HG_TRY_ASSIGN(const std::unique_ptr<Program> program,
                Program::create(graph, options, *context.registry));
  HG_TRY(program->run());
  return program->copies_of_outputs();
}

}  // namespace

Program::Program(const SessionOptions& options, const Registry& registry,
                 std::shared_ptr<Compiled> compiled)
    : graph_(compiled->graph),
      options_(options),
      registry_(&registry),
      compiled_(std::move(compiled)),
      only_plan_(compiled_->plan) {
  parallel_ = options.parallel_for;
  if (parallel_.run == nullptr)
    parallel_ = openmp_parallel_for(options.threads > 0 ? options.threads : default_threads());
  random_.seed = options.seed;
  random_.run = options.first_run;
  if (options.device == Device::vulkan) {
    options_.gpu = options.gpu;
    device_ = std::make_unique<DeviceSide>(options_.gpu.backend_, graph_.inputs().size());
  }
  inputs_.resize(graph_.inputs().size());
  input_data_.resize(inputs_.size(), nullptr);
  input_copies_.resize(inputs_.size());
  const size_t outputs = graph_.outputs().size();
  bound_.resize(outputs);
  is_staged_.resize(outputs);
  staging_.resize(outputs);
  std::vector<std::string> known = graph_.symbols();
  const size_t given = known.size();
  for (const auto& [name, id] : graph_.outputs()) {
    for (const Dim& dim : graph_.value_info(id).type.shape) dim.collect_symbols(known);
    data_decides_.push_back(known.size() > given);
    known.resize(given);
  }
}

Program::~Program() = default;

Result<std::unique_ptr<Program>> Program::create(const Graph& graph, const SessionOptions& options,
                                                 const Registry& registry) {
  return create(graph, options, registry, std::make_shared<Compiled>(options));
}

Result<std::unique_ptr<Program>> Program::create(const Graph& graph, const SessionOptions& options,
                                                 const Registry& registry,
                                                 std::shared_ptr<Compiled> compiled) {
  HG_TRY(graph.status());
  std::unique_lock<std::mutex> locked(compiled->lock);
  if (!compiled->is_made) HG_TRY(compile_for_all(graph, options, registry, *compiled));
  std::unique_ptr<Program> program(new Program(options, registry, compiled));
  locked.unlock();
  program->take_states(graph);
  HG_TRY(program->prepare_states());
  return program;
}

Status Program::compile_for_all(const Graph& source, const SessionOptions& options,
                                const Registry& registry, Compiled& compiled) {
  Graph graph = source;
  CompileContext context{&registry, &options, {}, evaluate_constants};
  context.mutable_states.resize(graph.states().size(), false);
  for (const auto& [target, value] : graph.assignments())
    context.mutable_states[static_cast<size_t>(graph.value_info(target).state)] = true;
  compiled.first_made_state = graph.states().size();
  HG_TRY(compile(graph, context));
  // What the passes made other weights of.
  const std::vector<int> uses = use_counts(graph);
  std::vector<State>& states = GraphAccess::body(graph).states;
  for (size_t i = 0; i < states.size(); ++i) {
    if (i < compiled.first_made_state && context.mutable_states[i]) {
      drop_data(states[i]);
      continue;
    }
    if (uses[static_cast<size_t>(states[i].value)] > 0) continue;
    release_pages(graph, states[i].data);
    // Made by one pass for another.
    if (i >= compiled.first_made_state && options.device == Device::cpu) drop_data(states[i]);
  }
  compiled.outer_symbols = outer_symbols(graph);
  compiled.graph = std::move(graph);
  compiled.is_made = true;
  return {};
}

// What runs change begins as the model has it.
void Program::take_states(const Graph& source) {
  std::vector<State>& states = GraphAccess::body(graph_).states;
  for (const auto& [target, value] : graph_.assignments()) {
    const auto i = static_cast<size_t>(graph_.value_info(target).state);
    if (states[i].data.empty()) states[i].data = source.states()[i].data;
  }
}

Status Program::prepare_states() {
  const auto& states = graph_.states();
  mutable_states_.assign(states.size(), false);
  for (const auto& [target, source] : graph_.assignments())
    mutable_states_[static_cast<size_t>(graph_.value_info(target).state)] = true;
  own_states_.resize(states.size());
  state_data_.resize(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor tensor = states[i].data.tensor;
    state_data_[i] = tensor.data;
    if (!mutable_states_[i] || own_states_[i].data() != nullptr) continue;
    if (!own_states_[i].allocate(options_.allocator, tensor.bytes()))
      return out_of_memory("no memory for the ", tensor.bytes(), " bytes of '", states[i].name,
                           "'");
    state_data_[i] = own_states_[i].data();
    const Tensor own = view(state_data_[i], tensor.dtype, tensor.shape);
    copy_elements(tensor, own);
    release_pages(graph_, states[i].data);
    // The bytes it started from are not kept for this session's sake.
    const auto lent = [](void*) {};
    GraphAccess::body(graph_).states[i].data = {own, std::shared_ptr<void>(own.data, lent)};
  }
  if (device_ != nullptr) {
    std::vector<Tensor> on_host;
    for (size_t i = 0; i < states.size(); ++i)
      on_host.push_back(
          view(state_data_[i], states[i].data.tensor.dtype, states[i].data.tensor.shape));
    device_->set_states(std::move(on_host));
  }
  return {};
}

// -- Running ------------------------------------------------------------------------------------

Status Program::run(const std::stop_token& stop, RunProgress* progress) {
  own_limits_ = {options_.most_rounds, stop.stop_possible() ? &stop : nullptr, progress};
  if (progress != nullptr) {
    progress->done_.store(0, std::memory_order_relaxed);
    progress->known_.store(0, std::memory_order_relaxed);
  }
  const Status status = run_once();
  own_limits_ = {};
  return status;
}

// The program's own thread alone calls it.
void Program::add_progress(size_t known, size_t done) const {
  RunProgress* const progress = limits_->progress;
  if (progress == nullptr) [[likely]]
    return;
  progress->known_.fetch_add(static_cast<int64_t>(known), std::memory_order_relaxed);
  progress->done_.fetch_add(static_cast<int64_t>(done), std::memory_order_relaxed);
}

Status Program::run_once() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string& name = graph_.value_info(graph_.inputs()[i]).name;
    HG_CHECK(input_data_[i] != nullptr, "input '", name, "' is not set");
    if (!inputs_[i].is_contiguous())
      copy_elements(inputs_[i], view(input_data_[i], inputs_[i].dtype, inputs_[i].shape));
  }
  if (sizes_changed_ || parts_.empty()) {
    if (Ready* const known = known_plan()) {
      parts_.assign(1, known);
      sizes_changed_ = false;
    } else {
      HG_TRY(plan({}));
      Ready& made = *parts_.front();
      made.input_shapes.clear();
      for (const Tensor& input : inputs_) made.input_shapes.push_back(input.shape);
      made.outer_sizes = outer_sizes_;
    }
  }
  has_run_ = false;
  fetched_.clear();
  parts_.resize(1);
  if (any_bound_) HG_TRY(check_bound_outputs(*parts_.front()));
  for (;;) {
    Ready& ready = *parts_.back();
    place_bound_outputs(ready);
    HG_TRY(run_part(ready));
    if (ready.first_commit < ready.plan.steps.size()) limits_->stop = nullptr;
    if (ready.plan.next_node == graph_.nodes().size()) break;
    HG_TRY(measure(ready));
    HG_TRY_ASSIGN(Ready* const next, next_part(ready));
    parts_.push_back(next);
  }
  if (any_bound_) HG_TRY(check_made_outputs());
  HG_TRY(assign_states());
  if (any_bound_) HG_TRY(copy_bound_outputs());
  ++random_.run;
  has_run_ = true;
  return {};
}

Result<double> Program::least_ms(int most_runs, double most_ms) {
  using Clock = std::chrono::steady_clock;
  double best = 0, sum = 0;
  for (int i = 0; i < most_runs && (i < 2 || sum < most_ms); ++i) {
    const Clock::time_point begin = Clock::now();
    HG_TRY(run());
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    sum += ms;
    if (i > 0) best = i == 1 ? ms : std::min(best, ms);
  }
  return best;
}

// What the CPU reads of inputs that were given on the device.
Status Program::fetch_inputs(const Ready& ready) {
  for (const int32_t index : ready.host_inputs) {
    const auto i = static_cast<size_t>(index);
    if (device_->is_given(i)) HG_TRY(device_->fetch_input(i, inputs_[i].bytes(), input_data_[i]));
  }
  return {};
}

Status Program::run_part(Ready& ready) {
  resolve(ready);
  if (device_ != nullptr) {
    HG_TRY(fetch_inputs(ready));
    if (ready.device_generation != device_->generation()) {
      HG_TRY(device_->reserve(ready.plan));
      HG_TRY_ASSIGN(ready.segments, device_->record(ready.plan, options_.profile));
      ready.device_generation = device_->generation();
    }
  }
  add_progress(ready.plan.steps.size(), 0);
  size_t segment = 0, branches = 0, done = 0;
  for (size_t i = 0; i < ready.plan.steps.size(); ++i) {
    add_progress(0, i - done);
    done = i;
    if (is_stopped(ready, i)) [[unlikely]]
      return stopped_before(ready, i);
    if (branches < ready.plan.branches.size() &&
        static_cast<size_t>(ready.plan.branches[branches].begin) == i) {
      HG_TRY(run_branches(ready, branches));
      i = static_cast<size_t>(ready.plan.branches[branches++].end) - 1;
      continue;
    }
    if (segment < ready.segments.size() && ready.segments[segment].begin == i) {
      DeviceSegment& steps = ready.segments[segment++];
      const auto start = std::chrono::steady_clock::now();
      for (size_t k = 0; k < steps.transfers.size(); ++k)
        steps.host[k] = base_of(*steps.transfers[k]);
      HG_TRY(steps.recording->run(steps.host));
      if (options_.profile)
        ready.ms[i] =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                .count();
      i = steps.end - 1;
      continue;
    }
    if (!options_.profile) {
      HG_TRY(run_step(ready, i));
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    HG_TRY(run_step(ready, i));
    ready.ms[i] =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  add_progress(0, ready.plan.steps.size() - done);
  return {};
}

bool Program::is_stopped(const Ready& ready, size_t step) const {
  const std::stop_token* const stop = limits_->stop;
  if (stop == nullptr) [[likely]]
    return false;
  if (step > ready.first_commit) {
    limits_->stop = nullptr;  // for what runs inside of later steps, and for later parts
    return false;
  }
  return stop->stop_requested();
}

Status Program::stopped_before(const Ready& ready, size_t step) const {
  return cancelled("the run was stopped before ", ready.plan.steps[step].label);
}

// A lane stops where a step fails. Of several that do, the step that comes first in the plan has
// failed as it would have with all steps one after another.
Status Program::run_branches(Ready& ready, size_t index) {
  const Branches& branches = ready.plan.branches[index];
  struct Work {
    Ready* ready;
    const Branches* branches;
    Ready::Lane* lanes;
    bool profile;
    const std::stop_token* stop;
  } work{&ready, &branches, ready.lanes.get() + ready.first_lane[index], options_.profile,
         static_cast<size_t>(branches.end) <= ready.first_commit ? limits_->stop : nullptr};
  parallel_.run(
      parallel_.host, static_cast<int64_t>(branches.lanes.size()),
      [](void* arg, int64_t lane_index) {
        const Work& w = *static_cast<const Work*>(arg);
        const auto lane = static_cast<size_t>(lane_index);
        for (const int32_t step : w.branches->lanes[lane]) {
          if (w.stop != nullptr && w.stop->stop_requested()) return;
          const auto i = static_cast<size_t>(step);
          using Clock = std::chrono::steady_clock;
          const Clock::time_point start = w.profile ? Clock::now() : Clock::time_point();
          w.ready->plan.steps[i].kernel->run(w.ready->contexts[i]);
          if (w.profile)
            w.ready->ms[i] =
                std::chrono::duration<double, std::milli>(Clock::now() - start).count();
          if (w.lanes[lane].error.load(std::memory_order_relaxed) == nullptr) continue;
          w.lanes[lane].stopped_at = step;
          return;
        }
      },
      &work);
  Ready::Lane* first = nullptr;
  for (size_t lane = 0; lane < branches.lanes.size(); ++lane) {
    Ready::Lane& other = work.lanes[lane];
    if (other.stopped_at < 0) continue;
    if (first == nullptr || other.stopped_at < first->stopped_at) first = &other;
  }
  if (first == nullptr) [[likely]]
    return work.stop != nullptr && work.stop->stop_requested()
               ? stopped_before(ready, static_cast<size_t>(branches.begin))
               : Status();
  const Step& step = ready.plan.steps[static_cast<size_t>(first->stopped_at)];
  const Status status = invalid_argument(step.label, ": ", first->error.load());
  for (size_t lane = 0; lane < branches.lanes.size(); ++lane) {
    work.lanes[lane].error = nullptr;
    work.lanes[lane].stopped_at = -1;
  }
  return status;
}

Status Program::run_step(Ready& ready, size_t index) {
  const Step& step = ready.plan.steps[index];
  const RunContext& context = ready.contexts[index];
  if (step.kind == StepKind::control) {
    if (!(ready.plan.first_node == static_cast<size_t>(step.node) && ready.plan.part > 0))
      HG_TRY(run_control(step, context, ready.plan.bindings));
    const Control& control = *controls_[static_cast<size_t>(step.node)];
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      if (!(control.results[i].shape == context.outputs[i].shape))
        return internal_error(step.label, ": result ", int64_t(i), " has shape ",
                              control.results[i].shape, ", planned was ", context.outputs[i].shape);
      copy_elements(control.results[i], context.outputs[i]);
    }
    return {};
  }
  step.kernel->run(context);
  if (error_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    return failure(step);
  return {};
}

Status Program::failure(const Step& step) {
  return invalid_argument(step.label, ": ", error_.exchange(nullptr));
}

// What the measuring step of this part will tell.
void Program::describe_measuring(Ready& ready) {
  if (!ready.plan.measure) return;
  const Step& step = *ready.plan.measure;
  const Node& node = graph_.nodes()[static_cast<size_t>(step.node)];
  if (step.kind == StepKind::control) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Shape& shape = graph_.value_info(node.outputs[i]).type.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const std::string symbol(shape[d].symbol());
        const auto& seen = ready.symbols;
        if (symbol.empty() || ready.plan.bindings.find(symbol) ||
            std::find(seen.begin(), seen.end(), symbol) != seen.end())
          continue;
        ready.symbols.push_back(symbol);
        ready.shown_at.emplace_back(i, static_cast<int>(d));
      }
    }
  } else {
    for (const Dim& dim : GraphAccess::fresh_symbols(graph_, node))
      ready.symbols.emplace_back(dim.symbol());
    ready.ways = &size_ways_[step.node];
    ready.ways->resize(3 * ready.symbols.size());
  }
  ready.measured.resize(ready.symbols.size());
}

Status Program::measure(Ready& ready) {
  const Step& step = *ready.plan.measure;
  const RunContext& context = ready.contexts.back();
  if (step.kind == StepKind::control) {
    HG_TRY(run_control(step, context, ready.plan.bindings));
    const Control& control = *controls_[static_cast<size_t>(step.node)];
    for (size_t i = 0; i < ready.measured.size(); ++i) {
      const auto [output, dim] = ready.shown_at[i];
      ready.measured[i] = control.results[output].shape[dim];
    }
    return {};
  }
  std::fill(ready.measured.begin(), ready.measured.end(), 0);
  step.kernel->measure(context, ready.measured);
  if (error_.load(std::memory_order_relaxed) != nullptr) return failure(step);
  for (size_t i = 0; i < ready.measured.size(); ++i)
    ++(*ready.ways)[3 * i + static_cast<size_t>(std::min<int64_t>(ready.measured[i], 2))];
  return {};
}

Result<Program::Ready*> Program::next_part(Ready& ready) {
  const size_t index = parts_.size();
  if (plans_.size() > index)
    for (const auto& known : plans_[index])
      if (known->previous == &ready && known->given_sizes == ready.measured) return known.get();
  Bindings bindings = ready.plan.bindings;
  for (size_t i = 0; i < ready.symbols.size(); ++i)
    HG_TRY(bindings.bind(ready.symbols[i], ready.measured[i]));
  HG_TRY_ASSIGN(Ready* const next, part(index, bindings, &ready.plan));
  next->previous = &ready;
  next->given_sizes = ready.measured;
  return next;
}

Status Program::assign_states() {
  if (device_ != nullptr) return {};  // the plan's last steps did
  const Plan& last = parts_.back()->plan;
  for (const auto& [target, source] : graph_.assignments()) {
    const PlacedTensor& from = *last.find(source, Side::host);
    Tensor tensor = from.tensor;
    tensor.data = base_of(from.place);
    const auto state = static_cast<size_t>(graph_.value_info(target).state);
    if (tensor.data == state_data_[state]) continue;  // updated in place
    copy_elements(tensor, view(state_data_[state], tensor.dtype, tensor.shape));
  }
  return {};
}

}  // namespace hg
