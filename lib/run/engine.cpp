// SPDX-License-Identifier: Apache-2.0
// Creates engines, and sets inputs, outputs and states.
#include "lib/run/engine.h"

#include <algorithm>

#include "lib/compile/passes.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/symbols.h"
#include "lib/parallel/threads.h"

namespace hg {
namespace {

constexpr int64_t kCopied = 1 << 16;  // bytes below which a constant is copied

// The engine that the constant folding pass runs, compiled only with required passes.
Result<std::vector<TensorData>> evaluate_constants(Graph graph, const CompileContext& context) {
  SessionOptions options;
  options.threads = context.options->threads;
  options.parallel_for = context.options->parallel_for;
  options.keep_all_values = true;
  HG_TRY_ASSIGN(const std::unique_ptr<Engine> engine,
                Engine::create(graph, options, *context.registry));
  // Kernels write large constants to the memory that keeps them. Copies would take a good part of
  // the time in which a session starts. The check of bound memory compares all pairs.
  std::vector<TensorData> results(graph.outputs().size());
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorType& type = graph.value_info(graph.outputs()[i].second).type;
    HG_TRY_ASSIGN(const Sizes sizes, evaluate(type.shape, Bindings()));
    if (sizes.count() * size_of(type.dtype) < kCopied) continue;
    HG_TRY_ASSIGN(results[i], TensorData::allocate(type.dtype, sizes));
    HG_TRY(engine->set_output(static_cast<int>(i), results[i].tensor));
  }
  HG_TRY(engine->run());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].empty()) continue;
    HG_TRY_ASSIGN(const Tensor made, engine->output(static_cast<int>(i)));
    HG_TRY_ASSIGN(results[i], TensorData::copy_of(made));
  }
  return results;
}

}  // namespace

Engine::Engine(const SessionOptions& options, const Registry& registry,
               std::shared_ptr<Compiled> compiled)
    : graph_(compiled->graph),
      options_(options),
      registry_(&registry),
      compiled_(std::move(compiled)),
      only_plan_(compiled_->plan),
      inputs_(graph_, options.allocator),
      outputs_(graph_, options.allocator),
      arenas_(options.allocator, options.arena_observer) {
  parallel_ = options.parallel_for;
  if (parallel_.run == nullptr)
    parallel_ =
        session_threads(options.threads > 0 ? options.threads : default_threads(), threads_);
  random_ = {.seed = options.seed, .run = options.first_run};
  if (options.device == Device::vulkan)
    device_ = std::make_unique<DeviceSide>(options_.gpu.backend_, graph_.inputs().size(),
                                           options.arena_observer);
}

Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(const Graph& graph, const SessionOptions& options,
                                               const Registry& registry) {
  return create(graph, options, registry, std::make_shared<Compiled>(options));
}

Result<std::unique_ptr<Engine>> Engine::create(const Graph& graph, const SessionOptions& options,
                                               const Registry& registry,
                                               std::shared_ptr<Compiled> compiled) {
  HG_TRY(graph.status());
  std::unique_lock<std::mutex> locked(compiled->lock);
  if (!compiled->is_made) HG_TRY(compile_for_all(graph, options, registry, *compiled));
  std::unique_ptr<Engine> engine(new Engine(options, registry, compiled));
  locked.unlock();
  engine->take_states(graph);
  HG_TRY(engine->prepare_states(engine->graph_));
  return engine;
}

