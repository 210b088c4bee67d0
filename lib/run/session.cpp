// SPDX-License-Identifier: Apache-2.0
// The public Session: an engine with inputs and outputs by name.
#include "hg/session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/device/backend.h"
#include "lib/graph/border.h"
#include "lib/run/compiled.h"
#include "lib/run/device_choice.h"
#include "lib/run/engine.h"

namespace hg {
namespace {

std::string known_names(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) out += str_cat(out.empty() ? "" : ", ", name);
  return out;
}

// Checks an entry of SessionOptions::kernels, such as "conv=gemm".
Status check_kernel(std::string_view choice, const Registry& registry, const Gpu& gpu) {
  const size_t equals = std::min(choice.find('='), choice.size());
  const std::string_view op = choice.substr(0, equals), wanted = choice.substr(equals);
  std::vector<std::string_view> names;
  for (const KernelDef* kernel : registry.kernels(op, Device::cpu)) names.push_back(kernel->name);
  const Op* const known = registry.find(op);
  for (const KernelDef* kernel : gpu&& known != nullptr ? kernels_of(gpu, registry, *known)
                                                        : registry.kernels(op, Device::vulkan))
    names.push_back(kernel->name);
  if (names.empty())
    return invalid_argument("'", choice, "' selects no kernel: the op '", op, "' has none");
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted.substr(1)) != names.end())
    return {};
  return invalid_argument("'", choice, "' selects no kernel: ", op, " has ", known_names(names));
}

// Symbols with a range are planned for its highest size if nothing else determines them.
Status take_ranges(const Graph& graph, SessionOptions& options) {
  const std::vector<std::string> symbols = graph.symbols();
  std::vector<std::string_view> names(symbols.begin(), symbols.end());
  for (const SizeRange& range : options.ranges) {
    HG_CHECK(std::find(names.begin(), names.end(), range.symbol) != names.end(),
             "there is a range for the size '", range.symbol, "', but ",
             names.empty() ? "all sizes are fixed" : "the sizes are ", known_names(names));
    HG_CHECK(0 <= range.lowest && range.lowest <= range.highest, "the range of the size '",
             range.symbol, "' is from ", range.lowest, " to ", range.highest);
    HG_CHECK(
        std::count_if(options.ranges.begin(), options.ranges.end(),
                      [&](const SizeRange& other) { return other.symbol == range.symbol; }) == 1,
        "the size '", range.symbol, "' has two ranges");
    const bool is_given = std::any_of(options.dims.begin(), options.dims.end(),
                                      [&](const auto& dim) { return dim.first == range.symbol; });
    if (!is_given) options.dims.emplace_back(range.symbol, range.highest);
  }
  return {};
}

// Shares compiled data with other sessions of the graph.
Result<std::unique_ptr<Engine>> engine_of(const Graph& graph, const SessionOptions& options,
                                          const Registry& registry) {
  return Engine::create(graph, options, registry, Compiled::of(graph, options));
}

}  // namespace

struct Session::Body {
  std::unique_ptr<Engine> engine;
  std::vector<TensorType> output_types;  // with symbols, as the model has them
  std::string choice;                    // how Device::automatic was decided
  Log log;
  // Kept for Device::automatic until the sizes are known. The engine runs on the CPU until then.
  struct Undecided {
    Graph graph;
    SessionOptions options;
    const Registry* registry;
  };
  std::unique_ptr<Undecided> undecided;

  Status decide();
  Status move_to_gpu();
  void tell(LogLevel level, const std::string& message) const {
    if (log.write != nullptr) log.write(log.host, level, message.c_str());
  }
  void tell_plan() const;
};

void Session::Body::tell_plan() const {
  if (log.write == nullptr) return;
  const Memory memory = engine->memory();
  std::string sizes;
  for (const auto& [symbol, size] : engine->bindings().all())
    sizes += str_cat(sizes.empty() ? "" : ", ", symbol, "=", size);
  tell(LogLevel::info,
       str_cat("planned", sizes.empty() ? "" : " for ", sizes, ": ", memory.arena_bytes,
               " bytes of arena, ", memory.peak_bytes, " in all"));
  if (memory.extra_flops > 0)
    tell(LogLevel::warning, str_cat("each run computes ", memory.extra_flops,
                                    " operations again to keep memory_limit"));
}

// Called after planning.
Status Session::Body::decide() {
  if (undecided == nullptr) return {};
  DeviceChoice chosen =
      choose_device(undecided->graph, undecided->options, *undecided->registry, engine->bindings());
  choice = std::move(chosen.why);
  tell(LogLevel::info, choice);
  if (chosen.device == Device::vulkan) {
    const Bindings sizes = engine->bindings();
    HG_TRY(move_to_gpu());
    HG_TRY(engine->plan(sizes.all()));
  }
  undecided = nullptr;
  return {};
}

