// SPDX-License-Identifier: Apache-2.0
// Convolutions: shaders/conv.comp, conv_tiles.comp, conv_lanes.comp, conv_depthwise.comp,
// winograd_in.comp and winograd_out.comp.
#include <algorithm>

#include "kernels/conv/conv_shape.h"
#include "lib/device/backend.h"
#include "lib/vulkan/kernels/geometry.h"
#include "lib/vulkan/kernels/product.h"

namespace hg::vulkan {
namespace {

// Results of a group in the shaders for lanes: kRows outputs at kCols vectors of positions, the
// fastest of the sizes tried on llvmpipe (AVX2). Below kSmall products, the driver's compiler takes
// longer than it saves.
constexpr int64_t kLanes = 8, kRows = 16, kCols = 4;
constexpr int64_t kSmall = int64_t{1} << 18, kSmallRows = 4, kSmallCols = 1;

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 || c.out(0).dtype == f16; }
bool accepts_lanes_f32(const PrepareContext& c) {
  return c.out(0).dtype == f32 && has_lanes(*c.device()) && c.in(0).count() > 0 &&
         c.in(1).count() > 0;
}

// y, x, weight, bias and residual; absent ones are not read.
std::vector<Operand> operands(const PrepareContext& c) {
  return {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1),
          Operand::in(c, c.has(2) ? 2 : 1), Operand::in(c, c.has(3) ? 3 : 1)};
}

Status prepare_conv(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (c.out(0).count() == 0) return {};
  if (c.in(0).count() == 0 || c.in(1).count() == 0) return c.fail("x or weight is empty");
  const int64_t outputs = s.group_o() >= 8 ? 8 : s.group_o() >= 4 ? 4 : 1;
  const int64_t blocks = (s.group_o() + outputs - 1) / outputs;
  Dispatch dispatch;
  dispatch.code = shader(c.out(0).dtype == f32 ? "conv_f32" : "conv_f16");
  dispatch.specialise(
      {outputs, c.has(2), c.has(3), static_cast<int64_t>(s.activation), s.transposed});
  dispatch.operands = operands(c);
  Words words;
  describe(words, s);
  dispatch.params = words.u(blocks).words();
  dispatch.groups = {(s.out_size() + 63) / 64, blocks * s.groups, s.n};
  return add(c, std::move(dispatch));
}

// Outputs per group from which tiles are faster.
constexpr int64_t kTileOutputs = 16;

bool accepts_tiles(const PrepareContext& c) {
  if (!accepts(c) || c.in(0).count() == 0 || c.in(1).count() == 0) return false;
  return kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs()).group_o() >= kTileOutputs;
}

Status prepare_tiles(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (c.out(0).count() == 0) return {};
  const int64_t columns = s.n * s.out_size();
  const Tile tile = tile_for(*c.device(), s.group_o(), columns, s.groups);
  Dispatch dispatch;
  dispatch.code = shader(c.out(0).dtype == f32 ? "conv_tiles_f32" : "conv_tiles_f16");
  use_tile(dispatch, tile);
  dispatch.specialise({c.has(2), c.has(3), static_cast<int64_t>(s.activation), s.transposed,
                       s.kernel[1], s.kernel[2], s.kernel_size()});
  dispatch.operands = operands(c);
  Words words;
  describe(words, s);
  dispatch.params = words.u(s.n).words();
  dispatch.groups = {(columns + tile.cols - 1) / tile.cols,
                     (s.group_o() + tile.rows - 1) / tile.rows, s.groups};
  return add(c, std::move(dispatch));
}

bool accepts_lanes(const PrepareContext& c) { return accepts(c) && has_lanes(*c.device()); }

