// SPDX-License-Identifier: Apache-2.0
// What a build without Vulkan says.
#include "lib/device/backend.h"

namespace hg {

Result<std::shared_ptr<Backend>> open_vulkan(const GpuOptions&) {
  return unsupported(
      "this build has no Vulkan backend (HG_VULKAN is off); use Device::cpu or Device::automatic");
}
Result<std::vector<DeviceInfo>> list_vulkan() {
  return unsupported("this build has no Vulkan backend (HG_VULKAN is off)");
}

}  // namespace hg
