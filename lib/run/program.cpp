// SPDX-License-Identifier: Apache-2.0
#include "lib/run/program.h"

#include <algorithm>
#include <chrono>

#include "lib/compile/passes.h"
#include "lib/plan/fit.h"
#include "lib/run/parallel.h"

namespace hg {
namespace {

constexpr size_t kPlansPerPart = 16;  // bindings whose plans are kept

// Finds the one unknown symbol of a size such as 2*n + 1 from its value.
Status bind_expression(const Dim& dim, int64_t size, Bindings& bindings) {
  const Dim rest = dim.substitute(bindings);
  std::vector<std::string> unknown;
  rest.collect_symbols(unknown);
  if (unknown.size() == 1) {
    int64_t at[3] = {0, 0, 0};
    for (int64_t i = 0; i < 3; ++i) {
      Bindings trial;
      HG_TRY(trial.bind(unknown[0], i));
      HG_TRY_ASSIGN(at[i], rest.evaluate(trial));
    }
    const int64_t slope = at[1] - at[0];
    if (slope != 0 && at[2] - at[1] == slope && (size - at[0]) % slope == 0)
      HG_TRY(bindings.bind(unknown[0], (size - at[0]) / slope));
  }
  HG_TRY_ASSIGN(const int64_t value, dim.evaluate(bindings));
  HG_CHECK(value == size, "the size ", dim, " is ", value, ", not ", size);
  return {};
}

}  // namespace

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
  std::vector<double> ms;  // of the last run, when profiling
  int64_t generation = -1;
};

namespace {

// What the constant folding pass runs: no passes but those that are needed.
Result<std::vector<TensorData>> evaluate_constants(Graph graph, const CompileContext& context) {
  Options options;
  options.threads = context.options->threads;
  options.parallel_for = context.options->parallel_for;
  options.keep_all_values = true;
  HG_TRY_ASSIGN(const std::unique_ptr<Program> program,
                Program::create(std::move(graph), options, *context.registry));
  HG_TRY(program->run());
  std::vector<TensorData> results;
  for (size_t i = 0; i < program->graph().outputs().size(); ++i) {
    HG_TRY_ASSIGN(const Tensor tensor, program->output(static_cast<int>(i)));
    HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(tensor));
    results.push_back(std::move(data));
  }
  return results;
}

}  // namespace

Program::Program(Graph graph, const Options& options, const Registry& registry)
    : graph_(std::move(graph)), options_(options), registry_(&registry),
      packs_(options.allocator) {
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
}

Program::~Program() = default;

Result<std::unique_ptr<Program>> Program::create(Graph graph, const Options& options,
                                                 const Registry& registry) {
  HG_TRY(graph.status());
  std::unique_ptr<Program> program(new Program(std::move(graph), options, registry));
  CompileContext context{&registry, &program->options_, {}, evaluate_constants};
  context.mutable_states.resize(program->graph_.states().size(), false);
  for (const auto& [target, source] : program->graph_.assignments())
    context.mutable_states[static_cast<size_t>(program->graph_.value_info(target).state)] = true;
  HG_TRY(compile(program->graph_, context));
  HG_TRY(program->prepare_states());
  return program;
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
      return out_of_memory("no memory for the ", tensor.bytes(), " bytes of '", states[i].name, "'");
    state_data_[i] = own_states_[i].data();
    const Tensor own = view(state_data_[i], tensor.dtype, tensor.shape);
    copy(tensor, own);
    // The bytes it started from are not kept for this session's sake.
    const auto lent = [](void*) {};
    GraphAccess::body(graph_).states[i].data = {own, std::shared_ptr<void>(own.data, lent)};
  }
  if (device_ != nullptr) {
    std::vector<Tensor> on_host;
    for (size_t i = 0; i < states.size(); ++i)
      on_host.push_back(view(state_data_[i], states[i].data.tensor.dtype, states[i].data.tensor.shape));
    device_->set_states(std::move(on_host));
  }
  return {};
}

// -- Inputs and sizes -------------------------------------------------------------------------------

