// SPDX-License-Identifier: Apache-2.0
// Runs planned calls on the CPU. The time before the kernel starts is the overhead of an eager op,
// so execute() allocates nothing except results.
#include <algorithm>

#include "hg/promotion.h"
#include "lib/eager/executor.h"
#include "lib/run/extent.h"

namespace hg {
namespace {

// Kernels see this pointer for inputs without elements, because has() tests for a pointer.
alignas(64) std::byte no_elements[64];

}  // namespace

Status ExecutorBase::Body::read_numbers(std::string_view op, const PlannedCall& call,
                                        std::span<const Operand> inputs) {
  const DType dtype = number_dtype = call.numbers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind_ != Operand::Kind::number) continue;
    if (numbers.size() < inputs.size()) numbers.resize(inputs.size());
    HG_CHECK(
        write_number(inputs[i].number_, view(numbers[i].bytes.data(), dtype, {}), call.ranges[i]),
        input_label(op, i), ": the number ", inputs[i].number_.real, " does not fit a tensor of ",
        dtype);
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

// Whether kernels may write to outs[i] directly: memory in the required form that no other tensor
// of the call shares, except an input that the op may overwrite and that has exactly the same
// memory.
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
                                   std::span<const Operand> inputs, std::span<Array> results,
                                   bool given) {
  HG_CHECK(results.size() == call.outputs.size(), op, " has ",
           static_cast<int64_t>(call.outputs.size()), " outputs; ",
           static_cast<int64_t>(results.size()), " were asked for");
  HG_TRY(read_numbers(op, call, inputs));
  if (call.is_random) call.engine->set_random({options.seed, draws++});
  if (given)
    for (size_t i = 0; i < results.size(); ++i) HG_TRY(check_out(op, call.outputs[i], results[i]));
  if (session.device != Device::cpu && call.way != PlannedCall::Way::view)
    return run_on_device(call, inputs, results, given);
  if (given) {
    for (const Operand& input : inputs)  // of a view, which the CPU copies for any device
      if (input.array_ != nullptr) HG_TRY(input.array_->to_host());
    for (Array& result : results) HG_TRY(result.make_writable());
  }
  if (call.way == PlannedCall::Way::view && !given) {
    for (size_t i = 0; i < results.size(); ++i) {
      const Engine::InputView& seen = *call.outputs[i].view;
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
  return call.engine->run_on(call.in, call.out);
}

Status ExecutorBase::Body::run_general(PlannedCall& call, std::span<const Operand> inputs,
                                       std::span<Array> results, bool given) {
  Engine& engine = *call.engine;
  Status status;
  for (size_t k = 0; status.ok() && k < call.operands.size(); ++k) {
    ConstTensor tensor = tensor_of(inputs, call.operands[k]);
    if (call.extents[k] >= 0) tensor = view(tensor.data, tensor.dtype, {call.extents[k]});
    status = engine.set_input(static_cast<int>(k), tensor);
  }
  for (size_t i = 0; status.ok() && i < results.size(); ++i) {
    const PlannedCall::Output& output = call.outputs[i];
    if (!given && output.is_known) {
      Result<Array> made = Array::allocate(output.dtype, output.shape);
      status = made.status();
      if (made.ok()) results[i] = *std::move(made);
    }
    if (status.ok() && output.is_known)
      status = engine.set_output(static_cast<int>(i), results[i].tensor());
  }
  if (status.ok()) status = engine.run();
  for (size_t i = 0; status.ok() && i < results.size(); ++i) {
    if (call.outputs[i].is_known) continue;
    const Result<Tensor> made = engine.output(static_cast<int>(i));
    status = made.status();
    if (!made.ok()) break;
    Result<Array> copy = Array::copy_of(*made);
    status = copy.status();
    if (copy.ok()) results[i] = *std::move(copy);
  }
  engine.forget_tensors();
  return status;
}

}  // namespace hg
