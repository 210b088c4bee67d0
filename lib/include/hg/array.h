// SPDX-License-Identifier: Apache-2.0
// The tensor of everyday use: a handle with strides that shares the memory it looks at.
//
//   HG_TRY_ASSIGN(hg::Array a, hg::Array::wrap(std::span(pixels), {3, 224, 224}));  // not copied
//   HG_TRY_ASSIGN(hg::Array row, a.select(1, 0));                                   // the same
//   memory
//
// Tensor and ConstTensor (hg/tensor.h) are what functions and kernels see of memory; TensorData is
// the contiguous memory of a model's weights. An Array turns into each of them.
//
// Memory may have a copy on a device. Which of the two is up to date is known, so that nothing
// moves twice: reading on a side brings that side up to date, writing on a side makes the other one
// old. Arrays that share memory are used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "hg/gpu.h"
#include "hg/status.h"
#include "hg/tensor.h"

namespace hg {

class Array {
 public:
  Array() = default;       // empty: stands for an optional tensor that is not given
  Array(TensorData data);  // NOLINT: implicit; shares the bytes

  // -- Memory -------------------------------------------------------------------------------------

  // 64-byte aligned memory of its own, with undefined contents. Fails with out_of_memory.
  static Result<Array> allocate(DType dtype, const Sizes& shape);
  // What the caller has, without copying. It must outlive the array and its views; with an `owner`
  // it lives as long as they do. Of const memory the array is read only.
  static Array wrap(const Tensor& memory, std::shared_ptr<void> owner = nullptr);
  static Array wrap(const ConstTensor& memory, std::shared_ptr<void> owner = nullptr);
  // Fails when the shape has another number of elements.
  template <class T>
  static Result<Array> wrap(std::span<T> data, const Sizes& shape) {
    HG_CHECK(static_cast<int64_t>(data.size()) == shape.count(), "a span of ",
             static_cast<int64_t>(data.size()), " elements is no tensor of shape ", shape);
    return wrap(view(data, shape));
  }
  // A contiguous copy with memory of its own.
  static Result<Array> copy_of(const ConstTensor& tensor);
  // Releases the memory now, on every side, for this array and all that share it: using them is an
  // error from then on. Borrowed memory is the caller's, and only let go of.
  void free();

  // Neither empty nor freed.
  explicit operator bool() const { return memory_ != nullptr && !memory_->freed; }
  bool is_empty() const { return memory_ == nullptr; }
  bool is_freed() const { return memory_ != nullptr && memory_->freed; }
  bool is_read_only() const { return memory_ != nullptr && memory_->read_only; }
  bool shares_memory_with(const Array& other) const {
    return memory_ != nullptr && memory_ == other.memory_;
  }

  // -- What it is ---------------------------------------------------------------------------------

  DType dtype() const { return tensor_.dtype; }
  const Sizes& shape() const { return tensor_.shape; }
  const Sizes& strides() const { return tensor_.strides; }  // in elements
  int rank() const { return tensor_.rank(); }
  int64_t count() const { return tensor_.count(); }
  int64_t bytes() const { return tensor_.bytes(); }  // of the elements, without gaps
  bool is_contiguous() const { return tensor_.is_contiguous(); }

  // -- Elements on the host -----------------------------------------------------------------------

  // The view of the host's memory, whatever is up to date. It ends with free().
  const Tensor& tensor() const { return tensor_; }
  // The same where the host is up to date and the memory not freed; else with null data.
  operator ConstTensor() const {  // NOLINT: implicit
    ConstTensor seen = tensor_;
    if (!is_on_host()) seen.data = nullptr;
    return seen;
  }
  // The first element; null where operator ConstTensor has null data.
  template <class T>
  const T* as() const {
    return is_on_host() ? tensor_.as<T>() : nullptr;
  }
  // The first element to be written, which makes a copy on a device old; null of a read-only array.
  template <class T>
  T* write() {
    if (!is_on_host() || is_read_only()) return nullptr;
    touch();
    return tensor_.as<T>();
  }
  // The elements of a contiguous array of this dtype. A span of const T only reads.
  template <class T>
  Result<std::span<T>> span() {
    using Element = std::remove_const_t<T>;
    HG_CHECK(dtype() == dtype_of<Element>(), "an array of ", dtype(), " is no span of ",
             dtype_of<Element>());
    HG_CHECK(is_contiguous(), "an array of shape ", shape(), " with the strides ", strides(),
             " is not contiguous, as a span is");
    HG_CHECK(is_on_host(), "the elements are not on the host; call to_host()");
    HG_CHECK(std::is_const_v<T> || !is_read_only(), "the array is read only");
    if constexpr (!std::is_const_v<T>) touch();
    return std::span<T>(tensor_.as<T>(), static_cast<size_t>(count()));
  }
  // The host's memory was written by other means than write() or span().
  void touch() {
    if (memory_ != nullptr) memory_->device_is_current = false;
  }
  // The bytes as a model holds them: shared where the array is contiguous and owned, else a copy.
  Result<TensorData> data() const;

  // -- Views: the same memory looked at in another way --------------------------------------------

  // One size may be -1 and follows from the others. Copies where no strides fit.
  Result<Array> reshape(const Sizes& shape) const;
  Result<Array> permute(const Sizes& dims) const;
  Result<Array> transpose(int64_t dim0, int64_t dim1) const;
  // Without `dim`, at `index` of it, which may count from the end.
  Result<Array> select(int64_t dim, int64_t index) const;
  Result<Array> narrow(int64_t dim, int64_t start, int64_t length) const;
  // From `start` to before `end`, as Python's x[start:end:step]: bounds are clamped.
  Result<Array> slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1) const;
  // Sizes of 1, and missing ones in front, become those of `shape`; -1 keeps one. Elements then
  // share memory, and no op writes to them.
  Result<Array> expand(const Sizes& shape) const;
  // This array where it is contiguous, else a copy that is.
  Result<Array> contiguous() const;

  // -- Devices ------------------------------------------------------------------------------------

  bool is_on_host() const {
    return memory_ != nullptr && !memory_->freed && memory_->host_is_current;
  }
  bool is_on_device() const {
    return memory_ != nullptr && !memory_->freed && memory_->device_is_current;
  }
  // Brings a side up to date; does nothing where it is. The whole memory moves, of which this array
  // may be a part.
  Status to_device(const Gpu& gpu) const;
  Status to_host() const;
  // Several arrays in one submission.
  static Status to_device(std::span<const Array> arrays, const Gpu& gpu);

 private:
  // Before the host's memory is written by a view of it: all of it is up to date, and no other side
  // is.
  Status make_writable();
  friend class ExecutorBase;
  friend struct ArrayAccess;  // lib/array/access.h
  // What all views of one piece of memory share.
  struct Memory {
    std::byte* begin = nullptr;  // on the host
    int64_t bytes = 0;
    std::shared_ptr<void> owner;  // null: borrowed, or `own`
    void* own = nullptr;
    bool freed = false;
    bool read_only = false;
    Gpu gpu;  // where `device` lies
    std::shared_ptr<DeviceMemory> device;
    bool host_is_current = true, device_is_current = false;

    Memory() = default;
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
  };
  Array(const Tensor& tensor, std::shared_ptr<Memory> memory)
      : tensor_(tensor), memory_(std::move(memory)) {}

  Tensor tensor_;
  std::shared_ptr<Memory> memory_;
};

// As PyTorch prints a tensor: four digits, rows below each other, the middle of long dims left out.
void append_text(std::string& out, const Array& array);
std::string to_text(const Array& array);

}  // namespace hg
