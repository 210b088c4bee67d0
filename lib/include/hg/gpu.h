// SPDX-License-Identifier: Apache-2.0
// Vulkan devices, devices of a Backend (hg/backend.h), and tensors that stay on them. Builds
// without Vulkan (HG_VULKAN=OFF) have the same functions, which fail with `unsupported`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hg/tensor.h"

namespace hg {

class Backend;       // backend.h
class DeviceMemory;  // backend.h

struct DeviceInfo {
  enum class Type : uint8_t { discrete, integrated, virtual_gpu, software, other };

  int index = 0;  // in list_devices()
  std::string name;
  Type type = Type::other;
  std::string driver;             // name and version
  int64_t memory_bytes = 0;       // of the largest device-local heap
  int64_t max_binding_bytes = 0;  // of one tensor that a kernel reads or writes
  int64_t max_allocation_bytes = 0;
  int max_bindings = 0;          // tensors per kernel
  int max_workgroup = 0;         // invocations per workgroup
  int64_t max_shared_bytes = 0;  // shared memory per workgroup
  int64_t max_groups = 0;        // workgroups along the first dim of a dispatch
  int64_t binding_alignment = 1;
  int subgroup_size = 0;
  bool subgroup_arithmetic = false;
  bool f64 = false, i64 = false;               // arithmetic
  bool storage_16 = false, storage_8 = false;  // loads and stores
  bool f16 = false, i8 = false;                // arithmetic
  bool cooperative_matrix = false;  // 16x16 f16 matrices with f32 sums (VK_NV_cooperative_matrix)
  bool integer_dot = false;         // products of four bytes (VK_KHR_shader_integer_dot_product)
};
std::string_view to_string(DeviceInfo::Type type);

// Returns all Vulkan devices, in the driver's order. Fails with `unsupported` without a Vulkan
// loader or driver.
Result<std::vector<DeviceInfo>> list_devices();

// A contiguous tensor on a device. Copies share the memory. An output of a session is a view of the
// session's memory, which the next run overwrites.
struct DeviceTensor {
  DType dtype = f32;
  Sizes shape;
  std::shared_ptr<DeviceMemory> memory;
  int64_t offset = 0;  // in bytes
  int64_t bytes() const { return shape.count() * size_of(dtype); }
};

struct GpuOptions {
  // Index of a device, or part of its name. Empty: the best hardware device; a software device must
  // be named.
  std::string name;
  // An earlier result of Gpu::cache(). Ignored if damaged, or from another device, driver or
  // library version.
  std::span<const std::byte> cache = {};
};

// Activity of a device since it was opened.
struct GpuCounters {
  int64_t uploads = 0, upload_bytes = 0;      // from the host, including weights and tables
  int64_t downloads = 0, download_bytes = 0;  // to the host
  int64_t dispatches = 0, submits = 0;
  int64_t pipelines = 0;  // compiled pipelines
};

// An open device, which sessions may share. Copies refer to the same device. Thread-safe.
class Gpu {
 public:
  Gpu() = default;
  static Result<Gpu> open(const GpuOptions& options = {});
  // A device of the application's own. Fails with `invalid_argument` if info() or a kernel row of
  // the backend lacks what backend.h requires.
  static Result<Gpu> open_backend(std::shared_ptr<Backend> backend);
  explicit operator bool() const { return backend_ != nullptr; }

  const DeviceInfo& info() const;
  GpuCounters counters() const;
  Result<DeviceTensor> upload(const ConstTensor& tensor) const;  // copies; any strides
  Result<TensorData> download(const DeviceTensor& tensor) const;
  // Returns the compiled pipelines. Store them and pass them to open() in the next process.
  Result<std::vector<std::byte>> cache() const;

 private:
  friend class Engine;
  friend Backend& backend_of(const Gpu& gpu);
  std::shared_ptr<Backend> backend_;
};

}  // namespace hg
