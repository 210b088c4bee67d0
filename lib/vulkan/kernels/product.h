// SPDX-License-Identifier: Apache-2.0
// A matrix product as one dispatch, in one of several ways, and the tiles of shaders/tiles.glsl.
#pragma once

#include <optional>

#include "kernels/gemm/matmul_shape.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {

struct Product {
  kernels::MatmulShape shape;
  DType dtype = f32;
  Operand y, a, b;  // y: [batch..., m, n]
  std::optional<Operand> bias, residual;
  bool b_in_pairs = false;  // two steps along k of b are one aligned word of 64 bits
};

// How a product is shared out.
enum class Split : uint8_t {
  tiles,        // matmul.comp: pieces of both operands go through shared memory
  rows,         // matmul_rows.comp: a has a few rows, and b is read once
  lanes,        // matmul_lanes.comp: a group is a vector of the CPU
  cooperative,  // matmul_cooperative.comp: f16, by the device's matrix units
};
Status add_product(PrepareContext& c, const Product& product, Split split);
// The faster one for a product that nothing is known of but its sizes.
Split split_for(const DeviceInfo& device, const kernels::MatmulShape& shape);

// A driver that runs a subgroup of eight on the vectors of a CPU.
bool has_lanes(const DeviceInfo& device);

// The results of a group, and of an invocation; the steps of k that are in shared memory at a time.
struct Tile {
  int64_t rows = 0, cols = 0, my_rows = 0, my_cols = 0, steps = 0;
};
// Enough groups for the processors of a large GPU, some of which wait for memory.
inline constexpr int64_t kManyGroups = 96;
// The largest tile that still gives the device many groups for m x n results in each of `batches`.
Tile tile_for(const DeviceInfo& device, int64_t m, int64_t n, int64_t batches);
// Gives the first constants, 0 to 11 of shaders/tiles.glsl, and says what a group needs.
void use_tile(Dispatch& dispatch, const Tile& tile);

}  // namespace hg::vulkan
