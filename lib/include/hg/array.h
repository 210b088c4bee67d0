// SPDX-License-Identifier: Apache-2.0
// The tensor of everyday use: a handle with strides that shares the memory it looks at.
//
//   hg::Array a = hg::Array::wrap(hg::view(pixels, {3, 224, 224}));  // borrowed, not copied
//   HG_TRY_ASSIGN(hg::Array row, a.select(1, 0));                    // the same memory
//
// Tensor and ConstTensor (hg/tensor.h) are what functions and kernels see of memory; TensorData is
// the contiguous memory of a model's weights. An Array turns into each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

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
  // A contiguous copy with memory of its own.
  static Result<Array> copy_of(const ConstTensor& tensor);
  // Releases the memory now, for this array and all that share it: using them is an error from then
  // on. Borrowed memory is the caller's, and only let go of.
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
  const Sizes& strides() const { return tensor_.strides; }
  int rank() const { return tensor_.rank(); }
  int64_t count() const { return tensor_.count(); }
  int64_t bytes() const { return tensor_.bytes(); }  // of the elements, without gaps
  bool is_contiguous() const { return tensor_.is_contiguous(); }
  // The view of the memory, which ends with free(): from then on as() gives null.
  const Tensor& tensor() const { return tensor_; }
  operator ConstTensor() const { return tensor_; }  // NOLINT: implicit
  template <class T>
  T* as() const {
    return is_freed() ? nullptr : tensor_.as<T>();
  }

 private:
  friend class ExecutorBase;
  friend struct ArrayAccess;  // lib/array/access.h
  // What all views of one piece of memory share.
  struct Memory {
    std::shared_ptr<void> owner;  // null: borrowed, or `own`
    void* own = nullptr;
    bool freed = false;
    bool read_only = false;

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

}  // namespace hg
