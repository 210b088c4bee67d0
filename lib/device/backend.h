// SPDX-License-Identifier: Apache-2.0
// The operations of a device other than the CPU that plans need: memory, transfers and recordings.
// A recording is a sequence of device steps, made once and submitted in each run of the plan.
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

// Memory on a device, freed with its last owner.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual int64_t bytes() const = 0;
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
  const void* state = nullptr;  // made by the kernel's prepare
  std::string_view label;
  std::vector<DeviceSpan> inputs, outputs;  // a transfer has one, a copy one of each
  DeviceSpan workspace;
};

class Recording {
 public:
  virtual ~Recording() = default;
  // Runs the steps and waits. `host` holds the memory of each upload and download, in order.
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
  // Makes the kernels ready. Data that they packed becomes constant.
  virtual Result<std::unique_ptr<Recording>> record(std::span<const DeviceWork> work,
                                                    DeviceConstants& constants) = 0;
  virtual Result<std::vector<std::byte>> cache() = 0;

  MeasuredTimes measured;
  std::set<std::string> fails_self_test;  // "op=kernel": tests let these fail (self_test.h)
};

Backend& backend_of(const Gpu& gpu);  // of an open device

// Defined in lib/vulkan, or in lib/device/no_vulkan.cpp in builds without Vulkan.
Result<std::shared_ptr<Backend>> open_vulkan(const GpuOptions& options);
Result<std::vector<DeviceInfo>> list_vulkan();

}  // namespace hg
