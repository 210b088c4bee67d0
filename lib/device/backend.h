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
// The rows of an op that plans may use on an open device.
std::span<const KernelDef* const> kernels_of(const Gpu& gpu, const Registry& registry,
                                             const Op& op);

// Defined in lib/vulkan, or in lib/device/no_vulkan.cpp in builds without Vulkan.
Result<std::shared_ptr<Backend>> open_vulkan(const GpuOptions& options);
Result<std::vector<DeviceInfo>> list_vulkan();

}  // namespace hg
