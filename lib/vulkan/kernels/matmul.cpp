// SPDX-License-Identifier: Apache-2.0
// matmul and linear: shaders/matmul.comp, matmul_cooperative.comp, matmul_rows.comp and
// matmul_lanes.comp.
#include <algorithm>

#include "lib/device/backend.h"
#include "lib/vulkan/kernels/product.h"

namespace hg::vulkan {
namespace {

// Tiles from large to small. A tile is used if it gives at least kManyGroups groups; the last one
// is used otherwise.
constexpr Tile kTiles[] = {{128, 128, 8, 8, 8}, {64, 64, 4, 4, 16}, {32, 32, 4, 4, 16}};
// For matmul_cooperative.comp: results of a group along both sides, invocations of a subgroup, and
// bytes of shared memory.
constexpr int64_t kCooperativeSide = 64, kSubgroup = 32, kCooperativeShared = 27136;
// For matmul_rows.comp: invocations along the contiguous dim of b.
constexpr int64_t kTogether = 32;
// Results of a group of matmul_lanes.comp: kRows rows of kCols vectors. Below kSmall products, the
// driver's compiler takes longer than it saves.
constexpr int64_t kLanes = 8, kRows = 16, kCols = 4;
constexpr int64_t kSmall = int64_t{1} << 18, kSmallRows = 4, kSmallCols = 1;

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 || c.out(0).dtype == f16; }
bool accepts_lanes(const PrepareContext& c) { return accepts(c) && has_lanes(*c.device()); }
bool accepts_cooperative(const PrepareContext& c) {
  const DeviceInfo& device = *c.device();
  return c.out(0).dtype == f16 && device.cooperative_matrix && device.subgroup_size == kSubgroup &&
         kernels::product_shape(c).m > kFewRows;
}
bool accepts_rows(const PrepareContext& c) {
  return accepts(c) && kernels::product_shape(c).m <= kFewRows;
}

// Whether two steps along k of a constant b are one aligned 64-bit word.
bool reads_pairs(const PrepareContext& c, const kernels::MatmulShape& s) {
  const auto address = reinterpret_cast<uintptr_t>(c.in(1).data);
  bool even = s.b_col % 2 == 0;
  for (const int64_t stride : s.b_batch) even &= stride % 2 == 0;
  return c.device()->i64 && address != 0 && address % 8 == 0 && s.b_row == 1 && even;
}

template <Split split>
Status prepare(PrepareContext& c) {
  if (c.out(0).count() == 0) return {};
  Product product;
  product.shape = kernels::product_shape(c);
  if (product.shape.k == 0) return c.fail("k is 0");
  product.dtype = c.out(0).dtype;
  product.y = Operand::out(c, 0);
  product.a = Operand::in(c, 0);
  product.b = Operand::in(c, 1);
  if (c.has(2)) product.bias = Operand::in(c, 2);
  if (c.has(3)) product.residual = Operand::in(c, 3);
  product.b_in_pairs = reads_pairs(c, product.shape);
  return add_product(c, product, split);
}

constexpr KernelDef kKernels[] = {
    kernel_row("matmul", "lanes", accepts_lanes, prepare<Split::lanes>, 3),
    kernel_row("matmul", "cooperative", accepts_cooperative, prepare<Split::cooperative>, 3),
    kernel_row("matmul", "rows", accepts_rows, prepare<Split::rows>, 3),
    kernel_row("matmul", "tiles", accepts, prepare<Split::tiles>, 3),
    kernel_row("linear", "lanes", accepts_lanes, prepare<Split::lanes>, 2),
    kernel_row("linear", "cooperative", accepts_cooperative, prepare<Split::cooperative>, 2),
    kernel_row("linear", "rows", accepts_rows, prepare<Split::rows>, 2),
    kernel_row("linear", "tiles", accepts, prepare<Split::tiles>, 2),
};

}  // namespace

bool has_lanes(const DeviceInfo& device) {
  return device.type == DeviceInfo::Type::software && device.subgroup_size == kLanes &&
         device.subgroup_arithmetic;
}

Tile tile_for(const DeviceInfo& device, int64_t m, int64_t n, int64_t batches) {
  for (const Tile& tile : kTiles) {
    const int64_t invocations = tile.rows / tile.my_rows * (tile.cols / tile.my_cols);
    const int64_t groups =
        (m + tile.rows - 1) / tile.rows * ((n + tile.cols - 1) / tile.cols) * batches;
    if (groups >= kManyGroups && std::min(m, n) > tile.rows / 2 &&
        invocations <= device.max_workgroup)
      return tile;
  }
  return std::end(kTiles)[-1];
}

