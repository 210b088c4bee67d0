// SPDX-License-Identifier: Apache-2.0
// scatter: shaders/scatter.comp. Many lines are computed one per invocation. Otherwise the work is
// the elements of y times the length of a line of index; if that is far more than on the CPU, the
// CPU computes it.
#include <algorithm>

#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

constexpr int64_t kMostWork = int64_t{1} << 30;
constexpr int64_t kManyLines = 64;  // of y, for which one per invocation suffices

int64_t length_along(const PrepareContext& c, const Tensor& tensor) {
  return tensor.rank() == 0 ? 1 : tensor.shape[c.attrs().axis("dim", tensor.rank())];
}

bool accepts_types(const PrepareContext& c) {
  const DType dtype = c.out(0).dtype;
  const bool is_mean = c.attrs().string("reduce") == "mean";
  return c.in(1).dtype == i64 && (dtype == f32 || (dtype == i64 && c.device()->i64 && !is_mean));
}

bool accepts_lines(const PrepareContext& c) {
  const int64_t length = std::max<int64_t>(1, length_along(c, c.in(1)));
  return accepts_types(c) && c.out(0).count() < kMostWork / length;
}

bool accepts_sequential(const PrepareContext& c) {
  const std::string& reduce = c.attrs().string("reduce");
  const int64_t length = std::max<int64_t>(1, length_along(c, c.out(0)));
  return accepts_types(c) && reduce != "mean" &&
         (reduce == "none" || c.attrs().flag("include_self")) &&
         c.out(0).count() / length >= kManyLines;
}

template <bool sequential>
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
  dispatch.constants = {reduce, sequential ? 1u : 0u};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1), Operand::in(c, 2),
                       Operand::flag()};
  const bool includes = reduce == 0 || c.attrs().flag("include_self");
  const int64_t work = sequential ? y.count() / length_along(c, y) : y.count();
  dispatch.params = Words()
                        .u(work)
                        .u(scalar ? 1 : y.rank())
                        .u(scalar ? 0 : c.attrs().axis("dim", y.rank()))
                        .u(includes ? 1 : 0)
                        .all(scalar ? one : y.shape)
                        .all(scalar ? one : index.shape)
                        .all(scalar ? one : src.strides)
                        .words();
  dispatch.groups = groups_for(*c.device(), work, 64);
  HG_TRY(add(c, std::move(dispatch)));
  c.state<Commands>()->error = "an index is out of range";
  return {};
}

constexpr KernelDef kKernels[] = {
    kernel_row("scatter", "sequential", accepts_sequential, prepare<true>, 4),
    kernel_row("scatter", "lines", accepts_lines, prepare<false>, 4),
};

}  // namespace

std::span<const KernelDef> scatter() { return kKernels; }

}  // namespace hg::vulkan
