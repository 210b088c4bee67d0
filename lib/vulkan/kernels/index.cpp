// SPDX-License-Identifier: Apache-2.0
// Ops that select elements by index: shaders/pick.comp.
#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

Status add_pick(PrepareContext& c, uint32_t what, const Words& words) {
  const Tensor& y = c.out(0);
  if (y.count() == 0) return {};
  Dispatch dispatch;
  dispatch.code = shader(str_cat("pick_", 8 * size_of(y.dtype)));
  dispatch.constants = {what};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1), Operand::flag()};
  dispatch.params = words.words();
  dispatch.groups = groups_for(*c.device(), y.count());
  HG_TRY(add(c, std::move(dispatch)));
  c.state<Commands>()->error = "an index is out of range";
  return {};
}

Status prepare_gather(PrepareContext& c) {
  const Tensor &x = c.in(0), &y = c.out(0);
  const bool is_scalar = x.rank() == 0;
  const int axis = is_scalar ? 0 : c.attrs().axis("dim", x.rank());
  Sizes strides = x.strides;
  if (!is_scalar) strides[axis] = 0;
  return add_pick(c, 0,
                  Words()
                      .u(y.count())
                      .u(is_scalar ? 1 : x.shape[axis])
                      .u(is_scalar ? 0 : x.strides[axis])
                      .u(y.rank())
                      .all(y.shape)
                      .all(strides));
}

Status add_rows(PrepareContext& c, int axis) {
  const Tensor& x = c.in(0);
  int64_t block = 1;
  for (int d = axis + 1; d < x.rank(); ++d) block *= x.shape[d];
  return add_pick(
      c, 1,
      Words().u(c.out(0).count()).u(x.rank() == 0 ? 1 : x.shape[axis]).u(block).u(c.in(1).count()));
}
Status prepare_index_select(PrepareContext& c) {
  return add_rows(c, c.in(0).rank() == 0 ? 0 : c.attrs().axis("dim", c.in(0).rank()));
}
Status prepare_embedding(PrepareContext& c) { return add_rows(c, 0); }

bool accepts(const PrepareContext& c) { return c.in(1).dtype == i64; }

constexpr KernelDef kernel(std::string_view op, Status (*prepare)(PrepareContext&),
                           uint32_t strided) {
  return kernel_row(op, "pick", accepts, prepare, strided);
}

constexpr KernelDef kKernels[] = {
    kernel("gather", prepare_gather, 1),
    kernel("index_select", prepare_index_select, 0),
    kernel("embedding", prepare_embedding, 0),
};

}  // namespace

std::span<const KernelDef> index() { return kKernels; }

}  // namespace hg::vulkan
