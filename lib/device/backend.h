// SPDX-License-Identifier: Apache-2.0
// What running a plan needs of a device that is not the CPU: memory, transfers, and recordings. A
// recording is a run of device steps, made once and submitted as often as the plan runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hg/gpu.h"
#include "hg/kernel.h"
#include "lib/device/measured_times.h"

namespace hg {

// Memory on a device, freed with the last owner.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual int64_t bytes() const = 0;
};

struct DeviceSpan {
  std::shared_ptr<DeviceMemory> memory;  // null for an absent tensor
  int64_t offset = 0;                    // of the first element, in bytes
  int64_t bytes = 0;                     // from `offset` on
  int64_t before = 0;                    // bytes below `offset`, where strides are negative
};

// Copies on the device of what never changes on the host, by address: weights and packed weights.
// Of one session.
class DeviceConstants {
 public:
  explicit DeviceConstants(Backend& backend) : backend_(&backend) {}
  Result<DeviceSpan> copy_of(const void* data, int64_t bytes);
  void forget();
  int64_t bytes() const { return bytes_; }

 private:
  Backend* backend_;
  std::map<const void*, DeviceSpan> known_;
  std::shared_ptr<DeviceMemory> chunk_;  // the last one, filled up to used_
  int64_t used_ = 0, bytes_ = 0;
};

// One step of a recording.
struct DeviceWork {
  enum class Kind : uint8_t { kernel, upload, download, copy };
  Kind kind = Kind::kernel;
  const KernelDef* kernel = nullptr;
  const void* state = nullptr;  // what its prepare made
  std::string_view label;
  std::vector<DeviceSpan> inputs, outputs;  // a transfer has one, a copy one of each
  DeviceSpan workspace;
};

class Recording {
 public:
  virtual ~Recording() = default;
  // Runs the steps and waits. `host` has the memory of each upload and download, in order.
  virtual Status run(std::span<void* const> host) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual GpuCounters counters() const = 0;
  virtual Result<std::shared_ptr<DeviceMemory>> allocate(int64_t bytes) = 0;
  // Copies and waits.
  virtual Status upload(const DeviceSpan& to, const void* from) = 0;
  virtual Status download(void* to, const DeviceSpan& from) = 0;
  // Makes the kernels ready; what they packed becomes a constant.
  virtual Result<std::unique_ptr<Recording>> record(std::span<const DeviceWork> work,
                                                    DeviceConstants& constants) = 0;
  virtual Result<std::vector<std::byte>> cache() = 0;

  MeasuredTimes measured;
  std::set<std::string> fails_self_test;  // "op=kernel": tests make these fail (self_test.h)
};

Backend& backend_of(const Gpu& gpu);  // an open one

// Of lib/vulkan, or of lib/device/no_vulkan.cpp in a build without it.
Result<std::shared_ptr<Backend>> open_vulkan(const GpuOptions& options);
Result<std::vector<DeviceInfo>> list_vulkan();

}  // namespace hg
