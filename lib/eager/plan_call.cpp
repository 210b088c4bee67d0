// SPDX-License-Identifier: Apache-2.0
// What a call is planned by, and its plan.
#include <algorithm>
#include <optional>

#include "lib/eager/executor.h"
#include "lib/graph/access.h"

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

// bool, integers, floats.
int standing(DType dtype) { return dtype == boolean ? 0 : is_integer(dtype) ? 1 : 2; }

// torch's result_type of tensors: those without dims only count where they stand higher than all
// that have some. Nothing where there is none for these inputs.
std::optional<DType> common_dtype(std::span<const Value> values) {
  std::optional<DType> of[2];  // without dims, with dims
  for (const Value& value : values) {
    if (!value) continue;
    if (is_complex(value.dtype())) return {};
    std::optional<DType>& known = of[value.rank() > 0];
    known = known ? promote(*known, value.dtype()) : value.dtype();
  }
  if (!of[0] || !of[1]) return of[0] ? of[0] : of[1];
  return standing(*of[0]) > standing(*of[1]) ? promote(*of[0], *of[1]) : *of[1];
}

// The inputs of an op that takes one dtype, in the one that they have in common. A condition stays.
bool promote_inputs(const Op& op, std::vector<Value>& values) {
  const uint32_t alike = kElementwise | kConcatenation;
  if ((op.def.traits & alike) == 0) return false;
  const size_t first = op.signature.find_input("condition") == 0 ? 1 : 0;
  if (values.size() <= first) return false;
  const std::span<Value> own = std::span(values).subspan(first);
  const std::optional<DType> common = common_dtype(own);
  bool changes = false;
  for (Value& value : own) {
    if (!common || !value || value.dtype() == *common) continue;
    value = value.graph()->call("cast", {value}, {{"dtype", *common}});
    changes = true;
  }
  return changes;
}

}  // namespace

std::string ExecutorBase::Body::input_label(std::string_view op, size_t i) const {
  const Op* const found = registry->find(op);
  if (found == nullptr || found->signature.inputs.empty())
    return str_cat(op, ": input ", static_cast<int64_t>(i));
  const auto& names = found->signature.inputs;
  return str_cat(op, ": input '", names[std::min(i, names.size() - 1)].name, "'");
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
  if (input.array_ != nullptr && !input.array_->memory_->host_is_current &&
      session.device == Device::cpu) [[unlikely]]
    HG_TRY(input.array_->to_host());
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
    std::string name = str_cat("input_", static_cast<int64_t>(i));
    if (found != nullptr && i < found->signature.inputs.size() &&
        !found->signature.inputs[i].variadic)
      name = found->signature.inputs[i].name;
    call.operands.push_back(i);
    values.push_back(add_input(inputs[i], name, numbers, graph, call));
  }
  NamedAttrs named;
  for (const Argument& attr : attrs) named.push_back({attr.name, attr.attr()});
  std::vector<Value> results = graph.calls(op, values, named);
  if (!graph.status().ok() && found != nullptr) {
    const Status refused = graph.take_status();
    if (!promote_inputs(*found, values)) return refused;
    results = graph.calls(op, values, named);
  }
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
  if (session.device != Device::cpu && found->def.view != nullptr) {
    // No kernel runs where the result is a view, whatever the device.
    HG_TRY_ASSIGN(call.program, Program::create(graph, {}, *registry));
    HG_TRY(call.program->plan({}));
    choose_way(call);
    if (call.way == PlannedCall::Way::view) return call;
  }
  HG_TRY_ASSIGN(call.program, Program::create(std::move(graph), session, *registry));
  HG_TRY(call.program->plan({}));
  choose_way(call);
  return call;
}

void ExecutorBase::Body::choose_way(PlannedCall& call) {
  call.is_random = false;
  for (const Node& node : call.program->graph().nodes())
    call.is_random |= (node.op->def.traits & kRandom) != 0;
  bool all_views = true;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    call.outputs[i].may_overwrite.clear();
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

}  // namespace hg
