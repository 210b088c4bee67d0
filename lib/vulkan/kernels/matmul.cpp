// SPDX-License-Identifier: Apache-2.0
// matmul and linear: shaders/matmul.comp.
#include "kernels/matmul_shape.h"

#include "lib/run/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

constexpr int64_t kTile = 64;

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 || c.out(0).dtype == f16; }

// Inputs 0 and 1 are a and b; `bias` and `residual` are inputs, or -1.
Status add_product(PrepareContext& c, const kernels::MatmulShape& s, int bias, int residual) {
  if (c.out(0).count() == 0) return {};
  if (s.k == 0) return c.fail("k is 0");
  const DeviceInfo& device = device_of(c);
  Dispatch dispatch;
  dispatch.code = shader(c.out(0).dtype == f32 ? "matmul_f32" : "matmul_f16");
  const bool shares = device.type != DeviceInfo::Type::software;
  dispatch.constants = {shares ? 1u : 0u, bias >= 0 ? 1u : 0u, residual >= 0 ? 1u : 0u,
                        static_cast<uint32_t>(s.activation)};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1),
                       Operand::in(c, bias >= 0 ? bias : 1),
                       Operand::in(c, residual >= 0 ? residual : 1)};
  // Results lie batch after batch.
  Sizes y_batch(s.batch.rank(), 0);
  int64_t step = s.m * s.n;
  for (int d = s.batch.rank() - 1; d >= 0; --d) {
    y_batch[d] = step;
    step *= s.batch[d];
  }
  dispatch.params = Words()
                        .u(s.m).u(s.n).u(s.k).u(s.a_row).u(s.a_col).u(s.b_row).u(s.b_col).u(s.n)
                        .u(s.batch.rank()).all(s.batch).all(s.a_batch).all(s.b_batch).all(y_batch)
                        .words();
  dispatch.groups = {(s.n + kTile - 1) / kTile, (s.m + kTile - 1) / kTile, s.batches()};
  return add(c, std::move(dispatch));
}

Status prepare_matmul(PrepareContext& c) {
  return add_product(c, kernels::matmul_shape(c.in(0), c.in(1)), -1, -1);
}

Status prepare_linear(PrepareContext& c) {
  const auto activation = kernels::activation_named(c.attrs().string("activation"));
  return add_product(c, kernels::linear_shape(c.in(0), c.in(1), activation), c.has(2) ? 2 : -1,
                     c.has(3) ? 3 : -1);
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul", .device = hg::Device::vulkan, .name = "tiles", .accepts = accepts,
     .prepare = prepare_matmul, .strided = 3},
    {.op = "linear", .device = hg::Device::vulkan, .name = "tiles", .accepts = accepts,
     .prepare = prepare_linear, .strided = 2},
};

}  // namespace

std::span<const KernelDef> matmul() { return kKernels; }

}  // namespace hg::vulkan
