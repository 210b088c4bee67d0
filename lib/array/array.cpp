// SPDX-License-Identifier: Apache-2.0
// Memory of arrays: allocates, wraps, shares and frees it.
#include "hg/array.h"

#include "lib/graph/border.h"
#include "lib/graph/readable.h"
#include "lib/platform/memory.h"

namespace hg {
namespace {

// The range of bytes that holds a tensor's elements.
std::pair<std::byte*, int64_t> extent_of(const Tensor& tensor) {
  if (tensor.data == nullptr || tensor.count() == 0) return {tensor.as<std::byte>(), 0};
  int64_t first = 0, last = 0;
  for (int d = 0; d < tensor.rank(); ++d)
    (tensor.strides[d] < 0 ? first : last) += (tensor.shape[d] - 1) * tensor.strides[d];
  const int64_t size = size_of(tensor.dtype);
  return {tensor.as<std::byte>() + first * size, (last - first + 1) * size};
}

}  // namespace

Array::Memory::~Memory() { free_block(own); }

Array::Array(TensorData data) {
  if (!data.empty()) *this = wrap(data.tensor, std::move(data.owner));
}

Result<Array> Array::allocate(DType dtype, const Sizes& shape) {
  return or_no_memory([&]() -> Result<Array> {
    int64_t bytes = size_of(dtype);
    for (int64_t size : shape)
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes) || bytes > INT64_MAX - 64)
        return invalid_argument("a tensor of ", shape, " does not fit into memory");
    auto memory = std::make_shared<Memory>();
    memory->own = allocate_block(static_cast<uint64_t>(bytes));
    if (memory->own == nullptr) return out_of_memory("no memory for a tensor of ", bytes, " bytes");
    memory->begin = static_cast<std::byte*>(memory->own);
    memory->bytes = bytes;
    const Tensor tensor = view(memory->own, dtype, shape);
    return Array(tensor, std::move(memory));
  });
}

Array Array::wrap(const Tensor& tensor, std::shared_ptr<void> owner) {
  auto memory = std::make_shared<Memory>();
  std::tie(memory->begin, memory->bytes) = extent_of(tensor);
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
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(is_readable(tensor), "a tensor has ", unreadable_part(tensor));
    HG_TRY_ASSIGN(Array copy, allocate(tensor.dtype, tensor.shape));
    copy_elements(tensor, copy.tensor_);
    return copy;
  });
}

void Array::free() {
  if (memory_ == nullptr) return;
  memory_->freed = true;
  memory_->device.reset();
  free_block(std::exchange(memory_->own, nullptr));
  memory_->owner.reset();
}

Result<TensorData> Array::data() const {
  return or_no_memory([&]() -> Result<TensorData> {
    HG_CHECK(*this, "an array that is empty or freed has no elements");
    HG_TRY(to_host());
    if (!is_contiguous() || (memory_->own == nullptr && memory_->owner == nullptr))
      return TensorData::copy_of(tensor_);
    return TensorData{view(tensor_.data, dtype(), shape()),
                      std::shared_ptr<void>(memory_, tensor_.data)};
  });
}

Result<Array> Array::as_strided(const Sizes& shape, const Sizes& strides, int64_t offset) const {
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(*this, "an array that is empty or freed has no elements");
    HG_CHECK(shape.rank() == strides.rank(), "as_strided: ", shape, " has ", shape.rank(),
             " sizes, ", strides, " has ", strides.rank(), " strides");
    Tensor tensor{tensor_.data, dtype(), shape, strides};
    if (tensor.count() > 0) {
      const int64_t size = size_of(dtype());
      const int64_t begin = tensor_.as<std::byte>() - memory_->begin + offset * size;
      int64_t first = begin, last = begin + size;
      for (int d = 0; d < shape.rank(); ++d)
        (strides[d] < 0 ? first : last) += (shape[d] - 1) * strides[d] * size;
      HG_CHECK(first >= 0 && last <= memory_->bytes, "as_strided: shape ", shape, " with strides ",
               strides, " from element ", offset, " on leaves the memory of ", memory_->bytes,
               " bytes");
      tensor.data = memory_->begin + begin;
    }
    return Array(tensor, memory_);
  });
}

Result<Array> Array::contiguous() const {
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(*this, "an array that is empty or freed has no elements");
    if (is_contiguous()) return *this;
    HG_TRY(to_host());
    return copy_of(tensor_);
  });
}

}  // namespace hg
