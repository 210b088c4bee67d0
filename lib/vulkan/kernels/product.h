// SPDX-License-Identifier: Apache-2.0
// A matrix product as one dispatch, by one of several methods, and the tiles of shaders/tiles.glsl.
#pragma once

#include <array>
#include <optional>

#include "kernels/gemm/matmul_shape.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {

// A weight of 8- or 4-bit levels, as shaders/levels.glsl reads it.
struct Weight {
  Operand levels, scales;
  std::optional<Operand> offsets;
  std::array<uint32_t, 3> constants = {};
  Words params;

  // Appends the weight to a dispatch, except its levels.
  void append_to(Dispatch& dispatch) const {
    dispatch.operands.push_back(scales);
    dispatch.operands.push_back(offsets.value_or(scales));
    dispatch.constants.insert(dispatch.constants.end(), constants.begin(), constants.end());
    const std::vector<uint32_t>& words = params.words();
    dispatch.params.insert(dispatch.params.end(), words.begin(), words.end());
  }
};

struct Product {
  kernels::MatmulShape shape;
  DType dtype = f32;
  Operand y, a, b;  // y: [batch..., m, n]
  std::optional<Operand> bias, residual;
  std::optional<Weight> weight;  // b, without batches
  bool b_in_pairs = false;       // two steps along k of b are one aligned 64-bit word
};

// The method of a product.
enum class Split : uint8_t {
  tiles,        // matmul.comp: both operands are staged in shared memory
  rows,         // matmul_rows.comp: a has a few rows, and b is read once
  lanes,        // matmul_lanes.comp: a group is a vector of a CPU
  cooperative,  // matmul_cooperative.comp: f16, by the device's matrix units
};
Status add_product(PrepareContext& c, const Product& product, Split split);
// The faster method for a product of which only the sizes are known.
Split split_for(const DeviceInfo& device, const kernels::MatmulShape& shape);

// A product of at most this many rows is for Split::rows.
inline constexpr int64_t kFewRows = 8;

// Whether the driver runs a subgroup of eight on the vectors of a CPU.
bool has_lanes(const DeviceInfo& device);

// The results of a group and of an invocation, and the steps of k in shared memory at a time.
struct Tile {
  int64_t rows = 0, cols = 0, my_rows = 0, my_cols = 0, steps = 0;
};
// Enough groups for the processors of a large GPU, some of which wait for memory.
inline constexpr int64_t kManyGroups = 96;
// The largest tile that still gives the device many groups for m x n results in each of `batches`.
Tile tile_for(const DeviceInfo& device, int64_t m, int64_t n, int64_t batches);
// Sets the first constants, 0 to 11 of shaders/tiles.glsl, and returns the resources of a group.
void use_tile(Dispatch& dispatch, const Tile& tile);

}  // namespace hg::vulkan