Status Engine::compile_for_all(const Graph& source, const SessionOptions& options,
                               const Registry& registry, Compiled& compiled) {
  if (options.packed.empty()) read_ahead(source);  // otherwise the packed weights may suffice
  Graph graph = source;
  CompileContext context{&registry, &options, changed_states(graph), evaluate_constants};
  compiled.first_made_state = graph.states().size();
  HG_TRY(compile(graph, context));
  // The weights that the passes replaced by others.
  const std::vector<int> uses = use_counts(graph);
  std::vector<State>& states = GraphAccess::body(graph).states;
  for (size_t i = 0; i < states.size(); ++i) {
    if (i < compiled.first_made_state && context.mutable_states[i]) {
      drop_data(states[i]);
      continue;
    }
    if (uses[states[i].value] > 0) continue;
    release_pages(graph, states[i].data);
    // Created by one pass and replaced by another.
    if (i >= compiled.first_made_state && options.device == Device::cpu) drop_data(states[i]);
  }
  if (options.device != Device::cpu || options.autotune)  // read before the packs are filled
    for (const State& state : states) compute_now(graph, state.data);
  compiled.outer_symbols = outer_symbols(graph);
  compiled.graph = std::move(graph);
  compiled.use_packed_file();
  compiled.is_made = true;
  return {};
}

// States that runs change start with the model's values.
void Engine::take_states(const Graph& source) {
  states_.find_growing(source);
  std::vector<State>& states = GraphAccess::body(graph_).states;
  for (const auto& [target, value] : graph_.assignments()) {
    const auto i = static_cast<size_t>(graph_.value_info(target).state);
    if (states[i].data.empty()) states[i].data = source.states()[i].data;
  }
}

Status Engine::prepare_states(Graph& graph) {
  HG_TRY(states_.prepare(graph, options_.allocator, options_.states.get()));
  if (device_ != nullptr) device_->set_states(states_.tensors(graph));
  return {};
}

// -- Inputs and states ----------------------------------------------------------------------------

Status Engine::set_input(int index, const DeviceTensor& tensor) {
  stepping_.reset();
  const auto i = static_cast<size_t>(index);
  const std::string& name = graph_.value_info(graph_.inputs()[i]).name;
  HG_CHECK(device_ != nullptr, "input '", name,
           "' is given on a device, but the session runs on the CPU");
  HG_CHECK(tensor.memory != nullptr, "input '", name, "' is given an empty device tensor");
  HG_CHECK(tensor.memory->is_of(backend_of(options_.gpu)), "input '", name,
           "' is given on another device than ", options_.gpu.info().name);
  HG_TRY(inputs_.reserve(i, tensor.dtype, tensor.shape));
  device_->set_input(i, tensor);
  return {};
}

Status Engine::set_input(int index, const ConstTensor& tensor) {
  stepping_.reset();
  HG_TRY(inputs_.set(static_cast<size_t>(index), tensor));
  if (device_ != nullptr) device_->set_input(static_cast<size_t>(index), {});
  return {};
}

Status Engine::set_output(int index, const Tensor& tensor) {
  stepping_.reset();
  return outputs_.set(static_cast<size_t>(index), tensor);
}

void Engine::forget_tensors() {
  stepping_.reset();
  inputs_.forget();
  outputs_.forget();
  has_run_ = false;
  if (device_ != nullptr)
    for (size_t i = 0; i < inputs_.size(); ++i) device_->set_input(i, {});
}

Result<std::vector<TensorData>> Engine::give_zeros(const Bindings& sizes) {
  std::vector<TensorData> zeros;
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    const TensorType& type = graph_.value_info(graph_.inputs()[i]).type;
    HG_TRY_ASSIGN(const Sizes shape, evaluate(type.shape, sizes));
    HG_TRY_ASSIGN(TensorData data, TensorData::allocate(type.dtype, shape));
    zeros.push_back(std::move(data));
    HG_TRY(set_input(static_cast<int>(i), zeros.back().tensor));
  }
  return zeros;
}

void Engine::release_memory() {
  stepping_.reset();
  has_run_ = false;
  fetched_.clear();
  arenas_.release();
  ++generation_;
  if (device_ != nullptr) {
    for (const auto& part : plans_.all())
      for (const auto& ready : part) ready->segments.clear();  // they hold the memory
    device_->release_arenas();
  }
  for (const auto& control : controls_)
    if (control != nullptr)
      for (const auto& body : control->bodies()) body->release_memory();
}

}  // namespace hg
