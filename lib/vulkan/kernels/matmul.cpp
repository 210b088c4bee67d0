// SPDX-License-Identifier: Apache-2.0
// matmul and linear: shaders/matmul.comp.
#include <algorithm>

#include "lib/run/backend.h"
#include "lib/vulkan/kernels/product.h"

namespace hg::vulkan {
namespace {

constexpr int64_t kTile = 64;
// Results of a group of matmul_lanes.comp: kRows rows of kCols vectors. Below kSmall products the
// driver's compiler would take longer than it saves.
constexpr int64_t kLanes = 8, kRows = 16, kCols = 4;
constexpr int64_t kSmall = int64_t{1} << 18, kSmallRows = 4, kSmallCols = 1;

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 || c.out(0).dtype == f16; }
bool accepts_lanes(const PrepareContext& c) { return accepts(c) && has_lanes(device_of(c)); }

// Whether two steps along k of a constant b are one aligned word of 64 bits.
bool reads_pairs(const PrepareContext& c, const kernels::MatmulShape& s) {
  const auto address = reinterpret_cast<uintptr_t>(c.in(1).data);
  bool even = s.b_col % 2 == 0;
  for (const int64_t stride : s.b_batch) even &= stride % 2 == 0;
  return device_of(c).i64 && address != 0 && address % 8 == 0 && s.b_row == 1 && even;
}

template <bool lanes>
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
  return add_product(c, product, lanes);
}

constexpr KernelDef kernel(std::string_view op, std::string_view name,
                           bool (*accepts)(const PrepareContext&),
                           Status (*prepare)(PrepareContext&), uint32_t strided) {
  return {.op = op,
          .device = hg::Device::vulkan,
          .name = name,
          .accepts = accepts,
          .prepare = prepare,
          .strided = strided};
}

constexpr KernelDef kKernels[] = {
    kernel("matmul", "lanes", accepts_lanes, prepare<true>, 3),
    kernel("matmul", "tiles", accepts, prepare<false>, 3),
    kernel("linear", "lanes", accepts_lanes, prepare<true>, 2),
    kernel("linear", "tiles", accepts, prepare<false>, 2),
};

}  // namespace

bool has_lanes(const DeviceInfo& device) {
  return device.type == DeviceInfo::Type::software && device.subgroup_size == kLanes &&
         device.subgroup_arithmetic;
}

Status add_product(PrepareContext& c, const Product& product, bool lanes) {
  const kernels::MatmulShape& s = product.shape;
  Dispatch dispatch;
  const bool is_f32 = product.dtype == f32;
  const uint32_t has_bias = product.bias.has_value(), has_residual = product.residual.has_value();
  const auto activation = static_cast<uint32_t>(s.activation);
  int64_t rows = kTile, cols = kTile;  // of a group
  if (lanes) {
    const bool small = s.batches() * s.m * s.n * s.k < kSmall;
    rows = std::min(s.m, small ? kSmallRows : kRows);
    const int64_t vectors = std::min(small ? kSmallCols : kCols, (s.n + kLanes - 1) / kLanes);
    cols = kLanes * vectors;
    dispatch.code = shader(!is_f32              ? "matmul_lanes_f16"
                           : product.b_in_pairs ? "matmul_lanes_pairs"
                                                : "matmul_lanes_f32");
    dispatch.constants = {static_cast<uint32_t>(rows), has_bias, has_residual, activation,
                          static_cast<uint32_t>(vectors)};
  } else {
    const bool shares = device_of(c).type != DeviceInfo::Type::software;
    dispatch.code = shader(is_f32 ? "matmul_f32" : "matmul_f16");
    dispatch.constants = {shares ? 1u : 0u, has_bias, has_residual, activation};
  }
  dispatch.operands = {product.y, product.a, product.b, product.bias.value_or(product.b),
                       product.residual.value_or(product.b)};
  // Results lie batch after batch.
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
  dispatch.groups = {(s.n + cols - 1) / cols, (s.m + rows - 1) / rows, s.batches()};
  return add(c, std::move(dispatch));
}

std::span<const KernelDef> matmul() { return kKernels; }

}  // namespace hg::vulkan
