// SPDX-License-Identifier: Apache-2.0
// What the library adds to the public interface of a device (hg/backend.h).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hg/backend.h"
#include "lib/device/measured_times.h"

namespace hg {

struct Backend::Records {
  MeasuredTimes measured;
  std::set<std::string> fails_self_test;  // "op=kernel": tests let these fail (self_test.h)
};

// Fails if the backend cannot serve as a device: in builds without devices, always. In
// check_backend.cpp or no_vulkan.cpp.
Status check_backend(const Backend& backend);

Backend& backend_of(const Gpu& gpu);  // of an open device
// A backend's functions; it is an error if they return nothing.
inline Result<std::shared_ptr<DeviceMemory>> allocate_on(Backend& backend, int64_t bytes) {
  Result<std::shared_ptr<DeviceMemory>> memory = backend.allocate(bytes);
  if (memory.ok() && *memory == nullptr)
    return internal_error("the device '", backend.info().name, "' returned no memory");
  return memory;
}
inline Result<std::unique_ptr<Recording>> record_on(Backend& backend,
                                                    std::span<const DeviceWork> work,
                                                    DeviceConstants& constants) {
  Result<std::unique_ptr<Recording>> recording = backend.record(work, constants);
  if (recording.ok() && *recording == nullptr)
    return internal_error("the device '", backend.info().name, "' returned no recording");
  return recording;
}
// The rows of an op that plans may use on an open device.
std::span<const KernelDef* const> kernels_of(const Gpu& gpu, const Registry& registry,
                                             const Op& op);

// Defined in lib/vulkan, or in lib/device/no_vulkan.cpp in builds without Vulkan.
Result<std::shared_ptr<Backend>> open_vulkan(const GpuOptions& options);
Result<std::vector<DeviceInfo>> list_vulkan();

}  // namespace hg
