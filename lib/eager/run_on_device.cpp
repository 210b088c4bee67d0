// SPDX-License-Identifier: Apache-2.0
// Runs planned calls on a device. Arrays stay there.
#include <cstring>

#include "lib/array/access.h"
#include "lib/eager/executor.h"

namespace hg {

// Numbers such as learning rates repeat, and are uploaded once.
Result<DeviceTensor> ExecutorBase::Body::number_on_device(const ConstTensor& number) {
  constexpr size_t kMostNumbers = 1024;
  std::array<std::byte, 16> bits{};
  std::memcpy(bits.data(), number.data, static_cast<size_t>(size_of(number.dtype)));
  if (device_numbers.size() >= kMostNumbers) device_numbers.clear();
  DeviceTensor& known = device_numbers[{number.dtype, bits}];
  if (known.memory == nullptr) {
    HG_TRY_ASSIGN(known, session.gpu.upload(number));
  }
  return known;
}

Status ExecutorBase::Body::set_device_input(Engine& engine, const PlannedCall& call,
                                            std::span<const Operand> inputs, size_t k) {
  const Operand& input = inputs[call.operands[k]];
  ConstTensor tensor = tensor_of(inputs, call.operands[k]);
  if (call.extents[k] >= 0) tensor = view(tensor.data, tensor.dtype, {call.extents[k]});
  const auto index = static_cast<int>(k);
  if (input.kind_ == Operand::Kind::number) {
    HG_TRY_ASSIGN(const DeviceTensor number, number_on_device(tensor));
    return engine.set_input(index, number);
  }
  if (input.array_ == nullptr || tensor.count() == 0) return engine.set_input(index, tensor);
  if (!tensor.is_contiguous()) {  // negative strides: copied by the host
    HG_TRY(input.array_->to_host());
    return engine.set_input(index, tensor);
  }
  HG_TRY_ASSIGN(DeviceTensor there, input.array_->on_device(session.gpu));
  there.shape = tensor.shape;
  return engine.set_input(index, there);
}

// Copies results to device memory of their own, because the next run overwrites the engine's.
Status ExecutorBase::Body::take_from_device(Engine& engine, size_t i,
                                            const PlannedCall::Output& output, bool given,
                                            Array& result) const {
  const Result<DeviceTensor> there = engine.device_output(static_cast<int>(i));
  if (!there.ok() || (given && !result.is_contiguous())) {
    HG_TRY_ASSIGN(const Tensor made, engine.output(static_cast<int>(i)));
    if (!given) {
      HG_TRY_ASSIGN(result, Array::copy_of(made));
      return {};
    }
    HG_TRY(result.make_writable());
    copy_elements(made, result.tensor());
    return {};
  }
  if (!given) {
    HG_TRY_ASSIGN(result, Array::allocate(output.is_known ? output.dtype : there->dtype,
                                          output.is_known ? output.shape : there->shape));
  }
  return ArrayAccess::copy_on_device(*there, result, session.gpu);
}

Status ExecutorBase::Body::run_on_device(PlannedCall& call, std::span<const Operand> inputs,
                                         std::span<Array> results, bool given) {
  Engine& engine = *call.engine;
  Status status;
  for (size_t k = 0; status.ok() && k < call.operands.size(); ++k)
    status = set_device_input(engine, call, inputs, k);
  if (status.ok()) status = engine.run();
  for (size_t i = 0; status.ok() && i < results.size(); ++i)
    status = take_from_device(engine, i, call.outputs[i], given, results[i]);
  engine.forget_tensors();
  return status;
}

}  // namespace hg
