// SPDX-License-Identifier: Apache-2.0
// Calls of ops: the key of a call, its plan, and its run. What stands between a call and its
// kernel is the cost of an eager op, so run() and execute() allocate nothing but results.
#include "lib/eager/executor.h"

#include <algorithm>
#include <cmath>

#include "lib/graph/access.h"
#include "lib/graph/element.h"
#include "lib/run/extent.h"

namespace hg {
namespace {

bool is_contiguous(const Sizes& shape, const Sizes& strides) {
  int64_t expected = 1;
  bool dense = true;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) dense = false;
    expected *= shape[i];
  }
  return dense;
}

// What kernels see in the place of an input without elements: has() asks for a pointer.
alignas(64) std::byte no_elements[64];

}  // namespace

// -- What a call is planned by --------------------------------------------------------------------

std::string ExecutorBase::Body::input_label(std::string_view op, size_t i) const {
  const Op* const found = registry->find(op);
  if (found == nullptr || found->signature.inputs.empty())
    return text(op, ": input ", static_cast<int64_t>(i));
  const auto& names = found->signature.inputs;
  return text(op, ": input '", names[std::min(i, names.size() - 1)].name, "'");
}

DType ExecutorBase::Body::dtype_of_numbers(std::span<const Operand> inputs) {
  for (const Operand& input : inputs)
    if (input.kind_ == Operand::Kind::tensor) return input.dtype_;
  return f32;
}

Status ExecutorBase::Body::describe(std::string_view op, std::span<const Operand> inputs, size_t i,
                                    DType numbers, CallKey& key) const {
  const Operand& input = inputs[i];
  const auto kind = static_cast<uint64_t>(input.kind_);
  if (input.failed_ != nullptr) [[unlikely]]
    return input.failed_->status();
  if (input.kind_ != Operand::Kind::tensor) {
    key.add(kind | static_cast<uint64_t>(numbers) << 8);
    return {};
  }
  const Sizes& shape = *input.shape_;
  if (input.array_ != nullptr && input.array_->is_freed()) [[unlikely]]
    return invalid_argument(input_label(op, i), " of shape ", shape, " was freed");
  if (input.data_ == nullptr && shape.count() > 0) [[unlikely]]
    return invalid_argument(input_label(op, i), " of shape ", shape, " has null data");
  const bool contiguous = is_contiguous(shape, *input.strides_);
  key.add(kind | uint64_t{contiguous} << 4 | static_cast<uint64_t>(input.dtype_) << 8 |
          shape.size() << 16);
  key.add(shape);
  if (!contiguous) key.add(*input.strides_);
  return {};
}

Result<PlannedCall*> ExecutorBase::Body::planned(std::string_view op,
                                                 std::span<const Operand> inputs,
                                                 std::span<const Argument> attrs, DType numbers) {
  CallKey key;
  key.add(op);
  for (const Argument& attr : attrs) key.add(attr.value);
  key.add(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) HG_TRY(describe(op, inputs, i, numbers, key));
  const uint64_t hash = key.hash();
  if (PlannedCall* const known = cache.find(key.words(), hash)) [[likely]] {
    ++counters.hits;
    return known;
  }
  HG_TRY_ASSIGN(PlannedCall call, plan(op, inputs, attrs, numbers));
  ++counters.plans;
  return &cache.add(key.words(), hash, std::move(call));
}

// An input with gaps is its memory as a line, looked at with its strides, so that kernels that take
// strides read it where it lies; negative strides are copied.
Value ExecutorBase::Body::add_input(const Operand& input, const std::string& name, DType numbers,
                                    Graph& graph, PlannedCall& call) {
  call.extents.push_back(-1);
  if (input.kind_ == Operand::Kind::number) return graph.input(name, numbers, {});
  const Sizes &shape = *input.shape_, &strides = *input.strides_;
  const bool is_dense = is_contiguous(shape, strides);
  const bool is_backwards =
      std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; });
  if (is_dense || is_backwards) {
    call.is_read_in_place &= is_dense;
    return graph.input(name, input.dtype_, to_shape(shape));
  }
  int64_t& extent = call.extents.back() = 1;
  for (int d = 0; d < shape.rank(); ++d) extent += (shape[d] - 1) * strides[d];
  return graph.call("as_strided", {graph.input(name, input.dtype_, {extent})},
                    {{"size", std::vector<Dim>(shape.begin(), shape.end())},
                     {"stride", std::vector<Dim>(strides.begin(), strides.end())}});
}

