// SPDX-License-Identifier: Apache-2.0
// Runs planned calls on a device. Arrays stay there.
#include <algorithm>

#include "lib/device/backend.h"
#include "lib/eager/executor.h"

namespace hg {

Status ExecutorBase::Body::set_device_input(Engine& engine, const PlannedCall& call,
                                            std::span<const Operand> inputs, size_t k) {
  const Operand& input = inputs[call.operands[k]];
  ConstTensor tensor = tensor_of(inputs, call.operands[k]);
  if (call.extents[k] >= 0) tensor = view(tensor.data, tensor.dtype, {call.extents[k]});
  const auto index = static_cast<int>(k);
  if (input.array_ == nullptr || tensor.count() == 0) return engine.set_input(index, tensor);
  if (!tensor.is_contiguous()) {  // negative strides: copied by the host
    HG_TRY(input.array_->to_host());
    return engine.set_input(index, tensor);
  }
  HG_TRY(input.array_->to_device(session.gpu));
  const Array::Memory& memory = *input.array_->memory_;
  return engine.set_input(index,
                          DeviceTensor{tensor.dtype, tensor.shape, memory.device,
                                       static_cast<const std::byte*>(tensor.data) - memory.begin});
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
  Backend& backend = backend_of(session.gpu);
  if (!given) {
    HG_TRY_ASSIGN(result, Array::allocate(output.is_known ? output.dtype : there->dtype,
                                          output.is_known ? output.shape : there->shape));
  }
  if (there->bytes() == 0) return {};
  Array::Memory& memory = *result.memory_;
  if (memory.device == nullptr || &backend_of(memory.gpu) != &backend ||
      (!memory.device_is_current && result.bytes() < memory.bytes)) {
    if (result.bytes() < memory.bytes) {
      HG_TRY(result.to_device(session.gpu));  // the rest of the memory must stay unchanged
    } else {
      HG_TRY_ASSIGN(memory.device, backend.allocate(std::max<int64_t>(memory.bytes, 4)));
      memory.gpu = session.gpu;
    }
  }
  DeviceWork copy;
  copy.kind = DeviceWork::Kind::copy;
  copy.label = "copy of a result";
  copy.inputs = {{there->memory, there->offset, there->bytes()}};
  copy.outputs = {{memory.device, result.tensor().as<std::byte>() - memory.begin, there->bytes()}};
  DeviceConstants none(backend);
  HG_TRY_ASSIGN(const std::unique_ptr<Recording> recording, backend.record({&copy, 1}, none));
  HG_TRY(recording->run({}));
  memory.device_is_current = true;
  memory.host_is_current = false;
  return {};
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
