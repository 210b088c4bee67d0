// SPDX-License-Identifier: Apache-2.0
// Application shaders as Vulkan kernels of ops: the `prepare` function of a KernelDef with
// Device::vulkan adds dispatches. docs/kernels.md describes what a shader declares.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "hg/gpu.h"
#include "hg/kernel.h"

namespace hg {

// A tensor that a shader reads or writes. The bindings are numbered 1, 2, ... in order.
struct ShaderBinding {
  enum class Kind : uint8_t {
    input,      // of the node, contiguous
    output,     // of the node
    workspace,  // part of the memory requested by PrepareContext::set_workspace
  };
  Kind kind = Kind::input;
  int index = 0;                  // of the input or output
  DType dtype = f32;              // of a workspace
  int64_t offset = 0, bytes = 0;  // of a workspace
};

struct ShaderDispatch {
  std::span<const uint32_t> code = {};  // SPIR-V with entry point "main"; must outlive the sessions
  std::vector<ShaderBinding> bindings = {};
  std::vector<uint32_t> constants = {};  // specialization constants 0, 1, ...
  std::vector<uint32_t> params = {};     // words that the shader reads after the offsets
  std::array<int64_t, 3> groups = {1, 1, 1};
  int64_t group_size = 64;   // invocations per group, as declared in the shader
  int64_t shared_bytes = 0;  // per group
};

// Appends a dispatch to those of the node. Fails with `unsupported` if a device limit is exceeded,
// and in builds without Vulkan.
Status add_dispatch(PrepareContext& c, ShaderDispatch dispatch);

// Returns the number of groups for one invocation per element: a single row, or several rows if the
// device limits a row.
std::array<int64_t, 3> groups_for(const PrepareContext& c, int64_t invocations, int64_t group_size);

}  // namespace hg