// A graph of the one op.
Result<PlannedCall> ExecutorBase::Body::plan(std::string_view op, std::span<const Operand> inputs,
                                             std::span<const Argument> attrs, DType numbers) const {
  const Op* const found = registry->find(op);
  if (found != nullptr && (found->def.traits & kControl))
    return unsupported(op, " runs subgraphs, which a call cannot give; build a Graph");
  Graph graph(*registry);
  PlannedCall call;
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind_ == Operand::Kind::none) {
      values.emplace_back();
      continue;
    }
    std::string name = text("input_", static_cast<int64_t>(i));
    if (found != nullptr && i < found->signature.inputs.size() &&
        !found->signature.inputs[i].variadic)
      name = found->signature.inputs[i].name;
    call.operands.push_back(i);
    values.push_back(add_input(inputs[i], name, numbers, graph, call));
  }
  NamedAttrs named;
  for (const Argument& attr : attrs) named.push_back({attr.name, attr.attr()});
  const std::vector<Value> results = graph.calls(op, values, named);
  HG_TRY(graph.status());
  for (const Value& result : results) {
    graph.output("", result);
    PlannedCall::Output& output = call.outputs.emplace_back();
    output.dtype = result.dtype();
    output.is_known = std::all_of(result.shape().begin(), result.shape().end(),
                                  [](const Dim& dim) { return dim.is_constant(); });
    for (const Dim& dim : result.shape())
      if (output.is_known) output.shape.push_back(dim.constant());
  }
  HG_TRY_ASSIGN(call.program, Program::create(std::move(graph), session, *registry));
  HG_TRY(call.program->plan({}));
  choose_way(call);
  return call;
}

void ExecutorBase::Body::choose_way(PlannedCall& call) {
  for (const Node& node : call.program->graph().nodes())
    call.is_random |= (node.op->def.traits & kRandom) != 0;
  bool all_views = true;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    call.outputs[i].view = call.program->view_of_input(i);
    all_views &= call.outputs[i].view.has_value();
    for (size_t k = 0; k < call.operands.size(); ++k)
      call.outputs[i].may_overwrite.push_back(call.program->may_overwrite(i, k));
  }
  if (call.is_read_in_place && all_views)
    call.way = PlannedCall::Way::view;
  else if (call.is_read_in_place && call.program->can_run_on())
    call.way = PlannedCall::Way::direct;
  call.in.resize(call.operands.size());
  call.out.resize(call.outputs.size());
}

// -- Running --------------------------------------------------------------------------------------

Status ExecutorBase::Body::read_numbers(std::string_view op, std::span<const Operand> inputs,
                                        DType dtype) {
  number_dtype = dtype;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind_ != Operand::Kind::number) continue;
    if (numbers.size() < inputs.size()) numbers.resize(inputs.size());
    const Tensor number = view(numbers[i].bytes.data(), dtype, {});
    const double value = inputs[i].number_;
    HG_CHECK(is_float(dtype) || is_complex(dtype) ||
                 (value == std::floor(value) && std::abs(value) <= 0x1p53),
             input_label(op, i), ": the number ", value, " does not fit a tensor of ", dtype);
    set_element(number, 0, value);
    HG_CHECK(is_float(dtype) || element(number, 0) == value, input_label(op, i), ": the number ",
             value, " does not fit a tensor of ", dtype);
  }
  return {};
}

ConstTensor ExecutorBase::Body::tensor_of(std::span<const Operand> inputs, size_t i) const {
  const Operand& input = inputs[i];
  if (input.kind_ == Operand::Kind::number)
    return view(static_cast<const void*>(numbers[i].bytes.data()), number_dtype, {});
  return {input.data_, input.dtype_, *input.shape_, *input.strides_};
}

