// SPDX-License-Identifier: Apache-2.0
// Shaders of an application as the Vulkan kernels of ops: the `prepare` of a KernelDef with
// Device::vulkan describes dispatches. docs/kernels.md says what a shader declares.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "hg/gpu.h"
#include "hg/kernel.h"

namespace hg {

// One tensor that a shader reads or writes: bindings 1, 2, ... in their order.
struct ShaderBinding {
  enum class Kind : uint8_t {
    input,      // of the node, contiguous
    output,     // of the node
    workspace,  // a part of what PrepareContext::set_workspace asked for; written and read
  };
  Kind kind = Kind::input;
  int index = 0;                  // of the input or output
  DType dtype = f32;              // of a workspace
  int64_t offset = 0, bytes = 0;  // of a workspace
};

struct ShaderDispatch {
  std::span<const uint32_t> code = {};  // SPIR-V with an entry point "main"; outlives the sessions
  std::vector<ShaderBinding> bindings = {};
  std::vector<uint32_t> constants = {};  // specialisation constants 0, 1, ...
  std::vector<uint32_t> params = {};     // words that the shader reads behind the offsets
  std::array<int64_t, 3> groups = {1, 1, 1};
  int64_t group_size = 64;   // invocations of a group, as the shader declares them
  int64_t shared_bytes = 0;  // of a group
};

// Adds a dispatch to what the node runs, behind those that were added before. Fails with
// `unsupported` where a limit of the device is passed, and in builds without Vulkan.
Status add_dispatch(PrepareContext& c, ShaderDispatch dispatch);

// Groups for one invocation for each of so many elements: one row of them, or several where the
// device limits a row.
std::array<int64_t, 3> groups_for(const PrepareContext& c, int64_t invocations, int64_t group_size);

}  // namespace hg
