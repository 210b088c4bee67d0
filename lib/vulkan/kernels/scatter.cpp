// SPDX-License-Identifier: Apache-2.0
// scatter: shaders/scatter.comp. The work is the elements of y times the length of a line of index;
// where that is far more than the CPU's, the CPU does it.
#include <algorithm>

#include "lib/run/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

constexpr int64_t kMostWork = int64_t{1} << 30;

bool accepts(const PrepareContext& c) {
  const Tensor& y = c.out(0);
  const bool sums = c.attrs().string("reduce") == "mean";
  const int64_t length = c.in(1).rank() == 0 ? 1 : c.in(1).shape[c.attrs().axis("dim", c.in(1).rank())];
  return c.in(1).dtype == i64 && (y.dtype == f32 || (y.dtype == i64 && device_of(c).i64 && !sums)) &&
         y.count() < kMostWork / std::max<int64_t>(1, length);
}

Status prepare(PrepareContext& c) {
  const Tensor &y = c.out(0), &index = c.in(1), &src = c.in(2);
  if (y.count() == 0) return {};
  constexpr std::string_view kNames[] = {"none", "add", "prod", "amax", "amin", "mean"};
  uint32_t reduce = 0;
  while (kNames[reduce] != c.attrs().string("reduce")) ++reduce;
  const bool scalar = y.rank() == 0;
  const Sizes one = {1};
  Dispatch dispatch;
  dispatch.code = shader(y.dtype == f32 ? "scatter_f32" : "scatter_i64");
  dispatch.constants = {reduce};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1), Operand::in(c, 2),
                       Operand::flag()};
  const bool includes = reduce == 0 || c.attrs().flag("include_self");
  dispatch.params = Words()
                        .u(y.count()).u(scalar ? 1 : y.rank())
                        .u(scalar ? 0 : c.attrs().axis("dim", y.rank())).u(includes ? 1 : 0)
                        .all(scalar ? one : y.shape).all(scalar ? one : index.shape)
                        .all(scalar ? one : src.strides)
                        .words();
  dispatch.groups = groups_for(device_of(c), y.count(), 64);
  HG_TRY(add(c, std::move(dispatch)));
  static_cast<Commands*>(c.state_.get())->error = "an index is out of range";
  return {};
}

constexpr KernelDef kKernels[] = {
    {.op = "scatter", .device = hg::Device::vulkan, .name = "lines", .accepts = accepts,
     .prepare = prepare, .strided = 4},
};

}  // namespace

std::span<const KernelDef> scatter() { return kKernels; }

}  // namespace hg::vulkan