Status ExecutorBase::Body::check_out(std::string_view op, const PlannedCall::Output& output,
                                     const Array& out) const {
  HG_CHECK(output.is_known, op,
           ": the size of its result depends on the data, so that it cannot be written to an array "
           "that is there");
  HG_CHECK(!out.is_empty(), op, ": the array to write to is empty");
  HG_CHECK(!out.is_freed(), op, ": the array to write to, of shape ", out.shape(), ", was freed");
  HG_CHECK(!out.is_read_only(), op, ": the array to write to, of shape ", out.shape(),
           ", is read only");
  HG_CHECK(out.dtype() == output.dtype && out.shape() == output.shape, op, ": the result is ",
           output.dtype, output.shape, ", the array to write to is ", out.dtype(), out.shape());
  return {};
}

// Whether kernels may write to outs[i]: memory as they take it, which no other tensor of the call
// shares, but an input that the op may overwrite and that lies exactly there.
bool ExecutorBase::Body::may_write_to(const PlannedCall& call, std::span<const Operand> inputs,
                                      std::span<const Array> outs, size_t i) const {
  const Tensor& out = outs[i].tensor();
  if (!out.is_contiguous() || reinterpret_cast<std::uintptr_t>(out.data) % 64 != 0) return false;
  const Extent extent = extent_of(out);
  for (size_t k = 0; k < outs.size(); ++k)
    if (k != i && extent.overlaps(extent_of(outs[k].tensor()))) return false;
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const Operand& input = inputs[call.operands[k]];
    if (input.kind_ != Operand::Kind::tensor ||
        !extent.overlaps(extent_of(tensor_of(inputs, call.operands[k]))))
      continue;
    if (input.data_ != out.data || !call.outputs[i].may_overwrite[k]) return false;
  }
  return true;
}

Status ExecutorBase::Body::execute(std::string_view op, PlannedCall& call,
                                   std::span<const Operand> inputs, DType numbers_dtype,
                                   std::span<Array> results, bool given) {
  HG_CHECK(results.size() == call.outputs.size(), op, " has ",
           static_cast<int64_t>(call.outputs.size()), " outputs; ",
           static_cast<int64_t>(results.size()), " were asked for");
  HG_TRY(read_numbers(op, inputs, numbers_dtype));
  if (call.is_random) call.program->set_random({options.seed, draws++});
  if (given)
    for (size_t i = 0; i < results.size(); ++i) HG_TRY(check_out(op, call.outputs[i], results[i]));
  if (call.way == PlannedCall::Way::view && !given) {
    for (size_t i = 0; i < results.size(); ++i) {
      const Program::InputView& seen = *call.outputs[i].view;
      const Operand& input = inputs[call.operands[seen.input]];
      if (input.kind_ != Operand::Kind::tensor) return run_general(call, inputs, results, given);
      Tensor tensor = seen.tensor;
      tensor.data = static_cast<std::byte*>(input.data_) + seen.offset;
      if (input.array_ != nullptr)
        results[i] = Array(tensor, input.array_->memory_);
      else
        results[i] = input.is_const_ ? Array::wrap(ConstTensor(tensor)) : Array::wrap(tensor);
    }
    return {};
  }
  bool direct = call.way == PlannedCall::Way::direct;
  for (size_t i = 0; direct && given && i < results.size(); ++i)
    direct = may_write_to(call, inputs, results, i);
  if (!direct) return run_general(call, inputs, results, given);
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const size_t i = call.operands[k];
    const Operand& input = inputs[i];
    call.in[k] = input.kind_ == Operand::Kind::number ? numbers[i].bytes.data()
                 : input.data_ != nullptr             ? input.data_
                                                      : no_elements;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!given) {
      HG_TRY_ASSIGN(results[i], Array::allocate(call.outputs[i].dtype, call.outputs[i].shape));
    }
    call.out[i] = results[i].tensor().data;
  }
  return call.program->run_on(call.in, call.out);
}

