// SPDX-License-Identifier: Apache-2.0
// Pooling: shaders/pool.comp. One or two spatial dims become three with leading dims of 1.
#include <array>

#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

enum What : uint32_t { kMax, kMaxIndex, kAverage, kAverageGrad };
using Spatial = std::array<int64_t, 3>;

void read(const KernelAttrs& attrs, std::string_view name, int dims, Spatial& to) {
  const Sizes given = attrs.integers(name);
  for (int i = 0; i < dims; ++i) to[size_t(3 - dims + i)] = given[given.rank() == 1 ? 0 : i];
}

Status add_pool(PrepareContext& c, What what, bool adaptive) {
  // The input and output of the pooling; exchanged for a gradient.
  const bool back = what == kAverageGrad;
  const Tensor& large = back ? c.out(0) : c.in(0);
  const Tensor& small = back ? c.in(0) : c.out(0);
  if (c.out(0).count() == 0) return {};
  if (c.in(0).count() == 0) return c.fail("the input is empty");
  const int dims = large.rank() - 2;
  Spatial in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1}, stride = {1, 1, 1},
          padding = {0, 0, 0}, dilation = {1, 1, 1};
  for (int i = 0; i < dims; ++i) {
    in[size_t(3 - dims + i)] = large.shape[2 + i];
    out[size_t(3 - dims + i)] = small.shape[2 + i];
  }
  int64_t divisor = 0, counts_padding = 0;
  if (adaptive) {
    stride = {0, 0, 0};
  } else {
    read(c.attrs(), "kernel_size", dims, kernel);
    read(c.attrs(), c.attrs().integers("stride").empty() ? "kernel_size" : "stride", dims, stride);
    read(c.attrs(), "padding", dims, padding);
    if (what == kMax || what == kMaxIndex) {
      read(c.attrs(), "dilation", dims, dilation);
    } else {
      counts_padding = c.attrs().flag("count_include_pad") ? 1 : 0;
      if (c.attrs().has("divisor_override")) divisor = c.attrs().integer("divisor_override");
    }
  }
  Words words;
  words.u(c.out(0).count());
  for (const Spatial& spatial : {in, out, kernel, stride, padding, dilation})
    for (const int64_t size : spatial) words.u(size);
  Dispatch dispatch;
  dispatch.code = shader(c.in(0).dtype == f32 ? "pool_f32" : "pool_bytes");
  dispatch.constants = {what, c.in(0).dtype == DType::i8};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0),
                       Operand::out(c, what == kMaxIndex ? 1 : 0)};
  dispatch.params = words.u(divisor).u(counts_padding).words();
  dispatch.groups = groups_for(*c.device(), c.out(0).count(), 64);
  return add(c, std::move(dispatch));
}

template <What what, bool adaptive>
Status prepare(PrepareContext& c) {
  return add_pool(c, what, adaptive);
}

bool accepts(const PrepareContext& c) { return c.in(0).dtype == f32; }
bool accepts_max(const PrepareContext& c) {
  const DType dtype = c.in(0).dtype;
  return dtype == f32 || dtype == DType::u8 || dtype == DType::i8;
}

constexpr KernelDef kernel(std::string_view op, Status (*prepare)(PrepareContext&),
                           bool (*takes)(const PrepareContext&) = accepts) {
  return kernel_row(op, "windows", takes, prepare);
}

constexpr KernelDef kKernels[] = {
    kernel("max_pool", prepare<kMax, false>, accepts_max),
    kernel("max_pool_with_indices", prepare<kMaxIndex, false>),
    kernel("avg_pool", prepare<kAverage, false>),
    kernel("avg_pool_grad", prepare<kAverageGrad, false>),
    kernel("adaptive_avg_pool", prepare<kAverage, true>),
    kernel("adaptive_avg_pool_grad", prepare<kAverageGrad, true>),
    kernel("adaptive_max_pool", prepare<kMaxIndex, true>),
};

}  // namespace

std::span<const KernelDef> pool() { return kKernels; }

}  // namespace hg::vulkan
