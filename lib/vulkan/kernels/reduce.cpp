// SPDX-License-Identifier: Apache-2.0
// Reductions: shaders/reduce.comp.
#include <cmath>

#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"
#include "lib/vulkan/kernels/strides.h"

namespace hg::vulkan {
namespace {

enum What : uint32_t {
  kSum,
  kProd,
  kMean,
  kAmax,
  kAmin,
  kAll,
  kAny,
  kArgmax,
  kArgmin,
  kMax,
  kMin,
  kVar,
  kPower,
  kLargest,
  kSmallest,
};

// The reduced dims; an empty list means all.
Sizes reduced_axes(const PrepareContext& c, bool several) {
  const int rank = c.in(0).rank();
  if (several) {
    const Sizes given = c.attrs().axes("dim", rank);
    if (!given.empty()) return given;
  } else if (c.attrs().has("dim")) {
    if (rank == 0) return {};
    return {c.attrs().axis("dim", rank)};
  }
  Sizes all;
  for (int d = 0; d < rank; ++d) all.push_back(d);
  return all;
}

Status add_reduction(PrepareContext& c, What what, const Sizes& axes, double number = 0) {
  const Tensor& x = c.in(0);
  if (c.out(0).count() == 0) return {};
  if (x.dtype == i64 && !c.device()->i64) return c.fail("the device does not compute in i64");
  Sizes kept, kept_strides, shape, strides;
  for (int d = 0; d < x.rank(); ++d) {
    bool reduced = false;
    for (const int64_t axis : axes) reduced |= axis == d;
    (reduced ? shape : kept).push_back(x.shape[d]);
    (reduced ? strides : kept_strides).push_back(x.strides[d]);
  }
  const int64_t results = kept.count(), count = shape.count();
  if (count == 0 && (what == kVar || what == kMean || what >= kAmax)) return c.fail("x is empty");
  // Neighboring results read neighboring elements, one invocation each. Long or few results are
  // shared by several invocations.
  const bool by_column = !kept.empty() && kept_strides.back() == 1 && kept.back() >= 16;
  const bool together = !by_column && count >= 32;
  std::string_view type = x.dtype == f32   ? "f32"
                          : x.dtype == f16 ? "f16"
                          : x.dtype == i64 ? "i64"
                                           : "";
  if (x.dtype == boolean) type = "bool";
  const bool tests = what == kAll || what == kAny;
  if (type.empty() || (type == "bool" && !tests && what != kSum))
    return c.fail("no reduction of ", x.dtype);
  if (tests && type != "bool") return c.fail("no test of ", x.dtype);
  const bool has_index = what >= kArgmax && what <= kMin;
  Dispatch dispatch;
  dispatch.code = shader(str_cat("reduce_", type, type == "bool" && what == kSum ? "_sum" : ""));
  dispatch.constants = {what, together ? 1u : 0u};
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0),
                       Operand::out(c, has_index ? c.output_count() - 1 : 0)};
  const Joined outer = join_dims(kept, {kept_strides}), inner = join_dims(shape, {strides});
  dispatch.params = Words()
                        .u(results)
                        .u(count)
                        .u(outer.shape.rank())
                        .all(outer.shape)
                        .all(outer.strides[0])
                        .u(inner.shape.rank())
                        .all(inner.shape)
                        .all(inner.strides[0])
                        .f(number)
                        .words();
  dispatch.groups =
      together ? groups_for(*c.device(), results, 1) : groups_for(*c.device(), results, 64);
  return add(c, std::move(dispatch));
}

template <What what>
Status prepare_dims(PrepareContext& c) {
  return add_reduction(c, what, reduced_axes(c, true));
}
template <What what>
Status prepare_dim(PrepareContext& c) {
  return add_reduction(c, what, reduced_axes(c, false));
}
Status prepare_var(PrepareContext& c) {
  return add_reduction(c, kVar, reduced_axes(c, true), c.attrs().real("correction"));
}
Status prepare_norm(PrepareContext& c) {
  const double p = c.attrs().real("ord");
  const What what = !std::isinf(p) ? kPower : p > 0 ? kLargest : kSmallest;
  return add_reduction(c, what, reduced_axes(c, true), p);
}

bool accepts_same(const PrepareContext& c) { return c.in(0).dtype == c.out(0).dtype; }
bool accepts_floats(const PrepareContext& c) {
  return c.in(0).dtype == c.out(0).dtype && (c.in(0).dtype == f32 || c.in(0).dtype == f16);
}
bool accepts_sum(const PrepareContext& c) {
  return accepts_same(c) || (c.in(0).dtype == boolean && c.out(0).dtype == i64);
}
bool accepts_index(const PrepareContext& c) {
  return c.out(c.output_count() - 1).dtype == i64 && c.in(0).dtype != boolean;
}

constexpr KernelDef kernel(std::string_view op, bool (*accepts)(const PrepareContext&),
                           Status (*prepare)(PrepareContext&)) {
  return kernel_row(op, "reduce", accepts, prepare, kAllStrided);
}

constexpr KernelDef kKernels[] = {
    kernel("sum", accepts_sum, prepare_dims<kSum>),
    kernel("prod", accepts_same, prepare_dims<kProd>),
    kernel("mean", accepts_floats, prepare_dims<kMean>),
    kernel("amax", accepts_same, prepare_dims<kAmax>),
    kernel("amin", accepts_same, prepare_dims<kAmin>),
    kernel("all", nullptr, prepare_dims<kAll>),
    kernel("any", nullptr, prepare_dims<kAny>),
    kernel("argmax", accepts_index, prepare_dim<kArgmax>),
    kernel("argmin", accepts_index, prepare_dim<kArgmin>),
    kernel("max", accepts_index, prepare_dim<kMax>),
    kernel("min", accepts_index, prepare_dim<kMin>),
    kernel("var", accepts_floats, prepare_var),
    kernel("norm", accepts_floats, prepare_norm),
};

}  // namespace

std::span<const KernelDef> reduce() { return kKernels; }

}  // namespace hg::vulkan
