// SPDX-License-Identifier: Apache-2.0
// Convolutions: shaders/conv.comp and conv_weight_grad.comp.
#include <algorithm>

#include "kernels/conv_shape.h"
#include "lib/run/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

// Results of a group of conv_lanes.comp: kRows outputs at kCols vectors of positions, the best of
// those tried on llvmpipe (AVX2). Below kSmall products the driver's compiler would take longer
// than it saves.
constexpr int64_t kLanes = 8, kRows = 16, kCols = 4, kDepthwiseCols = 8;
constexpr int64_t kSmall = int64_t{1} << 18, kSmallRows = 4, kSmallCols = 1;

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 || c.out(0).dtype == f16; }
bool accepts_f32(const PrepareContext& c) { return c.out(0).dtype == f32; }

void describe(Words& words, const kernels::ConvShape& s) {
  words.u(s.group_c()).u(s.group_o()).u(s.groups);
  for (const auto* spatial : {&s.in, &s.out, &s.kernel, &s.stride, &s.padding, &s.dilation})
    for (const int64_t size : *spatial) words.u(size);
}

Status prepare_conv(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (c.out(0).count() == 0) return {};
  if (c.in(0).count() == 0 || c.in(1).count() == 0) return c.fail("x or weight is empty");
  const int64_t outputs = s.group_o() >= 8 ? 8 : s.group_o() >= 4 ? 4 : 1;
  const int64_t blocks = (s.group_o() + outputs - 1) / outputs;
  Dispatch dispatch;
  dispatch.code = shader(c.out(0).dtype == f32 ? "conv_f32" : "conv_f16");
  dispatch.constants = {static_cast<uint32_t>(outputs), c.has(2) ? 1u : 0u, c.has(3) ? 1u : 0u,
                        static_cast<uint32_t>(s.activation), s.transposed ? 1u : 0u};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1),
                       Operand::in(c, c.has(2) ? 2 : 1), Operand::in(c, c.has(3) ? 3 : 1)};
  Words words;
  describe(words, s);
  dispatch.params = words.u(blocks).words();
  dispatch.groups = {(s.out_size() + 63) / 64, blocks * s.groups, s.n};
  return add(c, std::move(dispatch));
}

Status prepare_weight_grad(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  if (c.out(0).count() == 0) return {};
  Dispatch dispatch;
  dispatch.code = shader("conv_weight_grad");
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1)};
  Words words;
  describe(words, s);
  dispatch.params = words.u(s.n).words();
  dispatch.groups = groups_for(device_of(c), c.out(0).count(), 64);
  return add(c, std::move(dispatch));
}

// A subgroup of eight lanes on the vectors of a CPU.
bool accepts_lanes(const PrepareContext& c) {
  const DeviceInfo& device = device_of(c);
  return accepts(c) && device.type == DeviceInfo::Type::software && device.subgroup_size == 8 &&
         device.subgroup_arithmetic;
}

Status prepare_lanes(PrepareContext& c) {
  const kernels::ConvShape s = kernels::conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (c.out(0).count() == 0) return {};
  if (c.in(0).count() == 0 || c.in(1).count() == 0) return c.fail("x or weight is empty");
  const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  const bool small = c.out(0).count() * s.group_c() * taps < kSmall;
  const int64_t rows = std::min(s.group_o(), small ? kSmallRows : kRows);
  const int64_t most = small ? kSmallCols : rows == 1 ? kDepthwiseCols : kCols;
  const int64_t cols = std::min(most, (s.out_size() + kLanes - 1) / kLanes);
  const int64_t blocks = (s.group_o() + rows - 1) / rows;
  Dispatch dispatch;
  dispatch.code = shader(c.out(0).dtype == f32 ? "conv_lanes_f32" : "conv_lanes_f16");
  dispatch.constants = {static_cast<uint32_t>(rows),
                        c.has(2) ? 1u : 0u,
                        c.has(3) ? 1u : 0u,
                        static_cast<uint32_t>(s.activation),
                        s.transposed ? 1u : 0u,
                        static_cast<uint32_t>(cols),
                        static_cast<uint32_t>(std::min(kLanes, s.group_c()))};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1),
                       Operand::in(c, c.has(2) ? 2 : 1), Operand::in(c, c.has(3) ? 3 : 1)};
  Words words;
  describe(words, s);
  dispatch.params = words.u(blocks).words();
  dispatch.groups = {(s.out_size() + kLanes * cols - 1) / (kLanes * cols), blocks * s.groups, s.n};
  return add(c, std::move(dispatch));
}

constexpr KernelDef kKernels[] = {
    {.op = "conv",
     .device = hg::Device::vulkan,
     .name = "lanes",
     .accepts = accepts_lanes,
     .prepare = prepare_lanes},
    {.op = "conv",
     .device = hg::Device::vulkan,
     .name = "direct",
     .accepts = accepts,
     .prepare = prepare_conv},
    {.op = "conv_weight_grad",
     .device = hg::Device::vulkan,
     .name = "direct",
     .accepts = accepts_f32,
     .prepare = prepare_weight_grad},
};

}  // namespace

std::span<const KernelDef> conv() { return kKernels; }

}  // namespace hg::vulkan
