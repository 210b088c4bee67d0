// SPDX-License-Identifier: Apache-2.0
// Products with 8- and 4-bit weights, and rows of such weights: matmul.comp, matmul_rows.comp and
// pick.comp with shaders/levels.glsl. Levels and scales may have any strides.
#include "hg/activation.h"
#include "lib/device/backend.h"
#include "lib/table/packing.h"
#include "lib/vulkan/kernels/product.h"

namespace hg::vulkan {
namespace {

// The weight whose levels are input `levels`; its scales follow, and input 3 has its offsets.
Weight weight_of(const PrepareContext& c, int levels, int64_t k, bool sums_rows) {
  Weight weight;
  weight.levels = Operand::in(c, levels);
  weight.scales = Operand::in(c, levels + 1);
  if (c.has(3)) weight.offsets = Operand::in(c, 3);
  const Packing packing = *parse_packing(c.attrs().string("packing"));
  const Tensor& scales = c.in(levels + 1);
  weight.constants = {static_cast<uint32_t>(packing), c.has(3), sums_rows};
  weight.params.u(c.attrs().integer("group"))
      .u(((packing == Packing::rows ? scales.shape[0] : k) + 1) / 2)
      .all(c.in(levels).strides)
      .all(scales.strides)
      .all(c.in(c.has(3) ? 3 : levels + 1).strides);
  return weight;
}

// x: [..., k], contiguous
Status add_levels(PrepareContext& c, bool sums_rows, Split split) {
  const Tensor &x = c.in(0), &y = c.out(0);
  if (y.count() == 0) return {};
  Product product;
  kernels::MatmulShape& s = product.shape;
  s.k = x.shape.back();
  s.n = y.shape.back();
  if (s.k == 0) return c.fail("k is 0");
  s.m = y.count() / s.n;
  s.a_row = s.k;
  s.a_col = 1;
  s.b_row = sums_rows ? s.n : 1;
  s.b_col = sums_rows ? 1 : s.k;
  if (!sums_rows) {
    s.activation = *parse_activation(c.attrs().string("activation"));
    if (c.has(4)) product.bias = Operand::in(c, 4);
    if (c.has(5)) product.residual = Operand::in(c, 5);
  }
  product.y = Operand::out(c, 0);
  product.a = Operand::in(c, 0);
  product.weight = weight_of(c, 1, sums_rows ? s.n : s.k, sums_rows);
  product.b = product.weight->levels;
  return add_product(c, product, split);
}

template <bool sums_rows, Split split>
Status prepare_product(PrepareContext& c) {
  return add_levels(c, sums_rows, split);
}

Status prepare_embedding(PrepareContext& c) {
  const Tensor& y = c.out(0);
  if (y.count() == 0) return {};
  const Weight weight = weight_of(c, 0, y.shape.back(), false);
  Dispatch dispatch;
  dispatch.code = shader("pick_levels");
  dispatch.constants = {1};
  dispatch.operands = {Operand::out(c, 0), weight.levels, Operand::in(c, 2), Operand::flag()};
  dispatch.params =
      Words().u(y.count()).u(c.in(1).shape[0]).u(y.shape.back()).u(c.in(2).count()).words();
  dispatch.groups = groups_for(*c.device(), y.count());
  weight.append_to(dispatch);
  HG_TRY(add(c, std::move(dispatch)));
  c.state<Commands>()->error = "an index is out of range";
  return {};
}

// Rounded x (Precision::i8) is the CPU's.
bool accepts(const PrepareContext& c) { return c.precision() != Precision::i8; }
bool accepts_rows(const PrepareContext& c) {
  const Tensor& y = c.out(0);
  return accepts(c) && y.count() <= kFewRows * y.shape.back();
}

constexpr KernelDef kKernels[] = {
    kernel_row("quantized_linear", "rows", accepts_rows, prepare_product<false, Split::rows>, 14),
    kernel_row("quantized_linear", "tiles", accepts, prepare_product<false, Split::tiles>, 14),
    kernel_row("quantized_matmul", "rows", accepts_rows, prepare_product<true, Split::rows>, 14),
    kernel_row("quantized_matmul", "tiles", accepts, prepare_product<true, Split::tiles>, 14),
    kernel_row("quantized_embedding", "pick", nullptr, prepare_embedding, 11),
};

}  // namespace

std::span<const KernelDef> low_bits() { return kKernels; }

}  // namespace hg::vulkan
