// SPDX-License-Identifier: Apache-2.0
// Runs ops immediately on arrays. The first call of an op with given attributes, dtypes, shapes and
// strides compiles and plans it. Later calls reuse the cached plan and only bind memory.
// hg/executor.h adds one method per op; each is equivalent to call().
//
// On a device, arrays stay there. An input array is uploaded once (Array::to_device). A result is
// copied to the host by Array::to_host(), or when another executor reads it there. Memory that is
// not an Array is uploaded by each call.
//
// A failed call may have written to some of the memory passed to into().
//
// Use an executor from one thread at a time. Several executors may run concurrently, and arrays may
// pass from one to another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hg/array.h"
#include "hg/call.h"
#include "hg/gpu.h"
#include "hg/graph.h"
#include "hg/kernel.h"

namespace hg {

// Parses a name: "cpu", "vulkan", "auto" or "automatic". Fails with invalid_argument for other
// names.
Result<Device> parse_device(std::string_view name);

struct ExecutorOptions {
  // Device::automatic uses a GPU if available, otherwise the CPU; notes() names the choice and
  // the reason.
  Device device = Device::cpu;
  Gpu gpu = {};                        // the device unless `device` is cpu; empty: opens one
  std::string gpu_name = {};           // selects the device to open, as GpuOptions::name
  int threads = 0;                     // 0: all processors of the process
  ParallelFor parallel_for = {};       // the host's pool; replaces the library's threads
  uint64_t seed = 0;                   // of random ops; equal seeds: equal sequences of calls
  size_t most_plans = 512;             // in the cache; the least recently used are evicted
  const Registry* registry = nullptr;  // null: built-in ops; must outlive the executor
};

// One input of a call: an array, the caller's memory, the result of another call, or a number.
// Borrowed during the call. A failed result makes this call fail with its error. The dtype of a
// number follows from the other inputs (hg/promotion.h). A default-constructed Operand is an
// optional input that is not given.
class Operand {
 public:
  Operand() = default;
  Operand(const Array& array) { set(array); }  // NOLINT: implicit, as all below
  Operand(const Result<Array>& result) {
    if (result.ok())
      set(*result);
    else
      failed_ = &result;
  }
  Operand(const Tensor& tensor)
      : kind_(Kind::tensor),
        dtype_(tensor.dtype),
        data_(tensor.data),
        shape_(&tensor.shape),
        strides_(&tensor.strides) {}
  Operand(const ConstTensor& tensor)
      : kind_(Kind::tensor),
        dtype_(tensor.dtype),
        is_const_(true),
        data_(const_cast<void*>(tensor.data)),
        shape_(&tensor.shape),
        strides_(&tensor.strides) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value) : kind_(Kind::number), number_(value) {}
  Operand(const Number& number) : kind_(Kind::number), number_(number) {}
  // The shape of an array or tensor; null for other operands.
  const Sizes* shape() const { return shape_; }

 private:
  friend class ExecutorBase;
  enum class Kind : uint8_t { none, tensor, number };
  void set(const Array& array) {
    if (array.is_empty()) return;
    kind_ = Kind::tensor;
    dtype_ = array.dtype();
    data_ = array.tensor().data;
    shape_ = &array.shape();
    strides_ = &array.strides();
    array_ = &array;
  }

  Kind kind_ = Kind::none;
  DType dtype_ = f32;
  bool is_const_ = false;
  void* data_ = nullptr;
  const Sizes* shape_ = nullptr;
  const Sizes* strides_ = nullptr;
  const Array* array_ = nullptr;
  const Result<Array>* failed_ = nullptr;
  Number number_;
};

// Any number of inputs: {a, b, c}, or a vector of arrays.
class Operands {
 public:
  Operands(std::initializer_list<Operand> values) : values_(values) {}
  Operands(const std::vector<Array>& arrays) : values_(arrays.begin(), arrays.end()) {}
  std::span<const Operand> values() const { return values_; }
  // The elements of `first`, followed by these.
  std::vector<Operand> after(std::initializer_list<Operand> first) const {
    std::vector<Operand> all(first);
    all.insert(all.end(), values_.begin(), values_.end());
    return all;
  }

 private:
  std::vector<Operand> values_;
};

