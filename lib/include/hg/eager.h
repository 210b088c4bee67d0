// SPDX-License-Identifier: Apache-2.0
// Ops that run at once on arrays. The first call of an op with given attributes, dtypes, shapes and
// strides makes a graph of that op and plans it; later ones find the plan and only bind its memory.
// What hg/executor.h adds are methods for the ops; they and call() are the same.
//
// On a device arrays stay there: what a call reads is uploaded once (Array::to_device), and its
// results move to the host when they are asked for (Array::to_host), or another executor reads them
// there. Memory that is no Array is uploaded by each call.
//
// A call that fails may have written some of the memory that into() gave it.
//
// An executor is used by one thread at a time. Several may run beside each other, and arrays may go
// from one to another.
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

// The reverse of name_of(Device): "cpu", "vulkan", and "auto" or "automatic".
Result<Device> device_named(std::string_view name);

struct ExecutorOptions {
  // Device::automatic takes a device where there is one, else the CPU; notes() says which and why.
  Device device = Device::cpu;
  Gpu gpu = {};                        // the device unless it is the CPU; empty: one that it opens,
  std::string gpu_name = {};           // chosen as GpuOptions says
  int threads = 0;                     // 0: as many as OpenMP would take
  ParallelFor parallel_for = {};       // the host's own pool; then no OpenMP region is entered
  uint64_t seed = 0;                   // of random ops; equal seeds give equal sequences of calls
  size_t most_plans = 512;             // kept; of more, the one that was not used for longest goes
  const Registry* registry = nullptr;  // null: the built-in ops; it must outlive the executor
};

// One input of a call, borrowed for its duration: an array, memory of the caller's, the result of
// another call (whose failure becomes this one's), or a number, whose dtype hg/promotion.h finds. A
// default-constructed one is an optional input that is not given.
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
  // Of a tensor; null of everything else.
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
  // These behind `first`.
  std::vector<Operand> after(std::initializer_list<Operand> first) const {
    std::vector<Operand> all(first);
    all.insert(all.end(), values_.begin(), values_.end());
    return all;
  }

 private:
  std::vector<Operand> values_;
};

// How often an executor made a plan, found one, and let one go.
struct ExecutorCounters {
  int64_t plans = 0, hits = 0, evicted = 0;
};

class ExecutorBase {
 public:
  // Fails with the reason when the device is not there.
  static Result<ExecutorBase> create(const ExecutorOptions& options = {});
  ExecutorBase(ExecutorBase&&) noexcept;
  ExecutorBase& operator=(ExecutorBase&&) noexcept;
  ~ExecutorBase();

  // Any op of the registry but control flow. Inputs stand in the order of its signature; attributes
  // that are not given take their defaults. The result has memory of its own, but where an op only
  // looks at its input in another way (transpose, slice): then it shares that, as in PyTorch.
  Result<Array> call(std::string_view op, std::span<const Operand> inputs,
                     const NamedAttrs& attrs = {});
  Result<Array> call(std::string_view op, std::initializer_list<Operand> inputs,
                     const NamedAttrs& attrs = {}) {
    return call(op, std::span(inputs.begin(), inputs.size()), attrs);
  }
  // All outputs of an op that may have several.
  Result<std::vector<Array>> calls(std::string_view op, std::span<const Operand> inputs,
                                   const NamedAttrs& attrs = {});
  Result<std::vector<Array>> calls(std::string_view op, std::initializer_list<Operand> inputs,
                                   const NamedAttrs& attrs = {}) {
    return calls(op, std::span(inputs.begin(), inputs.size()), attrs);
  }

  // What the methods of hg/executor.h call: all attributes, in the order of the signature.
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

  // Ends the executor: its plans are freed, and every later call is an error.
  void close();
  // Random ops begin again as those of a new executor with this seed.
  void seed(uint64_t seed);
  Device device() const;   // cpu or vulkan
  const Gpu& gpu() const;  // empty on the CPU
  // What one should know of how the device was chosen.
  const std::vector<std::string>& notes() const;
  ExecutorCounters counters() const;

 private:
  friend class IntoBase;
  struct Body;  // lib/eager/executor.h
  explicit ExecutorBase(std::unique_ptr<Body> body);
  // By name, with attributes in any order.
  Result<std::vector<Array>> call_named(std::string_view op, std::span<const Operand> inputs,
                                        const NamedAttrs& attrs, std::span<Array> outs);
  // `results` are filled, or with `given` written to; their number must be that of the outputs.
  Status run(std::string_view op, std::span<const Operand> inputs, std::span<const Argument> attrs,
             std::span<Array> results, bool given);
  std::unique_ptr<Body> body_;
};

// Calls that write to arrays which are there: Executor::into().
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
