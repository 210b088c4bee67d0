// SPDX-License-Identifier: Apache-2.0
// Programs of named models: sessions with arrays by name.
#include "lib/nn/named_program.h"

#include <algorithm>
#include <span>

#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/readable.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/split_mix.h"
#include "lib/nn/layer.h"

namespace hg::nn {

// -- Arenas ---------------------------------------------------------------------------------------

ArenaObserver ArenaCounts::observer() {
  return {[](void* host, void* memory, size_t bytes) {
            static_cast<ArenaCounts*>(host)->note(false, memory, bytes);
          },
          [](void* host, void* memory, size_t bytes) {
            static_cast<ArenaCounts*>(host)->note(true, memory, bytes);
          },
          this};
}

void ArenaCounts::note(bool is_free, void* memory, size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  bytes_ += is_free ? -count : count;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  ++(is_free ? frees_ : allocations_);
  const auto tell = is_free ? outer_.freed : outer_.allocated;
  if (tell != nullptr) tell(outer_.host, memory, bytes);
  if (on_arena_) on_arena_({is_free, memory, count});
}

void ArenaCounts::add_to(MemoryStats& stats) const {
  stats.arena_bytes = bytes_;
  stats.peak_arena_bytes = peak_bytes_;
  stats.allocations = allocations_;
  stats.frees = frees_;
}

// -- Making programs ------------------------------------------------------------------------------

Program::Body::Body(std::shared_ptr<Prepared> from, CompileOptions given, Block model)
    : prepared(std::move(from)),
      options(std::move(given)),
      block(std::move(model)),
      arenas(options) {
  for (const size_t i : prepared->parameters) {
    const NamedState& state = prepared->lowered.states[i];
    parameters.push_back({state.name, state.dtype, state.shape, state.is_trainable});
  }
}

Status Program::Body::make_states() {
  for (const size_t i : prepared->states) {
    const NamedState& state = prepared->lowered.states[i];
    HG_TRY_ASSIGN(const TensorData first,
                  first_contents(state.dtype, state.shape, state.rule, state.zero_row));
    HG_TRY_ASSIGN(Array array, Array::copy_of(first.tensor));
    states.emplace_back(state.name, std::move(array));
  }
  return {};
}

VariantKey Program::Body::key() const {
  VariantKey key;
  for (const Hook& hook : hooks)
    if (std::find(key.hooks.begin(), key.hooks.end(), hook.path) == key.hooks.end())
      key.hooks.push_back(hook.path);
  return key;
}

Result<VariantKey> Program::Body::gradient_key(const NamedArrays& output_gradients) const {
  VariantKey wanted = key();
  wanted.differentiates = true;
  const std::vector<std::string>& outputs = prepared->outputs;
  if (output_gradients.empty()) {
    HG_CHECK(outputs.size() == 1, "the model has ", static_cast<int64_t>(outputs.size()),
             " outputs; say for which of them gradients are given");
    return wanted;
  }
  wanted.seeds.resize(outputs.size());
  for (const auto& [name, array] : output_gradients) {
    const auto found = std::find(outputs.begin(), outputs.end(), name);
    if (found == outputs.end())
      return not_found("a gradient is given for '", name, "', which is not an output of the model");
    wanted.seeds[found - outputs.begin()] = true;
  }
  return wanted;
}

Result<Running*> Program::Body::need(const VariantKey& key) {
  stepping.reset();
  for (const auto& known : running)
    if (known->variant->key == key) return known.get();
  HG_TRY_ASSIGN(std::shared_ptr<Variant> variant, variant_of(*prepared, key));
  SessionOptions how = options.session;
  how.arena_observer = arenas.observer();
  how.keep_all_values |= static_cast<bool>(options.debug);
  if (options.optimize == CompileOptions::Optimize::none) how.disabled_passes = {"*"};
  HG_TRY_ASSIGN(Session session, Session::create(variant->model, how));
  keep_plans(*prepared, *variant);
  auto made = std::make_unique<Running>(Running{variant, std::move(session), {}, {}});
  const Lowered& lowered = prepared->lowered;
  for (int i = 0; i < made->session.input_count(); ++i) {
    const std::string name(made->session.input_name(i));
    Given origin = Given::data;
    std::string given = name;
    for (const NamedState& state : lowered.states)
      if (state.name == name) origin = state.is_parameter ? Given::parameter : Given::state;
    for (const std::string& output : prepared->outputs)
      if (seed_name(output) == name) {
        origin = Given::seed;
        given = output;
      }
    made->origins.push_back(origin);
    made->names.push_back(std::move(given));
  }
  // Variants for other hooks will not be needed again.
  std::erase_if(running, [&](const auto& other) {
    if (other->variant->key.hooks == key.hooks) return false;
    if (other.get() == last) last = nullptr;
    return true;
  });
  running.push_back(std::move(made));
  if (last == nullptr) last = running.back().get();
  return running.back().get();
}

namespace {

LowerOptions lower_options(const CompileOptions& options) {
  return {options.dtype,     options.compute,      options.training,  options.frozen,
          options.trainable, options.gradients_of, options.constants, options.session.registry};
}

// Turns an input of the graph into a state with these contents.
void make_state(GraphBody& body, const NamedState& from, TensorData data) {
  std::erase(body.inputs, from.value);
  State state;
  state.kind = from.is_parameter ? State::Kind::parameter : State::Kind::buffer;
  state.name = from.name;
  state.data = std::move(data);
  state.value = from.value;
  state.requires_grad = from.is_trainable;
  body.values[from.value].state = static_cast<int32_t>(body.states.size());
  body.states.push_back(std::move(state));
}

}  // namespace

Result<Program> compile(const Block& model, CompileOptions options) {
  return or_no_memory([&]() -> Result<Program> {
    const SessionOptions& session = options.session;
    HG_CHECK(options.compute == f32 || options.compute == f16 || options.compute == bf16,
             "compute is ", options.compute, "; it is f32, f16 or bf16");
    HG_CHECK(options.compute == f32 || options.dtype == f32, "compute is ", options.compute,
             ", which needs dtype f32; it is ", options.dtype);
    HG_CHECK(!options.deterministic || !session.autotune || !session.tuning.empty(),
             "deterministic cannot be combined with autotune, which chooses kernels by time; set "
             "session.tuning to the result of Session::tuning() of an earlier program");
    HG_CHECK(!options.deterministic || session.device != Device::automatic,
             "deterministic cannot be combined with the device `automatic`, chosen by time");
    HG_TRY_ASSIGN(std::shared_ptr<Prepared> prepared,
                  prepare(model, lower_options(options), options.cache));
    auto body = std::make_unique<Program::Body>(std::move(prepared), std::move(options), model);
    HG_TRY(body->make_states());
    HG_TRY(body->need(body->key()).status());
    return Program(std::move(body));
  });
}

Program::Program(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

// -- What it takes and gives ----------------------------------------------------------------------

const std::vector<std::string>& Program::inputs() const { return body_->prepared->inputs; }
const std::vector<std::string>& Program::outputs() const { return body_->prepared->outputs; }
const std::vector<ParameterInfo>& Program::parameters() const { return body_->parameters; }
const NamedArrays& Program::states() const { return body_->states; }

Result<NamedArrays> Program::initial_parameters(uint64_t seed) const {
  return or_no_memory([&]() -> Result<NamedArrays> {
    const Lowered& lowered = body_->prepared->lowered;
    const std::vector<size_t>& wanted = body_->prepared->parameters;
    NamedArrays all;
    for (size_t i = 0; i < lowered.states.size(); ++i) {
      const NamedState& state = lowered.states[i];
      init::Rule rule = state.rule;
      rule.seed = split_mix(seed);  // each state has its own seed, even if it is not requested
      if (std::find(wanted.begin(), wanted.end(), i) == wanted.end()) continue;
      HG_TRY_ASSIGN(const TensorData first,
                    first_contents(state.dtype, state.shape, rule, state.zero_row));
      HG_TRY_ASSIGN(Array array, Array::copy_of(first.tensor));
      all.emplace_back(state.name, std::move(array));
    }
    return all;
  });
}

Result<Array> Program::state(std::string_view name) const {
  return or_no_memory([&]() -> Result<Array> {
    if (const Array* const found = body_->states.find(name)) return *found;
    std::string known;
    for (const auto& [other, array] : body_->states) known += (known.empty() ? "" : ", ") + other;
    return not_found("there is no state '", name, "'; there are ", known.empty() ? "none" : known);
  });
}

Status Program::set_state(std::string_view name, const ConstTensor& value) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(Array own, state(name));
    HG_CHECK(value.dtype == own.dtype() && value.shape == own.shape(), "'", name, "' is ",
             own.dtype(), own.shape(), ", not ", value.dtype, value.shape);
    HG_CHECK(is_readable(value), "'", name, "' is given ", unreadable_part(value));
    copy_elements(value, own.tensor());
    own.touch();
    return {};
  });
}