Status Program::check_input(const ValueInfo& info, DType dtype, const Sizes& shape) const {
  HG_CHECK(dtype == info.type.dtype, "input '", info.name, "' takes ", info.type,
           ", not a tensor of ", dtype);
  HG_CHECK(shape.rank() == info.type.rank(), "input '", info.name, "' takes ", info.type,
           " of rank ", info.type.rank(), ", not a tensor of shape ", shape);
  for (int d = 0; d < shape.rank(); ++d) {
    const Dim& dim = info.type.shape[static_cast<size_t>(d)];
    HG_CHECK(shape[d] >= 0 && (!dim.is_constant() || dim.constant() == shape[d]), "input '",
             info.name, "' takes ", info.type, ", not ", shape, ": dimension ", d, " is ", shape[d],
             ", not ", dim);
  }
  return {};
}

Status Program::set_input(int index, const DeviceTensor& tensor) {
  const auto i = static_cast<size_t>(index);
  const ValueInfo& info = graph_.value_info(graph_.inputs()[i]);
  HG_CHECK(device_ != nullptr, "input '", info.name,
           "' is given on a device, but the session runs on the CPU");
  HG_CHECK(tensor.memory != nullptr, "input '", info.name, "' is given an empty device tensor");
  HG_TRY(check_input(info, tensor.dtype, tensor.shape));
  if (!(inputs_[i].shape == tensor.shape) || input_data_[i] == nullptr) sizes_changed_ = true;
  if (input_copies_[i].bytes() < std::max<int64_t>(tensor.bytes(), 1) &&
      !input_copies_[i].allocate(options_.allocator, std::max<int64_t>(tensor.bytes(), 1)))
    return out_of_memory("no memory for a copy of input '", info.name, "'");
  input_data_[i] = input_copies_[i].data();
  inputs_[i] = view(input_data_[i], tensor.dtype, tensor.shape);
  device_->set_input(i, tensor);
  return {};
}

Status Program::set_input(int index, const Tensor& tensor) {
  const auto i = static_cast<size_t>(index);
  const ValueInfo& info = graph_.value_info(graph_.inputs()[i]);
  HG_TRY(check_input(info, tensor.dtype, tensor.shape));
  if (device_ != nullptr) device_->set_input(i, {});
  HG_CHECK(tensor.data != nullptr || tensor.count() == 0, "input '", info.name,
           "' is given null data for ", tensor.bytes(), " bytes");
  if (!(inputs_[i].shape == tensor.shape) || input_data_[i] == nullptr) sizes_changed_ = true;
  inputs_[i] = tensor;
  static std::byte empty[64];  // what inputs of no elements point to
  if (tensor.data == nullptr) inputs_[i].data = empty;
  if (tensor.is_contiguous()) {
    input_data_[i] = inputs_[i].data;
    return {};
  }
  if (input_copies_[i].bytes() < tensor.bytes() &&
      !input_copies_[i].allocate(options_.allocator, tensor.bytes()))
    return out_of_memory("no memory for a contiguous copy of input '", info.name, "'");
  input_data_[i] = input_copies_[i].data();
  return {};
}

void Program::set_outer_sizes(const Bindings& sizes) {
  if (sizes == outer_sizes_) return;
  outer_sizes_ = sizes;
  sizes_changed_ = true;
}

Result<Bindings> Program::bindings_of_inputs(
    std::span<const std::pair<std::string, int64_t>> dims) const {
  Bindings bindings;
  const std::vector<std::string> symbols = graph_.symbols();
  const auto bind = [&](std::string_view symbol, int64_t value) -> Status {
    HG_CHECK(std::find(symbols.begin(), symbols.end(), symbol) != symbols.end(),
             "the model has no size '", symbol, "'");
    HG_CHECK(value >= 0, "the size '", symbol, "' is ", value);
    return bindings.bind(symbol, value);
  };
  for (const auto& [symbol, value] : dims) HG_TRY(bind(symbol, value));
  // Plain symbols first, then those of the outer graph, then expressions of one symbol that is still
  // unknown.
  for (const bool plain : {true, false}) {
    for (const std::string& symbol : symbols)
      if (const auto size = outer_sizes_.find(symbol); !plain && size && !bindings.find(symbol))
        HG_TRY(bind(symbol, *size));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (input_data_[i] == nullptr) continue;
      const ValueInfo& info = graph_.value_info(graph_.inputs()[i]);
      for (int d = 0; d < info.type.rank(); ++d) {
        const Dim& dim = info.type.shape[static_cast<size_t>(d)];
        const int64_t size = inputs_[i].shape[d];
        if (dim.is_constant() || dim.symbol().empty() == plain) continue;
        Status status = plain ? bind(dim.symbol(), size) : Status();
        if (status.ok() && !plain) status = bind_expression(dim, size, bindings);
        if (!status.ok())
          return invalid_argument("input '", info.name, "' of shape ", inputs_[i].shape,
                                  " does not fit ", info.type, ": ", status.message());
      }
    }
  }
  for (const auto& [symbol, value] : options_.dims)
    if (!bindings.find(symbol)) HG_TRY(bind(symbol, value));
  for (const std::string& symbol : symbols)
    HG_CHECK(bindings.find(symbol), "the size '", symbol, "' is not known; set the input that has it, or give it in `dims`");
  return bindings;
}

