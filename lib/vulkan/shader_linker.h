// SPDX-License-Identifier: Apache-2.0
// Elementwise programs as SPIR-V, written directly: the functions come from shaders/pointwise.comp,
// and main() is generated here. No compiler runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hg/tensor.h"

namespace hg::vulkan {

// One output from inputs with broadcast shapes. Registers 0, 1, ... are the inputs, then the
// results of the calls. The last one is stored.
struct ShaderProgram {
  enum class Access : uint8_t { flat, one, strided };
  struct Input {
    DType dtype = f32;
    Access access = Access::flat;
  };
  struct Call {
    std::string function;  // of pointwise.comp: "op_add"
    std::vector<int> registers;
    std::vector<int> params;  // numbers of float parameters, after the registers
  };
  static constexpr size_t kMostInputs = 8;
  std::vector<Input> inputs;
  std::vector<Call> calls;
  DType result = f32;

  // The parameter table after the offsets: count, rank, shape[rank], strides[rank] for each input,
  // parameters.
  int rank = 0;
};

// Null if no function has these types.
std::shared_ptr<const std::vector<uint32_t>> assemble(const ShaderProgram& program);

}  // namespace hg::vulkan
