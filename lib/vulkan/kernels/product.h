// SPDX-License-Identifier: Apache-2.0
// A matrix product as one dispatch: shaders/matmul.comp, or matmul_lanes.comp where a subgroup is a
// vector of the CPU.
#pragma once

#include <optional>

#include "kernels/matmul_shape.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {

struct Product {
  kernels::MatmulShape shape;
  DType dtype = f32;
  Operand y, a, b;  // y: [batch..., m, n]
  std::optional<Operand> bias, residual;
  bool b_in_pairs = false;  // two steps along k of b are one aligned word of 64 bits
};

// A driver that runs a subgroup of eight on the vectors of a CPU.
bool has_lanes(const DeviceInfo& device);
Status add_product(PrepareContext& c, const Product& product, bool lanes);

}  // namespace hg::vulkan
