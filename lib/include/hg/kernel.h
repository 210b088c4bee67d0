// SPDX-License-Identifier: Apache-2.0
// A kernel is one KernelDef row. `prepare` sees shapes and may fail. `run` sees pointers; it must
// not allocate or throw. An op may have several kernels, which are tried in order of preference.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hg/device.h"
#include "hg/op.h"

namespace hg {

// The state that random ops draw from. Equal states draw equal numbers.
struct RandomState {
  uint64_t seed = 0;
  uint64_t run = 0;  // number of the run within the session
};

class PrepareContext;
class RunContext;
struct DeviceInfo;  // gpu.h

struct KernelDef {
  std::string_view op;
  Device device = Device::cpu;
  std::string_view name;  // unique among the op's kernels: "gemm", "winograd"
  // Returns whether this kernel supports the call. Null: it supports every call.
  bool (*accepts)(const PrepareContext&) = nullptr;
  // Checks what infer could not, requests workspace, and packs constant inputs. May be null.
  Status (*prepare)(PrepareContext&) = nullptr;
  // Computes the outputs. Required for CPU kernels.
  void (*run)(const RunContext&) noexcept = nullptr;
  // For kDataDependent ops: sets the symbols that infer created with fresh_dim(), in that order.
  // Called before run; outputs have no memory yet.
  void (*measure)(const RunContext&, std::span<int64_t> dims) noexcept = nullptr;
  // Bit i: input i may have any strides (zero, negative, gaps). Other inputs are contiguous.
  // Outputs are always contiguous. Bit 31 also applies to all later inputs of a variadic op.
  uint32_t strided = 0;
  // Plain loops that support what no other kernel does. Tried last, and never measured by
  // SessionOptions::autotune.
  bool is_fallback = false;
  // Built-in kernels only: can be a step of a pointwise program (hg/pointwise_program.h).
  bool in_programs = false;
};
inline constexpr uint32_t kAllStrided = 0xffffffffu;

// Attributes by name. All integers are numbers, not symbols.
class KernelAttrs {
 public:
  explicit KernelAttrs(const AttrReader& attrs) : attrs_(attrs) {}
  bool has(std::string_view name) const { return attrs_.has(name); }
  bool flag(std::string_view name) const { return attrs_.flag(name); }
  int64_t integer(std::string_view name) const { return attrs_.integer(name).constant(); }
  double real(std::string_view name) const { return attrs_.real(name); }
  const std::string& string(std::string_view name) const { return attrs_.string(name); }
  DType dtype(std::string_view name) const { return attrs_.dtype(name); }
  Sizes integers(std::string_view name) const;  // at most kMaxRank
  // Any number of integers.
  std::span<const Dim> dims(std::string_view name) const { return attrs_.integers(name); }
  std::span<const double> reals(std::string_view name) const { return attrs_.reals(name); }
  int axis(std::string_view name, int rank) const;    // in [0, rank)
  Sizes axes(std::string_view name, int rank) const;  // each in [0, rank)

 private:
  AttrReader attrs_;
};

class PackCache;  // packed weights of a session

// Argument of KernelDef::accepts and prepare.
class PrepareContext {
 public:
  // A call. Kernels also create one to ask another kernel about a part of their work.
  struct Call {
    AttrReader attrs;
    // As `run` will see them. An input that is not given has rank 0.
    std::vector<Tensor> inputs = {}, outputs = {};
    std::vector<bool> given = {};   // per input
    std::vector<ValueId> ids = {};  // per input; keys of packed copies
    std::string label = {};         // for messages: "conv 'layer1.0.conv1'"
    int threads = 1;
    Precision precision = Precision::f32;
    bool low_memory = false;
    PackCache* packs = nullptr;
    const DeviceInfo* device = nullptr;  // null: the CPU
  };
  explicit PrepareContext(Call call) : call_(std::move(call)), attrs_(call_.attrs) {}

  // The op of the call, for functions that rows of several ops share, as those of a backend.
  const Op& op() const { return call_.attrs.op(); }
  int input_count() const { return static_cast<int>(call_.inputs.size()); }
  int output_count() const { return static_cast<int>(call_.outputs.size()); }
  bool has(int i) const { return i < input_count() && call_.given[i]; }
  // Shapes, dtypes and strides as `run` will see them. Data is null, except for constants and for
  // parameters that no run changes.
  const Tensor& in(int i) const { return call_.inputs[i]; }
  const Tensor& out(int i) const { return call_.outputs[i]; }
  bool is_constant(int i) const { return has(i) && in(i).data != nullptr; }
  std::span<const Tensor> inputs() const { return call_.inputs; }
  std::span<const Tensor> outputs() const { return call_.outputs; }
  const KernelAttrs& attrs() const { return attrs_; }
  int threads() const { return call_.threads; }
  Precision precision() const { return call_.precision; }
  // If true, weights are used in place: pack() returns null.
  bool low_memory() const { return call_.low_memory; }
  const std::string& label() const { return call_.label; }
  // The device of the kernel; null on the CPU.
  const DeviceInfo* device() const { return call_.device; }