Status Session::Body::move_to_gpu() {
  SessionOptions options = undecided->options;
  options.device = Device::vulkan;
  HG_TRY_ASSIGN(std::unique_ptr<Engine> moved,
                engine_of(undecided->graph, options, *undecided->registry));
  for (size_t i = 0; i < engine->inputs().size(); ++i)
    if (const Tensor& tensor = engine->inputs()[i]; tensor.data != nullptr)
      HG_TRY(moved->set_input(static_cast<int>(i), tensor));
  for (size_t i = 0; i < engine->bound_outputs().size(); ++i)
    HG_TRY(moved->set_output(static_cast<int>(i), engine->bound_outputs()[i]));
  engine = std::move(moved);
  return {};
}

Session::Session(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::create(const Model& model, SessionOptions options) {
  return or_no_memory([&]() -> Result<Session> {
    HG_CHECK(options.states == nullptr || options.device == Device::cpu,
             "sessions share states on the CPU only; set SessionOptions::device to cpu");
    Status no_gpu;
    if (options.device == Device::cpu) {
      options.gpu = {};
    } else if (!options.gpu) {
      Result<Gpu> gpu = Gpu::open({.name = options.gpu_name});
      if (gpu.ok())
        options.gpu = *std::move(gpu);
      else
        no_gpu = gpu.status();
    }
    if (options.device == Device::vulkan) HG_TRY(no_gpu);
    const std::pair<const char*, int64_t> limits[] = {{"threads", options.threads},
                                                      {"memory_limit", options.memory_limit},
                                                      {"most_rounds", options.most_rounds}};
    for (const auto& [name, value] : limits)
      HG_CHECK(value >= 0, name, " is ", value, "; it must not be negative");
    std::optional<Model> entry;
    if (!options.entry.empty()) {
      HG_TRY_ASSIGN(entry, model.entry(options.entry));
    }
    const Graph& graph = std::as_const(entry ? *entry : model).graph();
    auto body = std::make_unique<Body>();
    body->log = options.log;
    for (const auto& [name, id] : graph.outputs())
      body->output_types.push_back(graph.value_info(id).type);
    const Registry& registry = options.registry != nullptr ? *options.registry : graph.registry();
    for (const std::string& choice : options.kernels)
      HG_TRY(check_kernel(choice, registry, options.gpu));
    HG_TRY(take_ranges(graph, options));
    if (options.device == Device::automatic) {
      if (options.gpu)
        body->undecided.reset(new Body::Undecided{graph, options, &registry});
      else
        body->tell(LogLevel::warning, body->choice = str_cat("on the CPU: ", no_gpu.message()));
      options.device = Device::cpu;
      options.gpu = {};
    }
    HG_TRY_ASSIGN(body->engine, engine_of(graph, options, registry));
    body->tell(LogLevel::info, str_cat("compiled ", uint64_t{graph.nodes().size()}, " nodes to ",
                                       uint64_t{body->engine->graph().nodes().size()}, " for the ",
                                       to_string(options.device)));
    Session session(std::move(body));
    if (graph.symbols().size() <= options.dims.size()) HG_TRY(session.plan());
    return session;
  });
}

Status Session::prewarm(const Model& model, SessionOptions options) {
  return or_no_memory([&]() -> Status {
    HG_CHECK(options.gpu, "prewarm needs SessionOptions::gpu");
    options.device = Device::vulkan;
    HG_TRY_ASSIGN(Session session, create(model, std::move(options)));
    return session.plan();
  });
}

Result<int> Session::find_input(std::string_view name) const {
  std::string known;
  for (int i = 0; i < input_count(); ++i)
    if (input_name(i) == name) return i;
  for (int i = 0; i < input_count(); ++i) known += str_cat(i > 0 ? ", " : "", input_name(i));
  return not_found("there is no input '", name, "'; the inputs are ", known);
}

Result<int> Session::find_output(std::string_view name) const {
  std::string known;
  for (int i = 0; i < output_count(); ++i)
    if (output_name(i) == name) return i;
  for (int i = 0; i < output_count(); ++i) known += str_cat(i > 0 ? ", " : "", output_name(i));
  return not_found("there is no output '", name, "'; the outputs are ", known);
}

Status Session::set_input(std::string_view name, const ConstTensor& tensor) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const int index, find_input(name));
    return set_input(index, tensor);
  });
}

Status Session::set_input(int index, const ConstTensor& tensor) {
  return or_no_memory([&]() -> Status {
    if (index < 0 || index >= input_count())
      return not_found("there is no input ", index, "; the model has ", input_count());
    return body_->engine->set_input(index, tensor);
  });
}

Status Session::set_input(std::string_view name, const DeviceTensor& tensor) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const int index, find_input(name));
    return set_input(index, tensor);
  });
}

Status Session::set_input(int index, const DeviceTensor& tensor) {
  return or_no_memory([&]() -> Status {
    if (index < 0 || index >= input_count())
      return not_found("there is no input ", index, "; the model has ", input_count());
    if (body_->undecided != nullptr) {
      body_->choice =
          str_cat("on ", body_->undecided->options.gpu.info().name, ": an input lies there");
      HG_TRY(body_->move_to_gpu());
      body_->undecided = nullptr;
    }
    return body_->engine->set_input(index, tensor);
  });
}

