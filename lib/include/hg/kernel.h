// SPDX-License-Identifier: Apache-2.0
// What a CPU kernel is: one KernelDef row. `prepare` knows shapes and may fail; `run` knows
// pointers, allocates nothing and throws nothing. Several kernels may serve one op, best first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/op.h"

namespace hg {

enum class Device : uint8_t { automatic, cpu, vulkan };
std::string_view name_of(Device device);

// Runs task(arg, 0) ... task(arg, count - 1), in any order, on any threads, and returns when all
// are done. A host lends its pool by giving such a function.
struct ParallelFor {
  void (*run)(void* host, int64_t count, void (*task)(void* arg, int64_t index),
              void* arg) = nullptr;
  void* host = nullptr;
  int threads = 1;
};

// What a session may round where the model does not.
enum class Precision : uint8_t {
  f32,   // nothing
  bf16,  // constant f32 weights of products and of convolutions that are products: kept in 16 bits
         // and widened where they are used, which is an error of at most 2^-9 of each; sums are f32
};

// What random ops draw from: equal states give equal numbers.
struct RandomState {
  uint64_t seed = 0;
  uint64_t run = 0;  // counts the runs of a session
};

class PrepareContext;
class RunContext;
struct DeviceInfo;  // gpu.h

struct KernelDef {
  std::string_view op;
  Device device = Device::cpu;
  std::string_view name;  // of this variant, unique among the op's: "gemm", "winograd"
  // Whether this kernel can serve the call; null accepts everything.
  bool (*accepts)(const PrepareContext&) = nullptr;
  // Checks what infer could not, asks for workspace, packs constant inputs; may be null.
  Status (*prepare)(PrepareContext&) = nullptr;
  void (*run)(const RunContext&) noexcept = nullptr;
  // For kDataDependent ops: the values of the symbols that infer made with fresh_dim(), in order.
  // Called before run; outputs have no memory yet.
  void (*measure)(const RunContext&, std::span<int64_t> dims) noexcept = nullptr;
  // Bit i: input i may have any strides (zero, negative, gaps). Other inputs arrive contiguous.
  // Outputs are always contiguous. Inputs of a variadic op beyond bit 31 count as bit 31.
  uint32_t strided = 0;
  // Plain loops for what no other kernel takes, and slower than each of those: tried after them,
  // and never measured by SessionOptions::autotune.
  bool is_fallback = false;
  // Of the library's kernels: can be a step of a pointwise program, which computes elementwise ops,
  // and a reduction at their end, without storing what lies between them.
  bool in_programs = false;
};
inline constexpr uint32_t kAllStrided = 0xffffffffu;

// Attributes whose integers are plain numbers, by name.
class KernelAttrs {
 public:
  explicit KernelAttrs(const AttrReader& attrs) : attrs_(attrs) {}
  bool has(std::string_view name) const { return attrs_.has(name); }
  bool flag(std::string_view name) const { return attrs_.flag(name); }
  int64_t integer(std::string_view name) const { return attrs_.integer(name).constant(); }
  double real(std::string_view name) const { return attrs_.real(name); }
  const std::string& string(std::string_view name) const { return attrs_.string(name); }
  DType dtype(std::string_view name) const { return attrs_.dtype(name); }
  Sizes integers(std::string_view name) const;  // up to kMaxRank numbers
  std::span<const Dim> dims(std::string_view name) const {
    return attrs_.integers(name);
  }  // any number
  std::span<const double> reals(std::string_view name) const { return attrs_.reals(name); }
  int axis(std::string_view name, int rank) const;    // in [0, rank)
  Sizes axes(std::string_view name, int rank) const;  // each in [0, rank)