  // Requests scratch memory for run(): 64-byte aligned, uninitialized.
  void set_workspace(int64_t bytes) { workspace_ = bytes; }
  int64_t workspace() const { return workspace_; }
  // Stores an object that lives as long as the plan. run() reads it with state<T>().
  template <class T>
  T& make_state(T value) {
    if constexpr (std::is_move_assignable_v<T>) {
      if (spare_ != nullptr && state_type_ == &kTypeOf<T>) {  // of the last sizes
        state_ = std::move(spare_);
        return *state<T>() = std::move(value);
      }
    }
    auto owned = std::make_shared<T>(std::move(value));
    T& reference = *owned;
    state_ = std::move(owned);
    state_type_ = &kTypeOf<T>;
    return reference;
  }
  // Returns the object stored by make_state(), which must be a T; null if there was none.
  template <class T>
  T* state() const {
    return static_cast<T*>(state_.get());
  }
  const std::shared_ptr<void>& shared_state() const { return state_; }
  // Returns memory for a packed copy of a constant input, made once for all sessions that share
  // weights. `fill` writes it later, on any thread, after kernels are prepared: it must own
  // everything it needs except the input's data. For kernels of a device, `fill` runs at once.
  // Returns null if the input is not constant, memory is exhausted, or low_memory() is true.
  void* pack(int input, std::string_view kernel, int64_t bytes,
             std::function<void(void* to)> fill) const;
  template <class... Parts>
  Status fail(const Parts&... parts) const {
    return unsupported(call_.label, ": ", str_cat(parts...));
  }

 private:
  friend struct PrepareAccess;
  template <class T>
  static constexpr char kTypeOf = 0;  // its address stands for the type

  Call call_;
  KernelAttrs attrs_;
  int64_t workspace_ = 0;
  std::shared_ptr<void> state_, spare_;  // the spare one is not in use and may be overwritten
  const char* state_type_ = nullptr;     // of `state_` or `spare_`
};

// Argument of KernelDef::run.
class RunContext {
 public:
  int input_count() const { return static_cast<int>(inputs.size()); }
  bool has(int i) const { return i < input_count() && inputs[i].data != nullptr; }
  const Tensor& in(int i) const { return inputs[i]; }
  const Tensor& out(int i) const { return outputs[i]; }
  int output_count() const { return static_cast<int>(outputs.size()); }
  template <class T>
  T* workspace() const {
    return static_cast<T*>(scratch);
  }
  template <class T>
  const T& state() const {
    return *static_cast<const T*>(prepared);
  }
  int threads() const { return parallel->threads; }

  // Calls body(begin, end) for ranges that cover [0, count), each `grain` long except the last.
  // Calls may be concurrent. The ranges depend only on count and grain, so results do not depend on
  // the number of threads.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) const {
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    const int64_t tasks = (count + grain - 1) / grain;
    if (tasks == 1 || parallel->threads <= 1) {
      for (int64_t begin = 0; begin < count; begin += grain)
        body(begin, begin + grain < count ? begin + grain : count);
      return;
    }
    struct Range {
      const Body* body;
      int64_t count, grain;
    } range{&body, count, grain};
    parallel->run(
        parallel->host, tasks,
        [](void* arg, int64_t index) {
          const Range& r = *static_cast<const Range*>(arg);
          const int64_t begin = index * r.grain;
          (*r.body)(begin, begin + r.grain < r.count ? begin + r.grain : r.count);
        },
        &range);
  }

  // Fails the run with `message`, prefixed with the node's name; the first message wins and outputs
  // are discarded. `message` must be a literal or owned by the state. For errors that depend on
  // data, such as an index out of range.
  void fail(const char* message) const {
    const char* none = nullptr;
    error->compare_exchange_strong(none, message, std::memory_order_relaxed);
  }

  // Set by the executor.
  std::span<const Tensor> inputs, outputs;  // inputs that are not given have null data and rank 0
  void* scratch = nullptr;
  const void* prepared = nullptr;
  const ParallelFor* parallel = nullptr;
  std::atomic<const char*>* error = nullptr;
  const RandomState* random = nullptr;
};

}  // namespace hg