Status Program::plan(std::span<const std::pair<std::string, int64_t>> dims) {
  HG_TRY_ASSIGN(const Bindings bindings, bindings_of_inputs(dims));
  parts_.clear();
  HG_TRY_ASSIGN(Ready* const first, part(0, bindings, nullptr));
  parts_.push_back(first);
  sizes_changed_ = false;
  has_run_ = false;
  return {};
}

// -- Plans --------------------------------------------------------------------------------------------

Result<Program::Ready*> Program::part(size_t index, const Bindings& bindings,
                                      const Plan* previous) {
  if (plans_.size() <= index) plans_.resize(index + 1);
  auto& cache = plans_[index];
  for (const auto& ready : cache)
    if (ready->plan.bindings == bindings) return ready.get();
  PlanRequest request;
  request.graph = &graph_;
  request.registry = registry_;
  request.options = &options_;
  request.bindings = bindings;
  request.previous = previous;
  request.mutable_states = &mutable_states_;
  request.packs = &packs_;
  request.threads = parallel_.threads;
  if (device_ != nullptr) request.device = &options_.gpu.info();
  auto ready = std::make_unique<Ready>();
  PreparedNodes prepared;
  request.prepared = &prepared;
  for (;;) {
    int32_t expand_node = -1;
    Result<Plan> plan = make_plan(request, &expand_node);
    if (plan.ok()) {
      ready->plan = *std::move(plan);
      break;
    }
    // Only the first part may still change the graph: later ones continue plans that refer to it.
    if (expand_node < 0 || index > 0) return plan.status();
    plans_.clear();
    plans_.resize(1);
    prepared.clear();
    HG_TRY(rewrite(graph_, [&, at = int32_t{0}](const Node& node) mutable
                           -> Result<std::optional<std::vector<Value>>> {
      if (at++ != expand_node) return std::optional<std::vector<Value>>();
      HG_TRY_ASSIGN(std::vector<Value> values, GraphAccess::expand(graph_, node));
      return std::optional(std::move(values));
    }));
    HG_TRY(prepare_states());
  }
  HG_TRY(fit_limit(request, ready->plan));
  HG_TRY(make_ready(*ready));
  auto& plans = plans_[index];
  if (plans.size() >= kPlansPerPart) {
    for (size_t later = index; later < plans_.size(); ++later) plans_[later].clear();
  }
  plans.push_back(std::move(ready));
  return plans.back().get();
}

// Looks for orders and repetitions that need less memory, within the limit where there is one.
Status Program::fit_limit(const PlanRequest& request, Plan& plan) const {
  int64_t own = 0, earlier = 0;
  for (const Memory64& state : own_states_) own += state.bytes();
  for (size_t i = 0; i < static_cast<size_t>(plan.part); ++i) earlier += arenas_[i].bytes();
  const int64_t limit = options_.memory_limit, rest = limit - packs_.bytes() - own - earlier;
  HG_TRY_ASSIGN(plan, fit_plan(request, std::move(plan), limit > 0 ? std::max<int64_t>(rest, 1) : 0));
  if (limit <= 0 || plan.arena_bytes <= rest) return {};
  const int64_t needed = plan.arena_bytes + packs_.bytes() + own + earlier;
  return out_of_memory("the memory limit is ", limit, " bytes; the smallest that works is ", needed,
                       " (", plan.arena_bytes, " of arena, where values are computed again, ",
                       packs_.bytes(), " of packed weights, ", own, " of own state",
                       earlier > 0 ? text(", ", earlier, " of earlier parts") : "", ")");
}