Result<Model> Program::model(const NamedArrays& parameters) const {
  return or_no_memory([&]() -> Result<Model> {
    LowerOptions how = lower_options(body_->options);
    how.training = false;
    HG_TRY_ASSIGN(Lowered lowered, lower(body_->block, how));
    remove_dead_nodes(lowered.graph);
    const std::vector<int> uses = use_counts(lowered.graph);
    GraphBody& graph = GraphAccess::body(lowered.graph);
    for (const NamedState& state : lowered.states) {
      if (state.is_constant || state.value == kNoValue || uses[state.value] == 0) continue;
      const Array* const given = (state.is_parameter ? parameters : body_->states).find(state.name);
      HG_CHECK(given != nullptr && *given, "the parameter '", state.name, "' is missing");
      HG_CHECK(given->dtype() == state.dtype && given->shape() == state.shape, "'", state.name,
               "' is ", state.dtype, state.shape, ", not ", given->dtype(), given->shape());
      HG_TRY(given->to_host());
      HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(given->tensor()));
      make_state(graph, state, std::move(data));
    }
    std::erase_if(graph.inputs, [&](ValueId id) { return uses[id] == 0; });
    HG_TRY(lowered.graph.verify());
    return Model::from_graph(std::move(lowered.graph));
  });
}