Status prepare_lanes(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (c.out(0).count() == 0) return {};
  if (c.in(0).count() == 0 || c.in(1).count() == 0) return c.fail("x or weight is empty");
  const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  const bool small = c.out(0).count() * s.group_c() * taps < kSmall;
  const int64_t rows = std::min(s.group_o(), small ? kSmallRows : kRows);
  const int64_t most = small ? kSmallCols : kCols;
  const int64_t cols = std::min(most, (s.out_size() + kLanes - 1) / kLanes);
  const int64_t blocks = (s.group_o() + rows - 1) / rows;
  Dispatch dispatch;
  dispatch.code = shader(c.out(0).dtype == f32 ? "conv_lanes_f32" : "conv_lanes_f16");
  dispatch.specialise({rows, c.has(2), c.has(3), static_cast<int64_t>(s.activation), s.transposed,
                       cols, std::min(kLanes, s.group_c())});
  dispatch.operands = operands(c);
  Words words;
  describe(words, s);
  dispatch.params = words.u(blocks).words();
  dispatch.groups = {(s.out_size() + kLanes * cols - 1) / (kLanes * cols), blocks * s.groups, s.n};
  return add(c, std::move(dispatch));
}

// -- Depthwise ------------------------------------------------------------------------------------

constexpr int64_t kMostTaps = 49, kMostStrip = 8;

template <bool lanes>
bool accepts_depthwise(const PrepareContext& c) {
  if (c.attrs().flag("transposed") || c.in(0).count() == 0 ||
      (lanes ? !accepts_lanes_f32(c) : !accepts(c)))
    return false;
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  return s.group_c() == 1 && s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 &&
         s.padding[0] == 0 && s.dilation[1] == 1 && s.kernel_size() <= kMostTaps;
}

template <bool lanes>
Status prepare_depthwise(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (c.out(0).count() == 0) return {};
  const int64_t strips = (s.out[1] + kMostStrip - 1) / kMostStrip;
  const int64_t strip = (s.out[1] + strips - 1) / strips, group = lanes ? kLanes : 64;
  Dispatch dispatch;
  dispatch.code = shader(lanes                   ? "conv_depthwise_lanes"
                         : c.out(0).dtype == f32 ? "conv_depthwise_f32"
                                                 : "conv_depthwise_f16");
  dispatch.specialise({s.kernel[1], s.kernel[2], s.stride[1], strip, c.has(2), c.has(3),
                       static_cast<int64_t>(s.activation)});
  dispatch.operands = operands(c);
  dispatch.params = Words()
                        .u(s.o)
                        .u(s.group_o())
                        .u(s.in[1])
                        .u(s.in[2])
                        .u(s.out[1])
                        .u(s.out[2])
                        .u(s.stride[2])
                        .u(s.padding[1])
                        .u(s.padding[2])
                        .u(s.dilation[2])
                        .words();
  dispatch.groups = {(s.out[2] * strips + group - 1) / group, s.o, s.n};
  return add(c, std::move(dispatch));
}

// -- F(4x4, 3x3) ----------------------------------------------------------------------------------

constexpr int64_t kSide = 6, kElements = kSide * kSide;  // of a transformed tile

bool accepts_winograd(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.attrs().flag("transposed") || c.attrs().flag("exact") ||
      !c.is_constant(1))
    return false;
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  using Spatial = kernels::ConvShape::Spatial;
  return s.kernel == Spatial{1, 3, 3} && s.in[0] == 1 && s.out[0] == 1 && s.padding[0] == 0 &&
         s.stride == Spatial{1, 1, 1} && s.dilation == Spatial{1, 1, 1} && s.groups == 1 &&
         s.c >= 16 && s.o >= 16 && s.out_size() >= 16 && s.n > 0;
}

// u[e, o, c] = element e of G g G^T.
void transform_weight(const float* weight, int64_t kernels, float* u) {
  constexpr double kRoot = 0.70710678118654752440;  // the points are 0, +-root, +-2 root
  constexpr double kG[kSide][3] = {{1, 0, 0},
                                   {-1 / 1.5, -kRoot / 1.5, -0.5 / 1.5},
                                   {-1 / 1.5, kRoot / 1.5, -0.5 / 1.5},
                                   {1 / 6.0, 2 * kRoot / 6, 2 / 6.0},
                                   {1 / 6.0, -2 * kRoot / 6, 2 / 6.0},
                                   {0, 0, 1}};
  for (int64_t k = 0; k < kernels; ++k) {
    const float* const g = weight + 9 * k;
    double half[kSide][3] = {};
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < 3; ++j)
        for (int p = 0; p < 3; ++p) half[i][j] += kG[i][p] * static_cast<double>(g[3 * p + j]);
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        double sum = 0;
        for (int p = 0; p < 3; ++p) sum += half[i][p] * kG[j][p];
        u[(i * kSide + j) * kernels + k] = static_cast<float>(sum);
      }
  }
}