// Plans created, reused and evicted by an executor.
struct ExecutorCounters {
  int64_t plans = 0, hits = 0, evicted = 0;
};

class ExecutorBase {
 public:
  // Fails if the device is not available.
  static Result<ExecutorBase> create(const ExecutorOptions& options = {});
  ExecutorBase(ExecutorBase&&) noexcept;
  ExecutorBase& operator=(ExecutorBase&&) noexcept;
  ~ExecutorBase();

  // Runs an op with one output. Any registered op except control flow. Inputs are in the order of
  // the signature, and attributes that are not given have their defaults. The result owns its
  // memory, except that a view op (transpose, slice) shares the memory of its input, as in PyTorch.
  Result<Array> call(std::string_view op, std::span<const Operand> inputs,
                     const NamedAttrs& attrs = {});
  Result<Array> call(std::string_view op, std::initializer_list<Operand> inputs,
                     const NamedAttrs& attrs = {}) {
    return call(op, std::span(inputs.begin(), inputs.size()), attrs);
  }
  // Runs an op and returns all its outputs.
  Result<std::vector<Array>> calls(std::string_view op, std::span<const Operand> inputs,
                                   const NamedAttrs& attrs = {});
  Result<std::vector<Array>> calls(std::string_view op, std::initializer_list<Operand> inputs,
                                   const NamedAttrs& attrs = {}) {
    return calls(op, std::span(inputs.begin(), inputs.size()), attrs);
  }

  // Used by the methods of hg/executor.h. `attrs` has all attributes in the order of the signature.
  Result<Array> one(std::string_view op, std::span<const Operand> inputs,
                    std::span<const Argument> attrs);
  template <size_t N>
  Result<std::array<Array, N>> several(std::string_view op, std::span<const Operand> inputs,
                                       std::span<const Argument> attrs) {
    std::array<Array, N> results;
    HG_TRY(run(op, inputs, attrs, results, false));
    return results;
  }
  Result<std::vector<Array>> any(std::string_view op, std::span<const Operand> inputs,
                                 std::span<const Argument> attrs);

  // Frees all plans. Later calls fail.
  void close();
  // Restarts random ops with `seed`, as in a new executor.
  void seed(uint64_t seed);
  Device device() const;   // cpu or vulkan
  const Gpu& gpu() const;  // empty on the CPU
  // Remarks on the choice of the device.
  const std::vector<std::string>& notes() const;
  ExecutorCounters counters() const;

 private:
  friend class IntoBase;
  struct Body;  // lib/eager/executor.h
  explicit ExecutorBase(std::unique_ptr<Body> body);
  // Attributes by name, in any order.
  Result<std::vector<Array>> call_named(std::string_view op, std::span<const Operand> inputs,
                                        const NamedAttrs& attrs, std::span<Array> outs);
  // Fills `results`, or writes to the arrays in it if `given`. Their number must equal that of the
  // outputs.
  Status run(std::string_view op, std::span<const Operand> inputs, std::span<const Argument> attrs,
             std::span<Array> results, bool given);
  std::unique_ptr<Body> body_;
};

// Calls that write to existing arrays, see Executor::into().
class IntoBase {
 public:
  IntoBase(ExecutorBase& executor, std::span<Array> outs) : executor_(&executor), outs_(outs) {}
  // As ExecutorBase::call().
  Result<Array> call(std::string_view op, std::span<const Operand> inputs,
                     const NamedAttrs& attrs = {});
  Result<Array> one(std::string_view op, std::span<const Operand> inputs,
                    std::span<const Argument> attrs);
  template <size_t N>
  Result<std::array<Array, N>> several(std::string_view op, std::span<const Operand> inputs,
                                       std::span<const Argument> attrs) {
    HG_TRY(executor_->run(op, inputs, attrs, outs_, true));
    std::array<Array, N> results;
    for (size_t i = 0; i < N; ++i) results[i] = outs_[i];
    return results;
  }
  Result<std::vector<Array>> any(std::string_view op, std::span<const Operand> inputs,
                                 std::span<const Argument> attrs);

 private:
  ExecutorBase* executor_;
  std::span<Array> outs_;
};

}  // namespace hg