Status Program::make_ready(Ready& ready) {
  const Plan& plan = ready.plan;
  const auto part = static_cast<size_t>(plan.part);
  if (arenas_.size() <= part) arenas_.resize(part + 1);
  if (arenas_[part].bytes() < plan.arena_bytes) {
    if (!arenas_[part].allocate(options_.allocator, plan.arena_bytes))
      return out_of_memory("no memory for an arena of ", plan.arena_bytes, " bytes");
    ++generation_;
  }
  if (device_ != nullptr) {
    HG_TRY(device_->reserve(plan));
    HG_TRY_ASSIGN(ready.segments, device_->record(plan));
    ready.device_generation = device_->generation();
  }
  size_t count = 0;
  const auto each_step = [&](auto visit) {
    for (const Step& step : plan.steps) visit(step);
    if (plan.measure) visit(*plan.measure);
  };
  each_step([&](const Step& step) { count += step.inputs.size() + step.outputs.size(); });
  ready.tensors.resize(count);
  size_t at = 0;
  each_step([&](const Step& step) {
    RunContext context;
    context.inputs = {ready.tensors.data() + at, step.inputs.size()};
    for (const PlacedTensor& in : step.inputs) {
      if (in.place.kind == Place::Kind::input && in.place.side == Side::host) {
        ready.patches.push_back({at, in.place.index, in.place.offset});
        if (step.kind != StepKind::upload) ready.host_inputs.push_back(in.place.index);
      }
      ready.tensors[at++] = in.tensor;
    }
    context.outputs = {ready.tensors.data() + at, step.outputs.size()};
    for (const PlacedTensor& out : step.outputs) ready.tensors[at++] = out.tensor;
    context.prepared = step.state.get();
    context.parallel = &parallel_;
    context.error = &error_;
    context.random = &random_;
    ready.contexts.push_back(context);
  });
  if (options_.profile) ready.ms.resize(plan.steps.size(), 0);
  return make_controls(plan);
}

void* Program::base_of(const Place& place) const {
  const auto index = static_cast<size_t>(place.index);
  if (place.side == Side::device) return nullptr;
  switch (place.kind) {
    case Place::Kind::none: return nullptr;
    case Place::Kind::arena: return static_cast<std::byte*>(arenas_[index].data()) + place.offset;
    case Place::Kind::input: return static_cast<std::byte*>(input_data_[index]) + place.offset;
    case Place::Kind::state: return static_cast<std::byte*>(state_data_[index]) + place.offset;
    case Place::Kind::fixed:
      return static_cast<std::byte*>(const_cast<void*>(place.address)) + place.offset;
  }
  return nullptr;
}

void Program::resolve(Ready& ready) {
  if (ready.generation != generation_) {
    size_t at = 0, context = 0;
    const auto resolve_step = [&](const Step& step) {
      for (const PlacedTensor& in : step.inputs) ready.tensors[at++].data = base_of(in.place);
      for (const PlacedTensor& out : step.outputs) ready.tensors[at++].data = base_of(out.place);
      ready.contexts[context++].scratch = base_of(step.workspace);
    };
    for (const Step& step : ready.plan.steps) resolve_step(step);
    if (ready.plan.measure) resolve_step(*ready.plan.measure);
    ready.generation = generation_;
  }
  for (const Ready::InputPatch& patch : ready.patches)
    ready.tensors[patch.tensor].data =
        static_cast<std::byte*>(input_data_[static_cast<size_t>(patch.input)]) + patch.offset;
}

// -- Running ------------------------------------------------------------------------------------------

Status Program::run() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string& name = graph_.value_info(graph_.inputs()[i]).name;
    HG_CHECK(input_data_[i] != nullptr, "input '", name, "' is not set");
    if (!inputs_[i].is_contiguous())
      copy(inputs_[i], view(input_data_[i], inputs_[i].dtype, inputs_[i].shape));
  }
  if (sizes_changed_ || parts_.empty()) HG_TRY(plan({}));
  has_run_ = false;
  fetched_.clear();
  parts_.resize(1);
  for (;;) {
    Ready& ready = *parts_.back();
    HG_TRY(run_part(ready));
    if (ready.plan.next_node == graph_.nodes().size()) break;
    HG_TRY_ASSIGN(const Bindings bindings, measure(ready));
    HG_TRY_ASSIGN(Ready* const next, part(parts_.size(), bindings, &ready.plan));
    parts_.push_back(next);
  }
  HG_TRY(assign_states());
  ++random_.run;
  has_run_ = true;
  return {};
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
      HG_TRY_ASSIGN(ready.segments, device_->record(ready.plan));
      ready.device_generation = device_->generation();
    }
  }
  size_t segment = 0;
  for (size_t i = 0; i < ready.plan.steps.size(); ++i) {
    if (segment < ready.segments.size() && ready.segments[segment].begin == i) {
      DeviceSegment& steps = ready.segments[segment++];
      const auto start = std::chrono::steady_clock::now();
      for (size_t k = 0; k < steps.transfers.size(); ++k)
        steps.host[k] = base_of(*steps.transfers[k]);
      HG_TRY(steps.recording->run(steps.host));
      if (options_.profile)
        ready.ms[i] = std::chrono::duration<double, std::milli>(
                          std::chrono::steady_clock::now() - start).count();
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
  return {};
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
        return internal(step.label, ": result ", int64_t(i), " has shape ",
                        control.results[i].shape, ", planned was ", context.outputs[i].shape);
      copy(control.results[i], context.outputs[i]);
    }
    return {};
  }
  step.kernel->run(context);
  if (error_.load(std::memory_order_relaxed) != nullptr) [[unlikely]] return failure(step);
  return {};
}

