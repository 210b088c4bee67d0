// SPDX-License-Identifier: Apache-2.0
// A device with memory of its own: derive from Backend, and open the device with
// Gpu::open_backend(). `Device::vulkan` with SessionOptions::gpu then selects it. Vulkan devices
// implement the same interface. docs/kernels.md describes how to write a backend.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hg/gpu.h"
#include "hg/kernel.h"
#include "hg/registry.h"

namespace hg {

// Memory on a device, freed with its last owner, which may outlive the session and the Gpu.
class DeviceMemory {
 public:
  explicit inline DeviceMemory(const Backend& backend);
  virtual ~DeviceMemory() = default;
  virtual int64_t bytes() const = 0;
  inline bool is_of(const Backend& backend) const;

 private:
  std::shared_ptr<const void> backend_;  // its records, which no later backend can have
};

struct DeviceSpan {
  std::shared_ptr<DeviceMemory> memory;  // null for an absent tensor
  int64_t offset = 0;                    // of the first element, in bytes
  int64_t bytes = 0;                     // from `offset` on
  int64_t before = 0;                    // bytes below `offset`, if strides are negative
};

// Device copies of host data that never changes, by address: weights and packed weights. One per
// session.
class DeviceConstants {
 public:
  explicit DeviceConstants(Backend& backend) : backend_(&backend) {}
  // Uploads the data if it has no copy yet. It must live as long as the session.
  Result<DeviceSpan> copy_of(const void* data, int64_t bytes);
  void forget();
  int64_t bytes() const { return bytes_; }

 private:
  Backend* backend_;
  std::map<const void*, DeviceSpan> known_;
  std::shared_ptr<DeviceMemory> chunk_;  // the last chunk, filled up to used_
  int64_t used_ = 0, bytes_ = 0;
};

// One step of a recording.
struct DeviceWork {
  enum class Kind : uint8_t { kernel, upload, download, copy };
  Kind kind = Kind::kernel;
  const KernelDef* kernel = nullptr;
  const void* state = nullptr;  // made by the kernel's prepare, with make_state(); may be null
  std::string_view label;       // "matmul 'hidden'"; valid during record()
  std::vector<DeviceSpan> inputs, outputs;  // a transfer has one, a copy one of each
  DeviceSpan workspace;                     // as requested by prepare; null if none was
};

// A sequence of steps, made once and run in each run of the plan. The states of its kernels exist
// in each run(), but need not exist when it is destroyed. It keeps the memory of its spans.
class Recording {
 public:
  virtual ~Recording() = default;
  // Runs the steps in order and waits. `host` holds the memory of each upload and download, in
  // order. After an error, the outputs of the run are undefined and the session may run again.
  virtual Status run(std::span<void* const> host) = 0;
};

// Functions may be called from any thread, by several sessions at the same time, and must not
// throw. An error that they return fails the call that needed them: Gpu::upload(), Session::run().
class Backend {
 public:
  Backend();
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Constant. `name` and `max_binding_bytes` must be set; a kernel is not asked about tensors that
  // are larger than that. `binding_alignment` aligns weights that share memory.
  virtual const DeviceInfo& info() const = 0;
  virtual GpuCounters counters() const { return {}; }
  // Returns at least `bytes` bytes, which are at least 1, uninitialized.
  virtual Result<std::shared_ptr<DeviceMemory>> allocate(int64_t bytes) = 0;
  // Copies and waits. `to.bytes` and `from.bytes` may be 0.
  virtual Status upload(const DeviceSpan& to, const void* from) = 0;
  virtual Status download(void* to, const DeviceSpan& from) = 0;

  // The rows for an op, in order of preference; empty if the device has none. The CPU computes
  // calls that no row accepts or that a row's prepare refuses with `unsupported`, and
  // Session::report() says so. Rows live as long as the backend and never change. Each has the op's
  // name, a name, `device = Device::vulkan` and a `prepare`, which stores what record() needs of
  // the call: shapes, dtypes, attributes. `run` is not called. `contiguous` needs a row with
  // `strided = kAllStrided`. Random ops and ops whose sizes depend on data run on the CPU. Before
  // its first use a row is tested against the CPU; one with wrong results is not used. A row that
  // accepts none of the test's cases is used untested; Session::report() names it.
  virtual std::span<const KernelDef* const> kernels(const Registry& registry,
                                                    const Op& op) const = 0;
  // Makes the steps ready to run. Data that kernels packed on the host becomes constant.
  virtual Result<std::unique_ptr<Recording>> record(std::span<const DeviceWork> work,
                                                    DeviceConstants& constants) = 0;
  // Returns what makes a later start faster, such as compiled kernels; may be empty.
  virtual Result<std::vector<std::byte>> cache() { return std::vector<std::byte>(); }

  struct Records;  // of self-tests and measurements; for the library
  Records& records() const { return *records_; }

 private:
  friend class DeviceMemory;
  std::shared_ptr<Records> records_;
};

DeviceMemory::DeviceMemory(const Backend& backend) : backend_(backend.records_) {}
bool DeviceMemory::is_of(const Backend& backend) const { return backend_ == backend.records_; }

}  // namespace hg
