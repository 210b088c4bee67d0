// SPDX-License-Identifier: Apache-2.0
// Gradients of a convolution's weight: shaders/conv_weight_grad.comp, conv_weight_grad_tiles.comp
// and conv_weight_grad_lanes.comp.
#include <algorithm>

#include "lib/device/backend.h"
#include "lib/vulkan/kernels/geometry.h"
#include "lib/vulkan/kernels/product.h"

namespace hg::vulkan {
namespace {

// Results of a group in the shader for lanes: kRows outputs at kCols vectors of positions.
constexpr int64_t kLanes = 8, kRows = 16, kCols = 4;
// Outputs per group from which tiles are faster, and steps from which the sum is split into parts.
constexpr int64_t kTileOutputs = 16, kPartSteps = 256;

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32; }
bool accepts_lanes(const PrepareContext& c) {
  return accepts(c) && has_lanes(*c.device()) && c.in(0).count() > 0 && c.in(1).count() > 0;
}

template <bool lanes>
Status prepare(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  if (c.out(0).count() == 0) return {};
  Dispatch dispatch;
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1)};
  Words words;
  describe(words, s);
  words.u(s.n);
  if (lanes) {
    const int64_t places = s.group_c() * s.kernel_size();
    const int64_t rows = std::min(s.group_o(), kRows);
    const int64_t cols = std::min(kCols, (places + kLanes - 1) / kLanes);
    const int64_t blocks = (s.group_o() + rows - 1) / rows;
    dispatch.code = shader("conv_weight_grad_lanes");
    dispatch.specialise({rows, cols});
    words.u(blocks);
    dispatch.groups = {(places + kLanes * cols - 1) / (kLanes * cols), blocks * s.groups, 1};
  } else {
    dispatch.code = shader("conv_weight_grad");
    dispatch.groups = groups_for(*c.device(), c.out(0).count(), 64);
  }
  dispatch.params = words.words();
  return add(c, std::move(dispatch));
}

bool accepts_tiles(const PrepareContext& c) {
  if (!accepts(c) || c.in(0).count() == 0 || c.in(1).count() == 0) return false;
  return kernels::conv_weight_grad_shape(c.in(0), c.in(1), c.attrs()).group_o() >= kTileOutputs;
}

Status prepare_tiles(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  const int64_t results = c.out(0).count();
  if (results == 0) return {};
  const int64_t columns = s.group_c() * s.kernel_size(), steps = s.n * s.out_size();
  const int64_t most_parts = std::max<int64_t>(1, steps / kPartSteps);
  const Tile tile = tile_for(*c.device(), s.group_o(), columns, s.groups * most_parts);
  const int64_t across = (columns + tile.cols - 1) / tile.cols;
  const int64_t down = (s.group_o() + tile.rows - 1) / tile.rows, tiles = across * down * s.groups;
  int64_t parts = std::min((2 * kManyGroups + tiles - 1) / tiles, most_parts);
  const int64_t part_steps = (steps + parts - 1) / parts;
  parts = (steps + part_steps - 1) / part_steps;
  const int64_t part_bytes = 4 * parts * results;
  if (part_bytes > c.device()->max_binding_bytes)
    return c.fail("its parts take ", part_bytes, " bytes");
  Operand sums = Operand::out(c, 0);
  if (parts > 1) {
    c.set_workspace(part_bytes);
    sums = Operand::workspace(f32, 0, part_bytes, true);
  }
  Dispatch dispatch;
  dispatch.code = shader("conv_weight_grad_tiles");
  use_tile(dispatch, tile);
  dispatch.specialise({0, 0, 0});  // no epilogue
  dispatch.specialise({s.kernel[1], s.kernel[2], s.kernel_size()});
  dispatch.operands = {sums, Operand::in(c, 0), Operand::in(c, 1)};
  Words words;
  describe(words, s);
  dispatch.params = words.u(s.n).u(part_steps).words();
  dispatch.groups = {across, down, s.groups * parts};
  HG_TRY(add(c, std::move(dispatch)));
  if (parts == 1) return {};
  Dispatch total;
  total.code = shader("reduce_f32");
  total.constants = {0, 0};  // each invocation computes one sum
  total.operands = {Operand::out(c, 0), Operand::workspace(f32, 0, part_bytes, false),
                    Operand::out(c, 0)};
  total.params =
      Words().u(results).u(parts).u(1).u(results).u(1).u(1).u(parts).u(results).f(0).words();
  total.groups = groups_for(*c.device(), results, 64);
  return add(c, std::move(total));
}

constexpr KernelDef kKernels[] = {
    kernel_row("conv_weight_grad", "lanes", accepts_lanes, prepare<true>),
    kernel_row("conv_weight_grad", "tiles", accepts_tiles, prepare_tiles),
    kernel_row("conv_weight_grad", "direct", accepts, prepare<false>),
};

}  // namespace

std::span<const KernelDef> conv_weight_grad() { return kKernels; }

}  // namespace hg::vulkan