namespace {

// Leaves in each list exactly the names that the call returns, with the existing arrays.
void name_results(NamedArrays& list, const std::vector<std::string>& names) {
  NamedArrays named;
  for (const std::string& name : names) named.emplace_back(name, list[std::string_view(name)]);
  list = std::move(named);
}

}  // namespace

// -- Calls ----------------------------------------------------------------------------------------

Result<NamedArrays> Program::evaluate(const NamedArrays& parameters, const NamedArrays& data) {
  return or_no_memory([&]() -> Result<NamedArrays> {
    NamedArrays outputs;
    HG_TRY(evaluate_into(parameters, data, outputs));
    return outputs;
  });
}

Status Program::evaluate_into(const NamedArrays& parameters, const NamedArrays& data,
                              NamedArrays& outputs) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(Running* const run, body_->need(body_->key()));
    name_results(outputs, body_->prepared->outputs);
    NamedArrays* const results[] = {&outputs};
    return body_->run(*run, parameters, data, {}, results);
  });
}

Result<Gradients> Program::evaluate_gradients(const NamedArrays& parameters,
                                              const NamedArrays& data,
                                              const NamedArrays& output_gradients) {
  return or_no_memory([&]() -> Result<Gradients> {
    Gradients gradients;
    HG_TRY(evaluate_gradients_into(parameters, data, output_gradients, gradients));
    return gradients;
  });
}

Status Program::evaluate_gradients_into(const NamedArrays& parameters, const NamedArrays& data,
                                        const NamedArrays& output_gradients, Gradients& into) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const VariantKey key, body_->gradient_key(output_gradients));
    HG_TRY_ASSIGN(Running* const run, body_->need(key));
    std::vector<std::string> names;
    for (const size_t i : run->variant->trainable)
      names.push_back(body_->prepared->lowered.states[i].name);
    name_results(into.outputs, body_->prepared->outputs);
    name_results(into.parameters, names);
    name_results(into.values, body_->options.gradients_of);
    NamedArrays* const results[] = {&into.outputs, &into.parameters, &into.values};
    return body_->run(*run, parameters, data, output_gradients, results);
  });
}

Status Program::plan(std::span<const std::pair<std::string, int64_t>> dims) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(Running* const run, body_->need(body_->key()));
    body_->last = run;
    HG_TRY(run->session.plan(dims));
    keep_plans(*body_->prepared, *run->variant);
    return {};
  });
}