Status ExecutorBase::Body::run_general(PlannedCall& call, std::span<const Operand> inputs,
                                       std::span<Array> results, bool given) {
  Program& program = *call.program;
  Status status;
  for (size_t k = 0; status.ok() && k < call.operands.size(); ++k) {
    ConstTensor tensor = tensor_of(inputs, call.operands[k]);
    if (call.extents[k] >= 0) tensor = view(tensor.data, tensor.dtype, {call.extents[k]});
    status = program.set_input(static_cast<int>(k), tensor);
  }
  for (size_t i = 0; status.ok() && i < results.size(); ++i) {
    const PlannedCall::Output& output = call.outputs[i];
    if (!given && output.is_known) {
      Result<Array> made = Array::allocate(output.dtype, output.shape);
      status = made.status();
      if (made.ok()) results[i] = *std::move(made);
    }
    if (status.ok() && output.is_known)
      status = program.set_output(static_cast<int>(i), results[i].tensor());
  }
  if (status.ok()) status = program.run();
  for (size_t i = 0; status.ok() && i < results.size(); ++i) {
    if (call.outputs[i].is_known) continue;
    const Result<Tensor> made = program.output(static_cast<int>(i));
    status = made.status();
    if (!made.ok()) break;
    Result<Array> copy = Array::copy_of(*made);
    status = copy.status();
    if (copy.ok()) results[i] = *std::move(copy);
  }
  program.forget_tensors();
  return status;
}

// -- The public side ------------------------------------------------------------------------------

Result<Device> device_named(std::string_view name) {
  for (const Device device : {Device::automatic, Device::cpu, Device::vulkan})
    if (name == name_of(device)) return device;
  if (name == "automatic") return Device::automatic;
  return invalid_argument("there is no device '", name, "'; it is cpu, vulkan or automatic");
}

ExecutorBase::ExecutorBase(std::unique_ptr<Body> body) : body_(std::move(body)) {}
ExecutorBase::ExecutorBase(ExecutorBase&&) noexcept = default;
ExecutorBase& ExecutorBase::operator=(ExecutorBase&&) noexcept = default;
ExecutorBase::~ExecutorBase() = default;

Result<ExecutorBase> ExecutorBase::create(const ExecutorOptions& options) {
  HG_CHECK(options.threads >= 0, "threads is ", options.threads, "; it must not be negative");
  auto body = std::make_unique<Body>(options);
  body->registry = options.registry != nullptr ? options.registry : &Registry::built_in();
  SessionOptions& session = body->session;
  session.threads = options.threads;
  session.parallel_for = options.parallel_for;
  if (options.device != Device::cpu) {
    Result<Gpu> gpu = Gpu::open({.name = options.gpu_name});
    if (gpu.ok()) {
      session.device = Device::vulkan;
      session.gpu = *std::move(gpu);
      body->notes.push_back(text("ops run on ", session.gpu.info().name));
    } else if (options.device == Device::vulkan) {
      return gpu.status();
    } else {
      body->notes.push_back(text("ops run on the CPU: ", gpu.status().message()));
    }
  }
  return ExecutorBase(std::move(body));
}

Status ExecutorBase::run(std::string_view op, std::span<const Operand> inputs,
                         std::span<const Argument> attrs, std::span<Array> results, bool given) {
  HG_CHECK(body_ != nullptr && !body_->is_closed, op, ": the executor is closed");
  const DType numbers = Body::dtype_of_numbers(inputs);
  HG_TRY_ASSIGN(PlannedCall* const call, body_->planned(op, inputs, attrs, numbers));
  return body_->execute(op, *call, inputs, numbers, results, given);
}

Result<Array> ExecutorBase::one(std::string_view op, std::span<const Operand> inputs,
                                std::span<const Argument> attrs) {
  Array result;
  HG_TRY(run(op, inputs, attrs, std::span(&result, 1), false));
  return result;
}

