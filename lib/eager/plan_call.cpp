// SPDX-License-Identifier: Apache-2.0
// Computes the key of a call and plans it.
#include <algorithm>
#include <optional>

#include "hg/promotion.h"
#include "lib/eager/executor.h"
#include "lib/graph/access.h"
#include "lib/graph/readable.h"

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

}  // namespace

std::string ExecutorBase::Body::input_label(std::string_view op, size_t i) const {
  const Op* const found = registry->find(op);
  if (found == nullptr || found->signature.inputs.empty())
    return str_cat(op, ": input ", static_cast<int64_t>(i));
  const auto& names = found->signature.inputs;
  return str_cat(op, ": input '", names[std::min(i, names.size() - 1)].name, "'");
}

Status ExecutorBase::Body::describe(std::string_view op, std::span<const Operand> inputs, size_t i,
                                    CacheKey& key) const {
  const Operand& input = inputs[i];
  const auto kind = static_cast<uint64_t>(input.kind_);
  if (input.failed_ != nullptr) [[unlikely]]
    return input.failed_->status();
  if (input.kind_ != Operand::Kind::tensor) {
    key.push_back(kind | static_cast<uint64_t>(input.number_.kind) << 8);
    return {};
  }
  const Sizes& shape = *input.shape_;
  if (input.array_ != nullptr && input.array_->is_freed()) [[unlikely]]
    return invalid_argument(input_label(op, i), " of shape ", shape, " was freed");
  if (input.array_ != nullptr && !input.array_->memory_->host_is_current &&
      session.device == Device::cpu) [[unlikely]]
    HG_TRY(input.array_->to_host());
  if (!is_readable(input.data_, shape, *input.strides_)) [[unlikely]]
    return invalid_argument(input_label(op, i), " has ", unreadable_part(shape, *input.strides_));
  const bool contiguous = is_contiguous(shape, *input.strides_);
  key.push_back(kind | uint64_t{contiguous} << 4 | static_cast<uint64_t>(input.dtype_) << 8 |
                shape.size() << 16);
  for (const int64_t size : shape) key.push_back(static_cast<uint64_t>(size));
  if (!contiguous)
    for (const int64_t stride : *input.strides_) key.push_back(static_cast<uint64_t>(stride));
  return {};
}

Result<PlannedCall*> ExecutorBase::Body::planned(std::string_view op,
                                                 std::span<const Operand> inputs,
                                                 std::span<const Argument> attrs) {
  CacheKey key;
  add_words(key, op);
  for (const Argument& attr : attrs) add_words(key, attr.value);
  key.push_back(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) HG_TRY(describe(op, inputs, i, key));
  if (PlannedCall* const known = cache.find(key)) [[likely]]
    return known;
  HG_TRY_ASSIGN(PlannedCall call, plan(op, inputs, attrs));
  return cache.add(key, std::move(call)).get();
}

// Passes an input with gaps as its memory in one line, viewed with its strides. Kernels that
// support strides read it in place. Complex inputs and those with negative strides are copied.
Value ExecutorBase::Body::add_input(const Operand& input, const std::string& name, Graph& graph,
                                    PlannedCall& call) {
  call.extents.push_back(-1);
  if (input.kind_ == Operand::Kind::number) return graph.input(name, call.numbers, {});
  const Sizes &shape = *input.shape_, &strides = *input.strides_;
  const bool is_dense = is_contiguous(shape, strides);
  const bool is_copied =
      is_complex(input.dtype_) ||
      std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; });
  if (is_dense || is_copied) {
    call.is_read_in_place &= is_dense;
    return graph.input(name, input.dtype_, to_shape(shape));
  }
  int64_t& extent = call.extents.back() = 1;
  for (int d = 0; d < shape.rank(); ++d) extent += (shape[d] - 1) * strides[d];
  return graph.call("as_strided", {graph.input(name, input.dtype_, {extent})},
                    {{"size", std::vector<Dim>(shape.begin(), shape.end())},
                     {"stride", std::vector<Dim>(strides.begin(), strides.end())}});
}

// The inputs of the op as graph inputs. Numbers come last, because the other inputs decide their
// dtype.
std::vector<Value> ExecutorBase::Body::add_inputs(const Op& op, std::span<const Operand> inputs,
                                                  std::span<const std::optional<DType>> numbers,
                                                  Graph& graph, PlannedCall& call) {
  std::vector<Value> values(inputs.size());
  const auto add = [&](Operand::Kind kind) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].kind_ != kind) continue;
      const std::vector<Signature::Input>& known = op.signature.inputs;
      const bool has_name = i < known.size() && !known[i].variadic;
      call.operands.push_back(i);
      values[i] = add_input(inputs[i],
                            has_name ? known[i].name : str_cat("input_", static_cast<int64_t>(i)),
                            graph, call);
    }
  };
  add(Operand::Kind::tensor);
  call.numbers = hg::dtype_of_numbers(op, values, numbers);
  for (size_t i = 0; i < inputs.size(); ++i)
    call.ranges.push_back(number_range(op, i, call.numbers));
  add(Operand::Kind::number);
  return values;
}

// A graph of the one op.
Result<PlannedCall> ExecutorBase::Body::plan(std::string_view op, std::span<const Operand> inputs,
                                             std::span<const Argument> attrs) const {
  const Op* const found = registry->find(op);
  if (found == nullptr) return unknown_op(op);
  if (found->def.traits & kControl)
    return unsupported(op, " runs subgraphs, which a call cannot give; build a Graph");
  Graph graph(*registry);
  PlannedCall call;
  std::vector<std::optional<DType>> numbers(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].kind_ == Operand::Kind::number) numbers[i] = inputs[i].number_.kind;
  const std::vector<Value> values = add_inputs(*found, inputs, numbers, graph, call);
  NamedAttrs named;
  for (const Argument& attr : attrs) named.push_back({attr.name, attr.attr()});
  const std::vector<Value> results = promoted_calls(graph, *found, values, named, numbers);
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
    // If the result is a view, no kernel runs, on any device.
    HG_TRY_ASSIGN(call.engine, Engine::create(graph, {}, *registry));
    HG_TRY(call.engine->plan({}));
    choose_way(call);
    if (call.way == PlannedCall::Way::view) return call;
  }
  HG_TRY_ASSIGN(call.engine, Engine::create(std::move(graph), session, *registry));
  HG_TRY(call.engine->plan({}));
  choose_way(call);
  return call;
}

void ExecutorBase::Body::choose_way(PlannedCall& call) {
  call.is_random = false;
  for (const Node& node : call.engine->graph().nodes())
    call.is_random |= (node.op->def.traits & kRandom) != 0;
  bool all_views = true;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    call.outputs[i].may_overwrite.clear();
    call.outputs[i].view = call.engine->view_of_input(i);
    all_views &= call.outputs[i].view.has_value();
    for (size_t k = 0; k < call.operands.size(); ++k)
      call.outputs[i].may_overwrite.push_back(call.engine->may_overwrite(i, k));
  }
  if (call.is_read_in_place && all_views)
    call.way = PlannedCall::Way::view;
  else if (call.is_read_in_place && call.engine->can_run_on())
    call.way = PlannedCall::Way::direct;
  call.in.resize(call.operands.size());
  call.out.resize(call.outputs.size());
}

}  // namespace hg