Status prepare_winograd(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const int64_t rows = (s.out[1] + 3) / 4, columns = (s.out[2] + 3) / 4;
  const int64_t tiles = s.n * rows * columns;
  const int64_t in_bytes = kElements * s.c * tiles * 4, out_bytes = kElements * s.o * tiles * 4;
  const int64_t most = c.device()->max_binding_bytes - 512;
  if (in_bytes > most || out_bytes > most) return c.fail("its tiles take ", in_bytes, " bytes");
  const int64_t weight_bytes = kElements * s.o * s.c * 4;
  const void* const u =
      c.pack(1, "vulkan winograd", weight_bytes, [s, weight = c.in(1).as<float>()](void* to) {
        transform_weight(weight, s.o * s.c, static_cast<float*>(to));
      });
  if (u == nullptr)
    return out_of_memory(c.label(), ": no memory for ", weight_bytes, " bytes of packed weights");
  const int64_t out_at = (in_bytes + 255) / 256 * 256;
  c.set_workspace(out_at + out_bytes);
  const auto v = [&](bool writes) { return Operand::workspace(f32, 0, in_bytes, writes); };
  const auto m = [&](bool writes) { return Operand::workspace(f32, out_at, out_bytes, writes); };

  Dispatch in;
  in.code = shader("winograd_in");
  in.operands = {v(true), Operand::in(c, 0)};
  in.params = Words()
                  .u(tiles)
                  .u(s.c)
                  .u(s.in[1])
                  .u(s.in[2])
                  .u(rows)
                  .u(columns)
                  .u(s.padding[1])
                  .u(s.padding[2])
                  .words();
  in.groups = groups_for(*c.device(), tiles * s.c, 64);
  HG_TRY(add(c, std::move(in)));

  Product product;
  product.shape.m = s.o;
  product.shape.n = tiles;
  product.shape.k = s.c;
  product.shape.a_row = s.c;
  product.shape.a_col = 1;
  product.shape.b_row = tiles;
  product.shape.b_col = 1;
  product.shape.batch = {kElements};
  product.shape.a_batch = {s.o * s.c};
  product.shape.b_batch = {s.c * tiles};
  product.y = m(true);
  product.a = Operand::constant(f32, u, weight_bytes);
  product.b = v(false);
  HG_TRY(add_product(c, product, split_for(*c.device(), product.shape)));

  Dispatch out;
  out.code = shader("winograd_out");
  out.constants = {c.has(2) ? 1u : 0u, c.has(3) ? 1u : 0u, static_cast<uint32_t>(s.activation)};
  out.operands = {Operand::out(c, 0), m(false), Operand::in(c, c.has(2) ? 2 : 1),
                  Operand::in(c, c.has(3) ? 3 : 1)};
  out.params = Words().u(tiles).u(s.o).u(s.out[1]).u(s.out[2]).u(rows).u(columns).words();
  out.groups = groups_for(*c.device(), tiles * s.o, 64);
  return add(c, std::move(out));
}

constexpr KernelDef kKernels[] = {
    kernel_row("conv", "winograd", accepts_winograd, prepare_winograd),
    kernel_row("conv", "depthwise_lanes", accepts_depthwise<true>, prepare_depthwise<true>),
    kernel_row("conv", "depthwise", accepts_depthwise<false>, prepare_depthwise<false>),
    kernel_row("conv", "lanes", accepts_lanes, prepare_lanes),
    kernel_row("conv", "tiles", accepts_tiles, prepare_tiles),
    kernel_row("conv", "direct", accepts, prepare_conv),
};

}  // namespace

std::span<const KernelDef> conv() { return kKernels; }

}  // namespace hg::vulkan
