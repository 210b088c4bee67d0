// SPDX-License-Identifier: Apache-2.0
#include "hg/array.h"

#include <cstdlib>

namespace hg {

Array::Memory::~Memory() { std::free(own); }

Array::Array(TensorData data) {
  if (data.empty()) return;
  tensor_ = data.tensor;
  memory_ = std::make_shared<Memory>();
  memory_->owner = std::move(data.owner);
}

Result<Array> Array::allocate(DType dtype, const Sizes& shape) {
  int64_t bytes = size_of(dtype);
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes) || bytes > INT64_MAX - 64)
      return invalid_argument("a tensor of ", shape, " does not fit into memory");
  auto memory = std::make_shared<Memory>();
  memory->own = std::aligned_alloc(64, static_cast<size_t>(bytes + 64) / 64 * 64);
  if (memory->own == nullptr) return out_of_memory("no memory for a tensor of ", bytes, " bytes");
  const Tensor tensor = view(memory->own, dtype, shape);
  return Array(tensor, std::move(memory));
}

Array Array::wrap(const Tensor& tensor, std::shared_ptr<void> owner) {
  auto memory = std::make_shared<Memory>();
  memory->owner = std::move(owner);
  return Array(tensor, std::move(memory));
}

Array Array::wrap(const ConstTensor& tensor, std::shared_ptr<void> owner) {
  Array array =
      wrap(Tensor{const_cast<void*>(tensor.data), tensor.dtype, tensor.shape, tensor.strides},
           std::move(owner));
  array.memory_->read_only = true;
  return array;
}

Result<Array> Array::copy_of(const ConstTensor& tensor) {
  HG_TRY_ASSIGN(Array copy, allocate(tensor.dtype, tensor.shape));
  copy_elements(tensor, copy.tensor_);
  return copy;
}

void Array::free() {
  if (memory_ == nullptr) return;
  memory_->freed = true;
  std::free(std::exchange(memory_->own, nullptr));
  memory_->owner.reset();
}

}  // namespace hg