Status Session::set_output(std::string_view name, const Tensor& tensor) {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const int index, find_output(name));
    return set_output(index, tensor);
  });
}

Status Session::set_output(int index, const Tensor& tensor) {
  return or_no_memory([&]() -> Status {
    if (index < 0 || index >= output_count())
      return not_found("there is no output ", index, "; the model has ", output_count());
    return body_->engine->set_output(index, tensor);
  });
}

void Session::forget_tensors() { body_->engine->forget_tensors(); }

Status Session::plan() { return plan({}); }

Status Session::plan(std::span<const std::pair<std::string, int64_t>> dims) {
  return or_no_memory([&]() -> Status {
    HG_TRY(body_->engine->plan(dims));
    HG_TRY(body_->decide());
    if (body_->engine->is_planned()) body_->tell_plan();
    return {};
  });
}

Status Session::run(std::stop_token stop, RunProgress* progress) {
  return or_no_memory([&]() -> Status {
    if (body_->undecided != nullptr) HG_TRY(plan());
    return body_->engine->run(stop, progress);
  });
}

Result<std::optional<StepRow>> Session::step() {
  return or_no_memory([&]() -> Result<std::optional<StepRow>> {
    if (body_->undecided != nullptr) HG_TRY(plan());
    return body_->engine->step();
  });
}

void Session::release_memory() { body_->engine->release_memory(); }

void Session::seed(uint64_t seed) { body_->engine->seed(seed); }

Result<Tensor> Session::output(std::string_view name) const {
  return or_no_memory([&]() -> Result<Tensor> {
    HG_TRY_ASSIGN(const int index, find_output(name));
    return output(index);
  });
}

Result<Tensor> Session::output(int index) const {
  return or_no_memory([&]() -> Result<Tensor> {
    if (index < 0 || index >= output_count())
      return not_found("there is no output ", index, "; the model has ", output_count());
    return body_->engine->output(index);
  });
}

Result<DeviceTensor> Session::device_output(std::string_view name) const {
  return or_no_memory([&]() -> Result<DeviceTensor> {
    HG_TRY_ASSIGN(const int index, find_output(name));
    return device_output(index);
  });
}

Result<DeviceTensor> Session::device_output(int index) const {
  return or_no_memory([&]() -> Result<DeviceTensor> {
    if (index < 0 || index >= output_count())
      return not_found("there is no output ", index, "; the model has ", output_count());
    return body_->engine->device_output(index);
  });
}

Result<Tensor> Session::value(std::string_view name) const {
  return or_no_memory([&]() -> Result<Tensor> {
    const Graph& graph = body_->engine->graph();
    const auto& names = GraphAccess::body(graph).names;
    const auto found = names.find(std::string(name));
    if (found != names.end()) return body_->engine->value(found->second);
    for (const State& state : graph.states())
      for (const std::string& alias : state.aliases)
        if (alias == name) return body_->engine->value(state.value);
    return not_found("there is no value '", name, "'");
  });
}

Status Session::set_value(std::string_view name, const ConstTensor& tensor) {
  return or_no_memory([&]() -> Status {
    const auto& states = body_->engine->graph().states();
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i].name == name) return body_->engine->set_state(i, tensor);
    return not_found("there is no parameter or buffer '", name, "'");
  });
}

int Session::input_count() const {
  return static_cast<int>(body_->engine->graph().inputs().size());
}
int Session::output_count() const {
  return static_cast<int>(body_->engine->graph().outputs().size());
}
std::string_view Session::input_name(int index) const {
  const Graph& graph = body_->engine->graph();
  return graph.value_info(graph.inputs()[index]).name;
}
std::string_view Session::output_name(int index) const {
  return body_->engine->graph().outputs()[index].first;
}
const TensorType& Session::input_type(int index) const {
  const Graph& graph = body_->engine->graph();
  return graph.value_info(graph.inputs()[index]).type;
}
const TensorType& Session::output_type(int index) const { return body_->output_types[index]; }

Result<Memory> Session::memory() const {
  return or_no_memory([&]() -> Result<Memory> {
    HG_CHECK(body_->engine->is_planned(),
             "the memory is not known yet: set the inputs or give `dims`, then call plan()");
    return body_->engine->memory();
  });
}
std::vector<ArenaBlock> Session::arena_blocks() const { return body_->engine->arena_blocks(); }
double Session::flops() const { return body_->engine->flops(); }
std::vector<ProfileRow> Session::profile() const { return body_->engine->profile(); }
std::vector<WaysRow> Session::ways() const { return body_->engine->ways(); }
const Graph& Session::compiled_graph() const { return body_->engine->graph(); }
std::vector<std::byte> Session::tuning() const { return body_->engine->tuning(); }

Status Session::save_packed() const {
  return or_no_memory([&] { return body_->engine->save_packed(); });
}
const Gpu& Session::gpu() const { return body_->engine->gpu(); }
std::string Session::report() const {
  const std::string choice = body_->choice.empty() ? "" : body_->choice + "\n";
  return choice + body_->engine->report();
}

}  // namespace hg
