// SPDX-License-Identifier: Apache-2.0
// Converts the dispatches of an application's kernel (hg/shader.h) to the library's own commands.
#include <utility>

#include "hg/shader.h"
#include "lib/vulkan/commands.h"

namespace hg {
namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;

Result<vulkan::Operand> operand_of(const PrepareContext& c, const ShaderBinding& binding) {
  switch (binding.kind) {
    case ShaderBinding::Kind::input:
      HG_CHECK(c.has(binding.index), c.label(), ": a shader binds input ", binding.index,
               ", which is not given");
      return vulkan::Operand::in(c, binding.index);
    case ShaderBinding::Kind::output:
      HG_CHECK(binding.index >= 0 && binding.index < c.output_count(), c.label(),
               ": a shader binds output ", binding.index, " of ", c.output_count());
      return vulkan::Operand::out(c, binding.index);
    case ShaderBinding::Kind::workspace:
      break;
  }
  HG_CHECK(
      binding.offset >= 0 && binding.bytes >= 0 && binding.offset + binding.bytes <= c.workspace(),
      c.label(), ": a shader binds ", binding.bytes, " bytes at ", binding.offset,
      " of a workspace of ", c.workspace());
  return vulkan::Operand::workspace(binding.dtype, binding.offset, binding.bytes, true);
}

}  // namespace

Status add_dispatch(PrepareContext& c, ShaderDispatch dispatch) {
  HG_CHECK(c.device() != nullptr, c.label(),
           ": a shader is the kernel of a device, not of the CPU");
  HG_CHECK(!dispatch.code.empty() && dispatch.code[0] == kSpirvMagic, c.label(),
           ": the shader is not SPIR-V: its first word is ",
           dispatch.code.empty() ? 0u : dispatch.code[0], ", not ", kSpirvMagic);
  vulkan::Dispatch own;
  own.code = dispatch.code;
  own.constants = std::move(dispatch.constants);
  own.params = std::move(dispatch.params);
  own.groups = dispatch.groups;
  own.invocations = dispatch.group_size;
  own.shared_bytes = dispatch.shared_bytes;
  for (const ShaderBinding& binding : dispatch.bindings) {
    HG_TRY_ASSIGN(const vulkan::Operand operand, operand_of(c, binding));
    own.operands.push_back(operand);
  }
  return vulkan::add(c, std::move(own));
}

std::array<int64_t, 3> groups_for(const PrepareContext& c, int64_t invocations,
                                  int64_t group_size) {
  return vulkan::groups_for(*c.device(), invocations, group_size);
}

}  // namespace hg
