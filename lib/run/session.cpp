// SPDX-License-Identifier: Apache-2.0
// The public Session: names in front of a Program.
#include "hg/session.h"

#include "lib/run/program.h"

namespace hg {
namespace {

std::string known_names(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) out += text(out.empty() ? "" : ", ", name);
  return out;
}

}  // namespace

struct Session::Body {
  std::unique_ptr<Program> program;
  std::vector<TensorType> output_types;  // with symbols, as the model has them
};

Session::Session(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::create(const Model& model, Options options) {
  if (options.device == Device::vulkan && !options.gpu) {
    HG_TRY_ASSIGN(options.gpu, Gpu::open({.name = options.gpu_name}));
  }
  HG_CHECK(options.threads >= 0, "threads is ", options.threads, "; it must not be negative");
  const Graph& graph = model.graph();
  auto body = std::make_unique<Body>();
  for (const auto& [name, id] : graph.outputs())
    body->output_types.push_back(graph.value_info(id).type);
  const Registry& registry =
      options.registry != nullptr ? *options.registry : graph.registry();
  HG_TRY_ASSIGN(body->program, Program::create(graph, options, registry));
  Session session(std::move(body));
  if (graph.symbols().size() <= options.dims.size()) HG_TRY(session.plan());
  return session;
}

Result<int> Session::find_input(std::string_view name) const {
  std::vector<std::string_view> names;
  for (int i = 0; i < input_count(); ++i) {
    if (input_name(i) == name) return i;
    names.push_back(input_name(i));
  }
  return not_found("there is no input '", name, "'; the inputs are ", known_names(names));
}

Result<int> Session::find_output(std::string_view name) const {
  std::vector<std::string_view> names;
  for (int i = 0; i < output_count(); ++i) {
    if (output_name(i) == name) return i;
    names.push_back(output_name(i));
  }
  return not_found("there is no output '", name, "'; the outputs are ", known_names(names));
}

Status Session::set_input(std::string_view name, const Tensor& tensor) {
  HG_TRY_ASSIGN(const int index, find_input(name));
  return set_input(index, tensor);
}

Status Session::set_input(int index, const Tensor& tensor) {
  if (index < 0 || index >= input_count())
    return not_found("there is no input ", index, "; the model has ", input_count());
  return body_->program->set_input(index, tensor);
}

Status Session::set_input(std::string_view name, const DeviceTensor& tensor) {
  HG_TRY_ASSIGN(const int index, find_input(name));
  return set_input(index, tensor);
}

Status Session::set_input(int index, const DeviceTensor& tensor) {
  if (index < 0 || index >= input_count())
    return not_found("there is no input ", index, "; the model has ", input_count());
  return body_->program->set_input(index, tensor);
}

Status Session::plan() { return body_->program->plan({}); }

Status Session::plan(std::span<const std::pair<std::string, int64_t>> dims) {
  return body_->program->plan(dims);
}

Status Session::run() { return body_->program->run(); }

Result<Tensor> Session::output(std::string_view name) const {
  HG_TRY_ASSIGN(const int index, find_output(name));
  return output(index);
}

Result<Tensor> Session::output(int index) const {
  if (index < 0 || index >= output_count())
    return not_found("there is no output ", index, "; the model has ", output_count());
  return body_->program->output(index);
}

Result<DeviceTensor> Session::device_output(std::string_view name) const {
  HG_TRY_ASSIGN(const int index, find_output(name));
  return device_output(index);
}

Result<DeviceTensor> Session::device_output(int index) const {
  if (index < 0 || index >= output_count())
    return not_found("there is no output ", index, "; the model has ", output_count());
  return body_->program->device_output(index);
}

Result<Tensor> Session::value(std::string_view name) const {
  const Graph& graph = body_->program->graph();
  const auto& names = GraphAccess::body(graph).names;
  const auto found = names.find(std::string(name));
  if (found != names.end()) return body_->program->value(found->second);
  for (const State& state : graph.states())
    for (const std::string& alias : state.aliases)
      if (alias == name) return body_->program->value(state.value);
  return not_found("there is no value '", name, "'");
}

int Session::input_count() const {
  return static_cast<int>(body_->program->graph().inputs().size());
}
int Session::output_count() const {
  return static_cast<int>(body_->program->graph().outputs().size());
}
std::string_view Session::input_name(int index) const {
  const Graph& graph = body_->program->graph();
  return graph.value_info(graph.inputs()[static_cast<size_t>(index)]).name;
}
std::string_view Session::output_name(int index) const {
  return body_->program->graph().outputs()[static_cast<size_t>(index)].first;
}
const TensorType& Session::input_type(int index) const {
  const Graph& graph = body_->program->graph();
  return graph.value_info(graph.inputs()[static_cast<size_t>(index)]).type;
}
const TensorType& Session::output_type(int index) const {
  return body_->output_types[static_cast<size_t>(index)];
}

Result<Memory> Session::memory() const {
  HG_CHECK(body_->program->is_planned(),
           "memory is known when the sizes are: set the inputs or give `dims`, then call plan()");
  return body_->program->memory();
}
std::vector<ArenaBlock> Session::arena_blocks() const { return body_->program->arena_blocks(); }
double Session::flops() const { return body_->program->flops(); }
std::vector<ProfileRow> Session::profile() const { return body_->program->profile(); }
const Graph& Session::compiled_graph() const { return body_->program->graph(); }
const Gpu& Session::gpu() const { return body_->program->gpu(); }
std::string Session::report() const { return body_->program->report(); }

}  // namespace hg