Status Program::failure(const Step& step) {
  return invalid_argument(step.label, ": ", error_.exchange(nullptr));
}

Result<Bindings> Program::measure(Ready& ready) {
  const Step& step = *ready.plan.measure;
  const RunContext& context = ready.contexts.back();
  const Node& node = graph_.nodes()[static_cast<size_t>(step.node)];
  const std::vector<Dim> fresh = GraphAccess::fresh_symbols(graph_, node);
  Bindings bindings = ready.plan.bindings;
  if (step.kind == StepKind::control) {
    HG_TRY(run_control(step, context, ready.plan.bindings));
    const Control& control = *controls_[static_cast<size_t>(step.node)];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Shape& shape = graph_.value_info(node.outputs[i]).type.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const std::string_view symbol = shape[d].symbol();
        if (!symbol.empty() && !bindings.find(symbol))
          HG_TRY(bindings.bind(symbol, control.results[i].shape[static_cast<int>(d)]));
      }
    }
    return bindings;
  }
  std::vector<int64_t> sizes(fresh.size(), 0);
  step.kernel->measure(context, sizes);
  if (error_.load(std::memory_order_relaxed) != nullptr) return failure(step);
  for (size_t i = 0; i < fresh.size(); ++i) HG_TRY(bindings.bind(fresh[i].symbol(), sizes[i]));
  return bindings;
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
    copy(tensor, view(state_data_[state], tensor.dtype, tensor.shape));
  }
  return {};
}

// -- Results ------------------------------------------------------------------------------------------

Result<Tensor> Program::output(int index) const {
  HG_CHECK(has_run_, "there are no outputs yet; call run() first");
  return computed(graph_.outputs()[static_cast<size_t>(index)].second);
}

Result<Tensor> Program::value(ValueId id) const {
  const ValueInfo& info = graph_.value_info(id);
  if (info.state >= 0) {
    const auto state = static_cast<size_t>(info.state);
    if (device_ != nullptr && mutable_states_[state])
      HG_TRY(device_->fetch_state(state));
    const Tensor& tensor = graph_.states()[static_cast<size_t>(info.state)].data.tensor;
    return view(state_data_[static_cast<size_t>(info.state)], tensor.dtype, tensor.shape);
  }
  HG_CHECK(has_run_, "'", info.name, "' has no value yet; call run() first");
  return computed(id);
}

// What the last run made of a value: for a state that the run assigned, what it was before.
Result<Tensor> Program::computed(ValueId id) const {
  const Plan& plan = parts_.back()->plan;
  if (const PlacedTensor* const here = plan.find(id, Side::host)) {
    Tensor tensor = here->tensor;
    tensor.data = base_of(here->place);
    return tensor;
  }
  const PlacedTensor* const there = plan.find(id, Side::device);
  if (there == nullptr)
    return not_found("'", graph_.value_info(id).name, "' is not computed by this session");
  TensorData& fetched = fetched_[id];
  if (fetched.empty()) {
    HG_TRY_ASSIGN(fetched, device_->fetch(*there));
  }
  return fetched.tensor;
}

Result<DeviceTensor> Program::device_output(int index) const {
  const auto& [name, id] = graph_.outputs()[static_cast<size_t>(index)];
  HG_CHECK(has_run_, "there are no outputs yet; call run() first");
  HG_CHECK(device_ != nullptr, "output '", name, "' is not on a device: the session runs on the CPU");
  const PlacedTensor* const there = parts_.back()->plan.find(id, Side::device);
  HG_CHECK(there != nullptr && there->tensor.is_contiguous(), "output '", name,
           "' does not lie on the device as a contiguous tensor; set Options::device_outputs");
  HG_TRY_ASSIGN(const DeviceSpan span, device_->span_of(*there));
  return DeviceTensor{there->tensor.dtype, there->tensor.shape, span.memory, span.offset};
}

