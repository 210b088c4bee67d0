// SPDX-License-Identifier: Apache-2.0
// Errors of builds without Vulkan.
#include "hg/shader.h"
#include "lib/device/backend.h"

namespace hg {

Result<std::shared_ptr<Backend>> open_vulkan(const GpuOptions&) {
  return unsupported(
      "this build has no Vulkan backend (HG_VULKAN is off); use Device::cpu or Device::automatic");
}
Result<std::vector<DeviceInfo>> list_vulkan() {
  return unsupported("this build has no Vulkan backend (HG_VULKAN is off)");
}

Status check_backend(const Backend&) {
  return unsupported("this build has no devices besides the CPU (HG_VULKAN is off)");
}

Status add_dispatch(PrepareContext& c, ShaderDispatch) {
  return unsupported(c.label(), ": this build has no Vulkan backend (HG_VULKAN is off)");
}
std::array<int64_t, 3> groups_for(const PrepareContext&, int64_t, int64_t) { return {1, 1, 1}; }

}  // namespace hg