void use_tile(Dispatch& dispatch, const Tile& tile) {
  const int64_t down = tile.rows / tile.my_rows, across = tile.cols / tile.my_cols;
  const int64_t invocations = down * across;
  const int64_t part_a = (tile.rows + 1) * tile.steps, part_b = (tile.cols + 1) * tile.steps;
  dispatch.specialise({invocations, tile.rows, tile.cols, tile.my_rows, tile.my_cols, down, across,
                       tile.steps, tile.rows * tile.steps / invocations,
                       tile.cols * tile.steps / invocations, part_a, part_b});
  dispatch.invocations = invocations;
  dispatch.shared_bytes = 4 * (part_a + part_b);
}

Split split_for(const DeviceInfo& device, const kernels::MatmulShape& shape) {
  return has_lanes(device) ? Split::lanes : shape.m <= kFewRows ? Split::rows : Split::tiles;
}

Status add_product(PrepareContext& c, const Product& product, Split split) {
  const kernels::MatmulShape& s = product.shape;
  Dispatch dispatch;
  const bool is_f32 = product.dtype == f32;
  const bool has_bias = product.bias.has_value(), has_residual = product.residual.has_value();
  const auto activation = static_cast<int64_t>(s.activation);
  int64_t rows = 0, cols = 0;  // of a group
  if (split == Split::lanes) {
    const bool small = s.batches() * s.m * s.n * s.k < kSmall;
    rows = std::min(s.m, small ? kSmallRows : kRows);
    const int64_t vectors = std::min(small ? kSmallCols : kCols, (s.n + kLanes - 1) / kLanes);
    cols = kLanes * vectors;
    dispatch.code = shader(!is_f32              ? "matmul_lanes_f16"
                           : product.b_in_pairs ? "matmul_lanes_pairs"
                                                : "matmul_lanes_f32");
    dispatch.specialise({rows, has_bias, has_residual, activation, vectors});
  } else if (split == Split::rows) {
    const bool along = s.b_row <= s.b_col;
    const int64_t others = c.device()->max_workgroup >= 8 * kTogether ? 8 : 4;
    const int64_t deep = along ? kTogether : others, wide = along ? others : kTogether;
    rows = s.m;
    cols = wide;
    dispatch.code = shader(product.weight ? "matmul_rows_levels"
                           : is_f32       ? "matmul_rows_f32"
                                          : "matmul_rows_f16");
    dispatch.specialise({deep * wide, rows, deep, wide, rows * deep * wide, along, has_bias,
                         has_residual, activation});
    dispatch.invocations = deep * wide;
    dispatch.shared_bytes = 4 * rows * deep * wide;
  } else if (split == Split::cooperative) {
    rows = cols = kCooperativeSide;
    dispatch.code = shader("matmul_cooperative");
    dispatch.specialise({has_bias, has_residual, activation});
    dispatch.shared_bytes = kCooperativeShared;
  } else {
    const Tile tile = tile_for(*c.device(), s.m, s.n, s.batches());
    rows = tile.rows;
    cols = tile.cols;
    dispatch.code = shader(product.weight ? "matmul_levels" : is_f32 ? "matmul_f32" : "matmul_f16");
    use_tile(dispatch, tile);
    dispatch.specialise({has_bias, has_residual, activation});
  }
  dispatch.operands = {product.y, product.a, product.b, product.bias.value_or(product.b),
                       product.residual.value_or(product.b)};
  // Results are stored batch by batch.
  Sizes y_batch(s.batch.rank(), 0);
  int64_t step = s.m * s.n;
  for (int d = s.batch.rank() - 1; d >= 0; --d) {
    y_batch[d] = step;
    step *= s.batch[d];
  }
  dispatch.params = Words()
                        .u(s.m)
                        .u(s.n)
                        .u(s.k)
                        .u(s.a_row)
                        .u(s.a_col)
                        .u(s.b_row)
                        .u(s.b_col)
                        .u(s.n)
                        .u(s.batch.rank())
                        .all(s.batch)
                        .all(s.a_batch)
                        .all(s.b_batch)
                        .all(y_batch)
                        .words();
  if (product.weight) product.weight->append_to(dispatch);
  dispatch.groups = {(s.n + cols - 1) / cols, (s.m + rows - 1) / rows, s.batches()};
  return add(c, std::move(dispatch));
}

std::span<const KernelDef> matmul() { return kKernels; }

}  // namespace hg::vulkan
