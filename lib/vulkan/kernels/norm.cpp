// SPDX-License-Identifier: Apache-2.0
// Softmax and norms: shaders/lines.comp.
#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

enum What : uint32_t { kSoftmax, kLogSoftmax, kLayerNorm, kRmsNorm, kGroupNorm };

// Line l begins at l / inner * outer_step + l % inner * inner_step; element i of it is at i / space
// * far + i % space.
struct Layout {
  int64_t lines = 0, count = 0, inner = 1, outer_step = 0, inner_step = 0, space = 1, far = 1,
          channels = 1;
};

template <bool subgroups>
Status add_lines(PrepareContext& c, What what, const Layout& l, int weight, int bias, double eps) {
  if (c.out(0).count() == 0) return {};
  // Lines with non-adjacent elements are processed side by side, one per invocation.
  const bool together = l.count >= 32 && (l.space > 1 || l.far == 1);
  Dispatch dispatch;
  dispatch.code = shader(
      str_cat(subgroups ? "lines_subgroups_" : "lines_", c.out(0).dtype == f32 ? "f32" : "f16"));
  dispatch.constants = {what, together ? 1u : 0u, weight >= 0 ? 1u : 0u, bias >= 0 ? 1u : 0u};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0),
                       Operand::in(c, weight >= 0 ? weight : 0),
                       Operand::in(c, bias >= 0 ? bias : 0)};
  dispatch.params = Words()
                        .u(l.lines)
                        .u(l.count)
                        .u(l.inner)
                        .u(l.outer_step)
                        .u(l.inner_step)
                        .u(l.space)
                        .u(l.far)
                        .u(l.channels)
                        .f(eps)
                        .words();
  dispatch.groups =
      together ? groups_for(*c.device(), l.lines, 1) : groups_for(*c.device(), l.lines, 64);
  return add(c, std::move(dispatch));
}

template <What what, bool subgroups>
Status prepare_softmax(PrepareContext& c) {
  const Tensor& x = c.in(0);
  Layout l;
  const int axis = x.rank() == 0 ? 0 : c.attrs().axis("dim", x.rank());
  l.count = x.rank() == 0 ? 1 : x.shape[axis];
  for (int d = axis + 1; d < x.rank(); ++d) l.inner *= x.shape[d];
  l.lines = l.count == 0 ? 0 : x.count() / l.count;
  l.outer_step = l.count * l.inner;
  l.inner_step = 1;
  l.far = l.inner;
  return add_lines<subgroups>(c, what, l, -1, -1, 0);
}

template <What what, bool subgroups>
Status prepare_trailing(PrepareContext& c) {
  Layout l;
  l.count = c.attrs().integers("normalized_shape").count();
  l.lines = l.count == 0 ? 0 : c.in(0).count() / l.count;
  l.outer_step = l.count;
  const bool has_bias = what == kLayerNorm && c.has(2);
  return add_lines<subgroups>(c, what, l, c.has(1) ? 1 : -1, has_bias ? 2 : -1,
                              c.attrs().real("eps"));
}

template <bool subgroups>
Status prepare_group_norm(PrepareContext& c) {
  const Sizes& shape = c.in(0).shape;
  Layout l;
  l.inner = c.attrs().integer("groups");
  l.channels = shape[1] / l.inner;
  for (int d = 2; d < shape.rank(); ++d) l.space *= shape[d];
  l.far = l.space;
  l.lines = shape[0] * l.inner;
  l.count = l.channels * l.space;
  l.inner_step = l.count;
  l.outer_step = l.count * l.inner;
  return add_lines<subgroups>(c, kGroupNorm, l, c.has(1) ? 1 : -1, c.has(2) ? 2 : -1,
                              c.attrs().real("eps"));
}

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 || c.out(0).dtype == f16; }

bool accepts_subgroups(const PrepareContext& c) {
  return accepts(c) && c.device()->subgroup_arithmetic;
}

template <bool subgroups>
constexpr KernelDef kernel(std::string_view op, Status (*prepare)(PrepareContext&)) {
  return kernel_row(op, subgroups ? "subgroups" : "lines", subgroups ? accepts_subgroups : accepts,
                    prepare);
}

constexpr KernelDef kKernels[] = {
    kernel<true>("softmax", prepare_softmax<kSoftmax, true>),
    kernel<false>("softmax", prepare_softmax<kSoftmax, false>),
    kernel<true>("log_softmax", prepare_softmax<kLogSoftmax, true>),
    kernel<false>("log_softmax", prepare_softmax<kLogSoftmax, false>),
    kernel<true>("layer_norm", prepare_trailing<kLayerNorm, true>),
    kernel<false>("layer_norm", prepare_trailing<kLayerNorm, false>),
    kernel<true>("rms_norm", prepare_trailing<kRmsNorm, true>),
    kernel<false>("rms_norm", prepare_trailing<kRmsNorm, false>),
    kernel<true>("group_norm", prepare_group_norm<true>),
    kernel<false>("group_norm", prepare_group_norm<false>),
};

}  // namespace

std::span<const KernelDef> norm() { return kKernels; }

}  // namespace hg::vulkan