Status Program::plan_gradients(std::span<const std::pair<std::string, int64_t>> dims) {
  return or_no_memory([&]() -> Status {
    VariantKey key = body_->key();
    key.differentiates = true;
    const size_t outputs = body_->prepared->outputs.size();
    if (outputs > 1) key.seeds.assign(outputs, true);
    HG_TRY_ASSIGN(Running* const run, body_->need(key));
    body_->last = run;
    HG_TRY(run->session.plan(dims));
    keep_plans(*body_->prepared, *run->variant);
    return {};
  });
}

// -- Looking inside -------------------------------------------------------------------------------

Result<int> Program::add_hook(std::string path, std::function<void(const Intermediate&)> fn) {
  return or_no_memory([&]() -> Result<int> {
    HG_CHECK(fn, "add_hook: the function is empty");
    const auto& values = body_->prepared->lowered.values;
    if (!values.contains(path)) {
      std::string known;
      for (const auto& [other, id] : values) known += (known.empty() ? "" : ", ") + other;
      return not_found("there is no value '", path, "' to hook; there are ", known);
    }
    body_->hooks.push_back({body_->next_hook, std::move(path), std::move(fn)});
    return body_->next_hook++;
  });
}

void Program::remove_hook(int hook) {
  std::erase_if(body_->hooks, [&](const Body::Hook& other) { return other.number == hook; });
}

Status Program::begin(const NamedArrays& parameters, const NamedArrays& data) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(Running* const run, body_->need(body_->key()));
    body_->last = run;
    body_->stepping = Body::Stepping{{}, false};
    body_->forget_looks(*run);
    Status status = body_->check_data(data);
    if (status.ok()) status = body_->bind(*run, parameters, data, {}, body_->stepping->held);
    if (status.ok()) return {};
    body_->stepping.reset();
    run->session.forget_tensors();
    return status;
  });
}

Result<std::optional<StepRow>> Program::step() {
  return or_no_memory([&]() -> Result<std::optional<StepRow>> {
    HG_CHECK(body_->stepping.has_value(), "there is no run to step through; call begin() first");
    if (body_->stepping->is_done) return std::optional<StepRow>();
    const auto outputs = static_cast<int>(body_->prepared->outputs.size());
    Result<std::optional<StepRow>> row = body_->step(*body_->last, outputs);
    if (!row.ok()) {
      body_->stepping.reset();
      body_->last->session.forget_tensors();
    } else if (!row->has_value()) {
      body_->stepping->is_done = true;
    }
    return row;
  });
}

Result<NamedArrays> Program::finish() {
  return or_no_memory([&]() -> Result<NamedArrays> {
    HG_CHECK(body_->stepping.has_value(), "there is no run to finish; call begin() first");
    while (!body_->stepping->is_done) HG_TRY(step().status());
    Running& run = *body_->last;
    NamedArrays outputs;
    Status status;
    for (const std::string& name : body_->prepared->outputs) {
      const Result<Tensor> made = run.session.output(static_cast<int>(outputs.size()));
      status = made.status();
      if (!status.ok()) break;
      Result<Array> copy = Array::copy_of(*made);
      status = copy.status();
      if (!status.ok()) break;
      outputs.emplace_back(name, *std::move(copy));
    }
    if (status.ok()) status = body_->after(run, static_cast<int>(outputs.size()));
    body_->stepping.reset();
    run.session.forget_tensors();
    HG_TRY(status);
    return outputs;
  });
}

std::vector<ProfileRow> Program::profile() const {
  std::vector<ProfileRow> rows = body_->last->session.profile();
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.ms > b.ms; });
  return rows;
}

std::string Program::summary() const { return table_of(body_->prepared->lowered); }

// -- Memory ---------------------------------------------------------------------------------------

MemoryStats Program::memory_stats() const {
  MemoryStats stats;
  body_->arenas.add_to(stats);
  if (Result<Memory> planned = body_->last->session.memory(); planned.ok())
    stats.planned = *planned;
  return stats;
}

void Program::release_memory() {
  body_->stepping.reset();
  for (const auto& run : body_->running) run->session.release_memory();
}

const Session& Program::session() const { return body_->last->session; }

}  // namespace hg::nn