Result<std::vector<Array>> ExecutorBase::any(std::string_view op, std::span<const Operand> inputs,
                                             std::span<const Argument> attrs) {
  HG_CHECK(body_ != nullptr && !body_->is_closed, op, ": the executor is closed");
  const DType numbers = Body::dtype_of_numbers(inputs);
  HG_TRY_ASSIGN(PlannedCall* const call, body_->planned(op, inputs, attrs, numbers));
  std::vector<Array> results(call->outputs.size());
  HG_TRY(body_->execute(op, *call, inputs, numbers, results, false));
  return results;
}

Result<Array> ExecutorBase::call(std::string_view op, std::span<const Operand> inputs,
                                 const NamedAttrs& attrs) {
  HG_TRY_ASSIGN(std::vector<Array> results, calls(op, inputs, attrs));
  HG_CHECK(results.size() == 1, op, " has ", static_cast<int64_t>(results.size()),
           " outputs; calls() returns them all");
  return std::move(results[0]);
}

Result<std::vector<Array>> ExecutorBase::calls(std::string_view op, std::span<const Operand> inputs,
                                               const NamedAttrs& attrs) {
  return call_named(op, inputs, attrs, {});
}

// Results of their own without `outs`.
Result<std::vector<Array>> ExecutorBase::call_named(std::string_view op,
                                                    std::span<const Operand> inputs,
                                                    const NamedAttrs& attrs,
                                                    std::span<Array> outs) {
  HG_CHECK(body_ != nullptr && !body_->is_closed, op, ": the executor is closed");
  const Op* const found = body_->registry->find(op);
  if (found == nullptr) {
    const std::string_view near = body_->registry->closest(op);
    return unsupported("the op '", op, "' is not registered",
                       near.empty() ? "" : text("; did you mean '", near, "'?"));
  }
  HG_TRY_ASSIGN(const std::vector<Attr> values, GraphAccess::normalize_attrs(*found, attrs));
  std::vector<std::vector<int64_t>> lists(values.size());
  std::vector<Argument> arguments;
  for (size_t i = 0; i < values.size(); ++i) {
    HG_TRY(GraphAccess::check_attr(*found, i, values[i]));
    HG_TRY_ASSIGN(Argument argument,
                  Argument::of(found->signature.attributes[i].name, values[i], lists[i]));
    arguments.push_back(argument);
  }
  if (outs.empty()) return any(op, inputs, arguments);
  HG_TRY(run(op, inputs, arguments, outs, true));
  return std::vector<Array>(outs.begin(), outs.end());
}

void ExecutorBase::close() {
  if (body_ == nullptr) return;
  body_->cache.clear();
  body_->is_closed = true;
}

void ExecutorBase::seed(uint64_t seed) {
  if (body_ == nullptr) return;
  body_->options.seed = seed;
  body_->draws = 0;
}

Device ExecutorBase::device() const {
  return body_ != nullptr ? body_->session.device : Device::cpu;
}

const std::vector<std::string>& ExecutorBase::notes() const {
  static const std::vector<std::string> kNone;
  return body_ != nullptr ? body_->notes : kNone;
}

ExecutorCounters ExecutorBase::counters() const {
  if (body_ == nullptr) return {};
  ExecutorCounters counters = body_->counters;
  counters.evicted = body_->cache.evicted();
  return counters;
}

Result<Array> IntoBase::call(std::string_view op, std::span<const Operand> inputs,
                             const NamedAttrs& attrs) {
  HG_TRY_ASSIGN(std::vector<Array> results, executor_->call_named(op, inputs, attrs, outs_));
  return std::move(results[0]);
}

Result<Array> IntoBase::one(std::string_view op, std::span<const Operand> inputs,
                            std::span<const Argument> attrs) {
  HG_TRY(executor_->run(op, inputs, attrs, outs_, true));
  return outs_[0];
}

Result<std::vector<Array>> IntoBase::any(std::string_view op, std::span<const Operand> inputs,
                                         std::span<const Argument> attrs) {
  HG_TRY(executor_->run(op, inputs, attrs, outs_, true));
  return std::vector<Array>(outs_.begin(), outs_.end());
}

}  // namespace hg