Memory Program::memory() const {
  Memory memory;
  for (const Ready* ready : parts_) {
    memory.arena_bytes += ready->plan.arena_bytes;
    memory.arena_lower_bound += ready->plan.arena_lower_bound;
    memory.extra_flops += ready->plan.extra_flops;
  }
  // Weights that the passes replaced stay in the file that they are mapped from.
  const std::vector<int> uses = use_counts(graph_);
  for (size_t i = 0; i < graph_.states().size(); ++i) {
    const State& state = graph_.states()[i];
    if (uses[static_cast<size_t>(state.value)] > 0 || mutable_states_[i])
      memory.weights_bytes += state.data.tensor.bytes();
  }
  memory.packed_bytes = packs_.bytes();
  if (device_ != nullptr) memory.device_bytes = device_->bytes();
  memory.peak_bytes = memory.arena_bytes + memory.weights_bytes + memory.packed_bytes;
  for (const auto& control : controls_) {
    if (control == nullptr) continue;
    for (const auto& body : control->bodies) memory.peak_bytes += body->memory().peak_bytes;
  }
  return memory;
}

std::vector<ArenaBlock> Program::arena_blocks() const {
  std::vector<ArenaBlock> blocks;
  int64_t base = 0;
  int step = 0;
  for (const Ready* ready : parts_) {
    for (const Block& block : ready->plan.blocks)
      blocks.push_back({block.name, base + block.offset, block.lifetime.bytes,
                        step + block.lifetime.first, step + block.lifetime.last});
    base += ready->plan.arena_bytes;
    step += static_cast<int>(ready->plan.steps.size());
  }
  return blocks;
}

double Program::flops() const {
  double total = 0;
  for (const Ready* ready : parts_)
    for (const Step& step : ready->plan.steps) total += step.flops;
  return total;
}

std::vector<ProfileRow> Program::profile() const {
  std::vector<ProfileRow> rows;
  for (const Ready* ready : parts_)
    for (size_t i = 0; i < ready->plan.steps.size(); ++i) {
      const Step& step = ready->plan.steps[i];
      ProfileRow row;
      if (step.node >= 0) {
        const Node& node = graph_.nodes()[static_cast<size_t>(step.node)];
        row.node = graph_.value_info(node.outputs[0]).name;
        row.op = node.op->name();
        row.module = node.origin.module;
      } else {
        row.node = step.label;
        row.op = step.is_transfer() ? step.label.substr(0, step.label.find(' ')) : "contiguous";
      }
      if (step.kernel != nullptr) row.kernel = step.kernel->name;
      row.ms = i < ready->ms.size() ? ready->ms[i] : 0;
      row.flops = step.flops;
      row.bytes = step.bytes;
      rows.push_back(std::move(row));
    }
  return rows;
}

std::string Program::report() const {
  std::string out;
  if (device_ != nullptr) {
    const DeviceInfo& info = options_.gpu.info();
    out += text("device vulkan: ", info.name, " (", name(info.type), ", ", info.driver, ")\n");
    for (const Ready* ready : parts_)
      for (const std::string& remark : ready->plan.remarks) out += text(remark, "\n");
  }
  out += text("device cpu, ", parallel_.threads, " threads\n");
  if (is_planned()) {
    const Memory m = memory();
    out += text("peak ", m.peak_bytes, " bytes: ", m.arena_bytes, " of arena, ", m.weights_bytes,
                " of weights, ", m.packed_bytes, " packed\n");
    if (device_ != nullptr) out += text(m.device_bytes, " bytes on the device\n");
    if (m.extra_flops > 0)
      out += text(m.extra_flops, " of ", flops(), " FLOPs compute values again to save memory\n");
  }
  const std::vector<ProfileRow> rows = profile();
  size_t row = 0;
  for (const Ready* ready : parts_)
    for (const Step& step : ready->plan.steps) {
      const ProfileRow& r = rows[row++];
      if (step.is_transfer())
        out += text(step.label, "\n");
      else
        out += text(r.node, ": ", r.op, " by ", r.kernel.empty() ? "subgraphs" : r.kernel,
                    step.on_device() ? " on vulkan\n" : "\n");
    }
  return out;
}

}  // namespace hg
