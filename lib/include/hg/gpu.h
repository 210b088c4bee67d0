// SPDX-License-Identifier: Apache-2.0
// Vulkan devices: what there is, one that is open, and tensors that stay on it. A build without
// Vulkan (HG_VULKAN=OFF) has the same functions; they say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hg/tensor.h"

namespace hg {

class Backend;       // lib/device/backend.h
class DeviceMemory;  // lib/device/backend.h

struct DeviceInfo {
  enum class Type : uint8_t { discrete, integrated, virtual_gpu, software, other };

  int index = 0;  // in list_devices()
  std::string name;
  Type type = Type::other;
  std::string driver;  // its name and version
  int64_t memory_bytes = 0;             // of the largest heap that is local to the device
  int64_t max_binding_bytes = 0;        // of one tensor that a kernel reads or writes
  int64_t max_allocation_bytes = 0;
  int max_bindings = 0;                 // tensors of one kernel
  int max_workgroup = 0;                // invocations
  int64_t max_shared_bytes = 0;
  int64_t max_groups = 0;               // along the first dimension of a dispatch
  int64_t binding_alignment = 1;
  int subgroup_size = 0;
  bool subgroup_arithmetic = false;
  bool f64 = false, i64 = false;        // arithmetic
  bool storage_16 = false, storage_8 = false;
  bool f16 = false, i8 = false;         // arithmetic
  bool cooperative_matrix = false;  // 16x16 pieces of f16 with f32 sums (VK_NV_cooperative_matrix)
};
std::string_view name_of(DeviceInfo::Type type);

// All Vulkan devices of this machine, in the driver's order. Fails with `unsupported` when there is
// no Vulkan loader or no driver.
Result<std::vector<DeviceInfo>> list_devices();

// A contiguous tensor on a device. Copies share the memory. As an output of a session it is a view
// of the session's memory: the next run writes it again.
struct DeviceTensor {
  DType dtype = f32;
  Sizes shape;
  std::shared_ptr<DeviceMemory> memory;
  int64_t offset = 0;  // bytes
  int64_t bytes() const { return shape.count() * size_of(dtype); }
};

struct GpuOptions {
  // A device's index, or a part of its name. Empty: the best that is no software device.
  std::string name;
  // What Gpu::cache() gave before; ignored when damaged or from another device, driver or version.
  std::span<const std::byte> cache = {};
};

// What a device did since it was opened.
struct GpuCounters {
  int64_t uploads = 0, upload_bytes = 0;      // from the host; weights and tables included
  int64_t downloads = 0, download_bytes = 0;  // to the host
  int64_t dispatches = 0, submits = 0;
  int64_t pipelines = 0;                      // kernels made ready
};

// An open device, shared by all sessions that are given it. Copies are the same device. Any thread
// may use it.
class Gpu {
 public:
  Gpu() = default;
  static Result<Gpu> open(const GpuOptions& options = {});
  explicit operator bool() const { return backend_ != nullptr; }

  const DeviceInfo& info() const;
  GpuCounters counters() const;
  Result<DeviceTensor> upload(const ConstTensor& tensor) const;  // any strides; copied
  Result<TensorData> download(const DeviceTensor& tensor) const;
  // The kernels that were made ready, for the next process: store it and give it to open().
  Result<std::vector<std::byte>> cache() const;

 private:
  friend class Program;
  friend Backend& backend_of(const Gpu& gpu);
  std::shared_ptr<Backend> backend_;
};

}  // namespace hg