 private:
  AttrReader attrs_;
};

// Packed weights, shared by the plans of a session and by the sessions made of it.
class PackCache {
 public:
  virtual ~PackCache() = default;
  // 64-byte aligned memory that `fill` writes once for this key: at once, or else before the first
  // run, beside other fills on other threads. Null when memory is short.
  virtual void* pack(std::string_view kernel, ValueId value, int64_t bytes,
                     std::function<void(void* to)> fill, bool at_once) = 0;
};

// What a kernel's `accepts` and `prepare` see of a call.
class PrepareContext {
 public:
  // A call as it is planned, or as a kernel asks another one about a part of its own work.
  struct Call {
    AttrReader attrs;
    // As `run` will see them; an input that is not given has rank 0.
    std::vector<Tensor> inputs = {}, outputs = {};
    std::vector<bool> given = {};   // by input
    std::vector<ValueId> ids = {};  // by input: what packed copies are kept by
    std::string label = {};         // "conv 'layer1.0.conv1'"
    int threads = 1;
    Precision precision = Precision::f32;
    bool low_memory = false;
    PackCache* packs = nullptr;
    const DeviceInfo* device = nullptr;  // null: the CPU
  };
  explicit PrepareContext(Call call) : call_(std::move(call)), attrs_(call_.attrs) {}

  int input_count() const { return static_cast<int>(call_.inputs.size()); }
  int output_count() const { return static_cast<int>(call_.outputs.size()); }
  bool has(int i) const { return i < input_count() && call_.given[i]; }
  // Shapes, dtypes and strides as `run` will see them; data is null except for constants and
  // parameters that no node assigns.
  const Tensor& in(int i) const { return call_.inputs[i]; }
  const Tensor& out(int i) const { return call_.outputs[i]; }
  bool is_constant(int i) const { return has(i) && in(i).data != nullptr; }
  std::span<const Tensor> inputs() const { return call_.inputs; }
  std::span<const Tensor> outputs() const { return call_.outputs; }
  const KernelAttrs& attrs() const { return attrs_; }
  int threads() const { return call_.threads; }
  Precision precision() const { return call_.precision; }
  // Whether weights are to be used where they lie: pack() gives null.
  bool low_memory() const { return call_.low_memory; }
  const std::string& label() const { return call_.label; }
  // What a kernel that is not the CPU's will run on; null for the CPU's.
  const DeviceInfo* device() const { return call_.device; }

  // Scratch memory of run(), 64-byte aligned, contents undefined.
  void set_workspace(int64_t bytes) { workspace_ = bytes; }
  int64_t workspace() const { return workspace_; }
  // An object that lives as long as the plan; run() reads it with state<T>().
  template <class T>
  T& make_state(T value) {
    auto owned = std::make_shared<T>(std::move(value));
    T& reference = *owned;
    state_ = std::move(owned);
    return reference;
  }
  // What make_state() made, which must be a T; null before.
  template <class T>
  T* state() const {
    return static_cast<T*>(state_.get());
  }
  const std::shared_ptr<void>& shared_state() const { return state_; }
  // A packed copy of a constant input, made once for all sessions that share weights. `fill` is
  // called with the memory after this kernel and others are prepared, on any thread: it owns what
  // it needs beside the input's data. (A device's kernels see it filled at once.) Null when the
  // input is not constant, or memory is short or to be spared.
  void* pack(int input, std::string_view kernel, int64_t bytes,
             std::function<void(void* to)> fill) const {
    if (!is_constant(input) || call_.packs == nullptr || call_.low_memory) return nullptr;
    return call_.packs->pack(kernel, call_.ids[input], bytes, std::move(fill),
                             call_.device != nullptr);
  }
  template <class... Parts>
  Status fail(const Parts&... parts) const {
    return unsupported(call_.label, ": ", str_cat(parts...));
  }

 private:
  Call call_;
  KernelAttrs attrs_;
  int64_t workspace_ = 0;
  std::shared_ptr<void> state_;
};

// What a kernel's `run` sees of a call.
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

  // Calls body(begin, end) for ranges that cover [0, count), each `grain` long but the last. The
  // ranges depend on count and grain alone, so results do not depend on the number of threads.
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

  // Makes the run fail with this sentence (a literal, or text in the state) and the node's name in
  // front; what the run wrote is then not used. For what only data shows, such as an index out of
  // range.
  void fail(const char* message) const {
    const char* none = nullptr;
    error->compare_exchange_strong(none, message, std::memory_order_relaxed);
  }

  // For whoever runs.
  std::span<const Tensor> inputs, outputs;  // absent optional inputs have null data and rank 0
  void* scratch = nullptr;
  const void* prepared = nullptr;
  const ParallelFor* parallel = nullptr;
  std::atomic<const char*>* error = nullptr;
  const RandomState* random = nullptr;
};

}  // namespace hg
