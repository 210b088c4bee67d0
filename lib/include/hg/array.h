// SPDX-License-Identifier: Apache-2.0
// The general-purpose tensor: a handle with shape and strides that shares its memory with its
// views.
//
//     std::vector<float> pixels(3 * 224 * 224);
//     HG_TRY_ASSIGN(hg::Array image, hg::Array::wrap(std::span(pixels), {3, 224, 224}));
//     HG_TRY_ASSIGN(hg::Array rows, image.select(1, 0));  // [3, 224]; shares the memory of pixels
//
// Functions and kernels take a Tensor or ConstTensor (hg/tensor.h), which are non-owning views.
// TensorData holds the contiguous weights of a model. An Array converts to each of them.
//
// The memory may have a copy on a device, and the array tracks which copy is current. Reading on
// one side updates that side first; writing on one side invalidates the other. No data is
// transferred twice.
//
// Arrays that share memory must not be used by several threads at once.
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
  Array() = default;       // empty: an optional tensor that is not given
  Array(TensorData data);  // shares the bytes; NOLINT: implicit

  // -- Memory -------------------------------------------------------------------------------------

  // Allocates uninitialized memory, aligned to 64 bytes. Fails with out_of_memory, or with
  // invalid_argument if the shape is invalid.
  static Result<Array> allocate(DType dtype, const Sizes& shape);
  // Wraps the caller's memory without copying it. Without an `owner`, the memory must outlive the
  // array and its views. With one, the array and its views keep the owner alive. Wrapping const
  // memory makes the array read-only.
  static Array wrap(const Tensor& memory, std::shared_ptr<void> owner = nullptr);
  static Array wrap(const ConstTensor& memory, std::shared_ptr<void> owner = nullptr);
  // Fails with invalid_argument if `shape` does not have data.size() elements.
  template <class T>
  static Result<Array> wrap(std::span<T> data, const Sizes& shape) {
    HG_CHECK(static_cast<int64_t>(data.size()) == shape.count(), "a span of ",
             static_cast<int64_t>(data.size()), " elements does not fit shape ", shape);
    return wrap(view(data, shape));
  }
  // Returns a contiguous copy in newly allocated memory.
  static Result<Array> copy_of(const ConstTensor& tensor);
  // Releases the memory now, on the host and on the device. All arrays that share it become freed,
  // and using them fails. Borrowed memory is released by its owner, not by this call.
  void free();

  // True if the array is neither empty nor freed.
  explicit operator bool() const { return memory_ != nullptr && !memory_->freed; }
  bool is_empty() const { return memory_ == nullptr; }
  bool is_freed() const { return memory_ != nullptr && memory_->freed; }
  // True if the memory belongs to someone else, who may write to it at any time.
  bool is_borrowed() const { return memory_ != nullptr && memory_->own == nullptr; }
  bool is_read_only() const { return memory_ != nullptr && memory_->read_only; }
  bool shares_memory_with(const Array& other) const {
    return memory_ != nullptr && memory_ == other.memory_;
  }

  // -- Properties ---------------------------------------------------------------------------------

  DType dtype() const { return tensor_.dtype; }
  const Sizes& shape() const { return tensor_.shape; }
  const Sizes& strides() const { return tensor_.strides; }  // in elements
  int rank() const { return tensor_.rank(); }
  int64_t count() const { return tensor_.count(); }
  int64_t bytes() const { return tensor_.bytes(); }  // of the elements; excludes gaps between them
  bool is_contiguous() const { return tensor_.is_contiguous(); }

  // -- Elements on the host -----------------------------------------------------------------------

  // Returns a view of the host memory, even if the device copy is newer. Invalid after free().
  const Tensor& tensor() const { return tensor_; }
  // Returns the same view if the host copy is current; otherwise a view with null data.
  operator ConstTensor() const {  // NOLINT: implicit
    ConstTensor seen = tensor_;
    if (!is_on_host()) seen.data = nullptr;
    return seen;
  }
  // Pointer to the first element, or null if the host copy is not current.
  template <class T>
  const T* as() const {
    return is_on_host() ? tensor_.as<T>() : nullptr;
  }
  // Pointer to the first element for writing; invalidates the device copy. Null if the host copy is
  // not current or the array is read-only.
  template <class T>
  T* write() {
    if (!is_on_host() || is_read_only()) return nullptr;
    touch();
    return tensor_.as<T>();
  }
  // Returns the elements of a contiguous array of dtype T. Use const T to read: a span of non-const
  // T invalidates the device copy.
  //
  // Fails with invalid_argument if the dtype differs, the array is not contiguous, or the host copy
  // is not current. A read-only array requires const T.
  template <class T>
  Result<std::span<T>> span() {
    using Element = std::remove_const_t<T>;
    HG_CHECK(dtype() == dtype_of<Element>(), "a span of ", dtype_of<Element>(),
             " was requested from an array of ", dtype());
    HG_CHECK(is_contiguous(), "a span needs a contiguous array; the shape is ", shape(),
             ", the strides are ", strides());
    HG_CHECK(is_on_host(), "the elements are not on the host; call to_host()");
    HG_CHECK(std::is_const_v<T> || !is_read_only(), "the array is read only");
    if constexpr (!std::is_const_v<T>) touch();
    return std::span<T>(tensor_.as<T>(), static_cast<size_t>(count()));
  }
  // Invalidates the device copy. Call this after writing to the host memory other than through
  // write() or span().
  void touch() {
    if (memory_ != nullptr) memory_->device_is_current = false;
  }
  // Returns the elements as TensorData: shared if the array is contiguous and owns its memory,
  // otherwise copied. Fails if the array is empty or freed.
  Result<TensorData> data() const;

  // -- Views: same memory, other shape or strides -------------------------------------------------

  // One size may be -1 and is then inferred. Copies if no strides express the new shape.
  Result<Array> reshape(const Sizes& shape) const;
  Result<Array> permute(const Sizes& dims) const;
  Result<Array> transpose(int64_t dim0, int64_t dim1) const;
  // Removes dimension `dim` by selecting `index`. Negative `dim` and `index` count from the end.
  Result<Array> select(int64_t dim, int64_t index) const;
  Result<Array> narrow(int64_t dim, int64_t start, int64_t length) const;
  // Elements [start, end) of `dim` with the given step, as x[start:end:step] in Python: bounds are
  // clamped.
  Result<Array> slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1) const;
  // Broadcasts: dimensions of size 1 and missing leading dimensions take the sizes of `shape`; -1
  // keeps a size. The expanded elements alias each other, so ops refuse to write to the result.
  Result<Array> expand(const Sizes& shape) const;
  // A view of any shape and strides, in elements, whose first element is `offset` elements after
  // that of this array. Fails if an element is outside the memory.
  Result<Array> as_strided(const Sizes& shape, const Sizes& strides, int64_t offset = 0) const;
  // Returns this array if it is contiguous, otherwise a contiguous copy.
  Result<Array> contiguous() const;

  // -- Devices ------------------------------------------------------------------------------------

  bool is_on_host() const {
    return memory_ != nullptr && !memory_->freed && memory_->host_is_current;
  }
  bool is_on_device() const {
    return memory_ != nullptr && !memory_->freed && memory_->device_is_current;
  }
  // The device that has, or last had, a copy; an empty Gpu if none had.
  Gpu gpu() const { return memory_ != nullptr ? memory_->gpu : Gpu(); }
  // Makes the copy on that side current; does nothing if it already is. Transfers the whole shared
  // memory, including parts outside this view.
  Status to_device(const Gpu& gpu) const;
  Status to_host() const;
  // Returns the copy of a contiguous array on a device, as Session::set_input takes it. Uploads it
  // if needed.
  Result<DeviceTensor> on_device(const Gpu& gpu) const;
  // Copies a tensor on a device, such as a Session::device_output(), to an array that is there.
  static Result<Array> copy_of(const DeviceTensor& tensor, const Gpu& gpu);
  // Uploads several arrays in one submission.
  static Status to_device(std::span<const Array> arrays, const Gpu& gpu);

 private:
  // Prepares for a write through this view on the host: makes the host copy current and invalidates
  // the device copy.
  Status make_writable();
  friend class ExecutorBase;
  friend struct ArrayAccess;  // lib/array/access.h
  // State shared by all views of one block of memory.
  struct Memory {
    std::byte* begin = nullptr;  // on the host
    int64_t bytes = 0;
    std::shared_ptr<void> owner;  // null: borrowed, or `own`
    void* own = nullptr;          // null if the memory is borrowed or in `own`
    bool freed = false;
    bool read_only = false;
    Gpu gpu;  // the device that holds `device`
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

// Formats as PyTorch prints tensors: 4 digits, aligned columns, long dimensions abbreviated.
void append_text(std::string& out, const Array& array);
std::string to_text(const Array& array);

}  // namespace hg
