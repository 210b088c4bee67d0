// SPDX-License-Identifier: Apache-2.0
#include "lib/vulkan/commands.h"

#include <algorithm>

#include "lib/device/backend.h"

// The SPIR-V of the shaders, made at build time.
#include "hg_shaders.inc"

namespace hg::vulkan {
namespace {

constexpr size_t shader_bytes() {
  size_t sum = 0;
  for (const auto& [name, code] : kShaders) sum += code.size_bytes();
  return sum;
}
static_assert(shader_bytes() < 1'000'000, "programs that link the archive carry the shaders");

}  // namespace

std::span<const uint32_t> shader(std::string_view name) {
  for (const auto& [known, code] : kShaders)
    if (known == name) return code;
  return {};
}

std::array<int64_t, 3> groups_for(const DeviceInfo& device, int64_t invocations,
                                  int64_t group_size) {
  const int64_t groups = std::max<int64_t>(1, (invocations + group_size - 1) / group_size);
  const int64_t most = std::min<int64_t>(device.max_groups, 65535);
  if (groups <= most) return {groups, 1, 1};
  const int64_t rows = (groups + most - 1) / most;
  return {(groups + rows - 1) / rows, rows, 1};
}

Status add(PrepareContext& c, Dispatch dispatch) {
  const DeviceInfo& device = *c.device();
  if (dispatch.code.empty() && dispatch.program == nullptr)
    return internal_error(c.label(), ": its shader is not in this build");
  if (static_cast<int>(dispatch.operands.size()) + 1 > device.max_bindings)
    return c.fail("needs ", static_cast<int64_t>(dispatch.operands.size()) + 1,
                  " bindings, the device has ", static_cast<int64_t>(device.max_bindings));
  if (dispatch.invocations > device.max_workgroup)
    return c.fail("needs groups of ", dispatch.invocations, " invocations, the device has ",
                  static_cast<int64_t>(device.max_workgroup));
  if (dispatch.shared_bytes > device.max_shared_bytes)
    return c.fail("needs ", dispatch.shared_bytes, " bytes of shared memory, the device has ",
                  device.max_shared_bytes);
  for (const int64_t groups : dispatch.groups)
    if (groups > std::min<int64_t>(device.max_groups, 65535))
      return c.fail("needs ", groups, " groups, the device has ", device.max_groups);
  for (const Operand& operand : dispatch.operands) {
    const int64_t size = size_of(operand.dtype);
    if ((size == 1 && !device.storage_8) || (size == 2 && !device.storage_16))
      return c.fail("the device does not store ", operand.dtype);
  }
  if (c.shared_state() == nullptr) c.make_state(Commands());
  c.state<Commands>()->dispatches.push_back(std::move(dispatch));
  return {};
}

}  // namespace hg::vulkan
