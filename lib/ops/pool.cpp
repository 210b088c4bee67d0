// SPDX-License-Identifier: Apache-2.0
// Pooling over one to three spatial dims. x: [n, c, spatial...].
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Status check_images(const InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.dtype == boolean) return c.fail("pooling of bool tensors is not defined");
  if (x.rank() < 3 || x.rank() > 5)
    return c.fail("x must be [n, c, spatial...] with one to three spatial dims, but is ", x.shape);
  return {};
}

// The pooled shape. For size s, kernel k, padding p, dilation d:
//   s' = floor((s + 2 p - d (k - 1) - 1) / stride) + 1
// With ceil_mode it is rounded up, without windows that would start in the right padding:
// s' = min(ceil(...) + 1, ceil((s + p) / stride)).
Status pooled_shape(const InferContext& c, const Shape& shape, bool dilated, Shape& out) {
  const int dims = static_cast<int>(shape.size()) - 2;
  const AttrReader& attrs = c.attrs();
  Result<Dims> kernel = per_dim(attrs, "kernel_size", dims);
  if (!kernel.ok()) return c.fail(kernel.status().message());
  Result<Dims> stride = attrs.integers("stride").empty() ? kernel : per_dim(attrs, "stride", dims);
  if (!stride.ok()) return c.fail(stride.status().message());
  Result<Dims> padding = per_dim(attrs, "padding", dims);
  if (!padding.ok()) return c.fail(padding.status().message());
  Result<Dims> dilation = dilated ? per_dim(attrs, "dilation", dims) : Dims(dims, Dim(1));
  if (!dilation.ok()) return c.fail(dilation.status().message());
  out = {shape[0], shape[1]};
  Dim window = 1;  // an overflow is rejected
  for (size_t i = 0; i < static_cast<size_t>(dims); ++i) {
    const Dim &k = (*kernel)[i], &s = (*stride)[i], &p = (*padding)[i], &d = (*dilation)[i];
    if (!c.require_at_least(k, 1) || !c.require_at_least(s, 1) || !c.require_at_least(d, 1) ||
        !c.require_at_least(p, 0))
      return c.fail("kernel_size ", k, ", stride ", s, " and dilation ", d,
                    " must be positive and padding ", p, " not negative");
    if (!c.require_at_least(shape[i + 2], 1)) return c.fail("x ", shape, " has no element to pool");
    const Dim reach = d * (k - 1) + 1;
    window = window * reach;
    if (p.is_constant() && reach.is_constant() && p.constant() > reach.constant() / 2)
      return c.fail("padding ", p, " is more than half of the window, which is ", reach, " wide");
    constexpr int64_t kWide = 1 << 20;  // kernels have tables of the window
    if (!(reach.is_constant() && reach.constant() <= kWide) &&
        !c.require_at_least(4 * shape[i + 2] + kWide - reach, 0))
      return c.fail("a window of ", reach, " elements for ", shape[i + 2],
                    " is nearly all padding");
    const Dim room = shape[i + 2] + 2 * p - reach;
    Dim size;
    if (attrs.flag("ceil_mode"))
      size = min(ceildiv(room, s) + 1, ceildiv(shape[i + 2] + p, s));
    else
      size = floordiv(room, s) + 1;
    if (!c.require_at_least(size, 1))
      return c.fail("a window of ", reach, " does not fit into ", shape[i + 2] + 2 * p,
                    " padded elements");
    out.push_back(std::move(size));
  }
  return {};
}

Status max_pool_infer(InferContext& c) {
  HG_TRY(check_images(c));
  c.out(0).dtype = c.in(0).dtype;
  return pooled_shape(c, c.in(0).shape, true, c.out(0).shape);
}

Status max_pool_with_indices_infer(InferContext& c) {
  HG_TRY(max_pool_infer(c));
  c.out(1) = {i64, c.out(0).shape};
  return {};
}

// [n, c, spatial...] as [n, c, positions]
Value flat_positions(const Value& x) {
  Dim positions = 1;
  for (int i = 2; i < x.rank(); ++i) positions = positions * x.dim(i);
  return reshape(x, {x.dim(0), x.dim(1), positions});
}

// dx is zero, except at the largest element of each window: dx[index] += dy
Value scattered(const Value& x, const Value& indices, const Value& dy) {
  const Value zeros = flat_positions(full_like(x, 0));
  const Value dx = x.graph()->call("scatter", {zeros, flat_positions(indices), flat_positions(dy)},
                                   {{"dim", 2}, {"reduce", "add"}});
  return reshape(dx, x.shape());
}

NamedAttrs max_attrs(const AttrReader& reader) {
  NamedAttrs attrs;
  for (std::string_view name : {"kernel_size", "stride", "padding", "dilation", "ceil_mode"})
    attrs.push_back({name, reader.raw(name)});
  return attrs;
}

Status max_pool_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("max_pool_grad", {c.in(0), c.dout(0)}, max_attrs(c.attrs())));
  return {};
}

Status max_pool_grad_infer(InferContext& c) {
  HG_TRY(max_pool_infer(c));
  if (!is_float(c.in(0).dtype)) return c.fail("x must be a float tensor, but is ", c.in(0).dtype);
  if (!c.require_equal(c.out(0), c.in(1)))
    return c.fail("dy must be the gradient of ", c.out(0), ", but is ", c.in(1));
  c.out(0) = c.in(0);
  return {};
}

Status max_pool_grad_expand(ExpandContext& c) {
  const std::vector<Value> found =
      c.graph().calls("max_pool_with_indices", {c.in(0)}, max_attrs(c.attrs()));
  if (found.size() == 2) c.set_out(0, scattered(c.in(0), found[1], c.in(1)));
  return {};
}

Status indexed_grad(GradContext& c) {
  c.set_grad(0, scattered(c.in(0), c.out(1), c.dout(0)));
  return {};
}

Status max_pool_with_indices_expand_to_values(ExpandContext& c) {
  const std::vector<Value> found =
      c.graph().calls("max_pool_with_indices", {c.in(0)}, max_attrs(c.attrs()));
  if (found.size() == 2) c.set_out(0, found[0]);
  return {};
}

Status check_float(const InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("x must be a float tensor, but is ", c.in(0).dtype);
  return {};
}

Status check_divisor(const InferContext& c) {
  if (c.attrs().has("divisor_override") && c.attrs().integer("divisor_override") == Dim(0))
    return c.fail("divisor_override is 0");
  return {};
}

Status avg_pool_infer(InferContext& c) {
  HG_TRY(check_images(c));
  HG_TRY(check_float(c));
  HG_TRY(check_divisor(c));
  c.out(0).dtype = c.in(0).dtype;
  return pooled_shape(c, c.in(0).shape, false, c.out(0).shape);
}

// The spatial sizes of a pooling's input, from the attribute `input_size`.
Status grad_shape(const InferContext& c, Shape& shape) {
  const std::span<const Dim> listed = c.attrs().integers("input_size");
  const Shape& dy = c.in(0).shape;
  if (listed.size() + 2 != dy.size())
    return c.fail("input_size has ", int64_t(listed.size()), " numbers, dy is ", dy);
  shape = {dy[0], dy[1]};
  shape.insert(shape.end(), listed.begin(), listed.end());
  return {};
}

Status avg_pool_grad_infer(InferContext& c) {
  HG_TRY(check_images(c));
  HG_TRY(check_float(c));
  HG_TRY(check_divisor(c));
  c.out(0).dtype = c.in(0).dtype;
  HG_TRY(grad_shape(c, c.out(0).shape));
  Shape pooled;
  HG_TRY(pooled_shape(c, c.out(0).shape, false, pooled));
  for (size_t i = 0; i < pooled.size(); ++i)
    if (!c.require_equal(pooled[i], c.in(0).shape[i]))
      return c.fail("dy is ", c.in(0).shape, ", it should be ", pooled);
  return {};
}

NamedAttrs avg_attrs(const AttrReader& given) {
  NamedAttrs attrs;
  for (std::string_view name :
       {"kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"})
    attrs.push_back({name, given.raw(name)});
  return attrs;
}

Dims spatial(const Value& x) { return Dims(x.shape().begin() + 2, x.shape().end()); }

// Each element of dx sums dy / divisor over the windows that contain it.
Status avg_pool_grad(GradContext& c) {
  NamedAttrs attrs = avg_attrs(c.attrs());
  attrs.push_back({"input_size", spatial(c.in(0))});
  c.set_grad(0, c.graph().call("avg_pool_grad", {c.dout(0)}, attrs));
  return {};
}
Status avg_pool_grad_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("avg_pool", {c.dout(0)}, avg_attrs(c.attrs())));
  return {};
}

// Window o of an adaptive pooling covers floor(o s / s') to ceil((o + 1) s / s').
Status adaptive_shape(const InferContext& c, Shape& shape) {
  const Shape& x = c.in(0).shape;
  const int dims = static_cast<int>(x.size()) - 2;
  Result<Dims> size = per_dim(c.attrs(), "output_size", dims);
  if (!size.ok()) return c.fail(size.status().message());
  shape = {x[0], x[1]};
  for (size_t i = 0; i < size->size(); ++i) {
    if (!c.require_at_least((*size)[i], 0)) return c.fail("output_size has a ", (*size)[i]);
    if (x[i + 2] == Dim(0) && !((*size)[i] == Dim(0)))
      return c.fail("x ", x, " has no element to pool");
    shape.push_back((*size)[i]);
  }
  return {};
}

Status adaptive_avg_pool_infer(InferContext& c) {
  HG_TRY(check_images(c));
  HG_TRY(check_float(c));
  c.out(0).dtype = c.in(0).dtype;
  return adaptive_shape(c, c.out(0).shape);
}

Status adaptive_max_pool_infer(InferContext& c) {
  HG_TRY(check_images(c));
  c.out(0).dtype = c.in(0).dtype;
  HG_TRY(adaptive_shape(c, c.out(0).shape));
  c.out(1) = {i64, c.out(0).shape};
  return {};
}

Status adaptive_avg_pool_grad_infer(InferContext& c) {
  HG_TRY(check_images(c));
  HG_TRY(check_float(c));
  c.out(0).dtype = c.in(0).dtype;
  return grad_shape(c, c.out(0).shape);
}

Status adaptive_avg_pool_grad(GradContext& c) {
  c.set_grad(
      0, c.graph().call("adaptive_avg_pool_grad", {c.dout(0)}, {{"input_size", spatial(c.in(0))}}));
  return {};
}
Status adaptive_avg_pool_grad_grad(GradContext& c) {
  c.set_grad(0,
             c.graph().call("adaptive_avg_pool", {c.dout(0)}, {{"output_size", spatial(c.in(0))}}));
  return {};
}

// x: [n, c, spatial...] with one to three spatial dims. Each list has one number per spatial dim,
// or one number for all of them. An empty stride equals the kernel size.
constexpr OpDef kOps[] = {
    // Largest element of each window; NaN if any element is NaN.
    // C++: max_pool(x, kernel_size, MaxPoolOptions)
    {.signature = "max_pool(x, kernel_size: int[], stride: int[] = [], padding: int[] = [0], "
                  "dilation: int[] = [1], ceil_mode: bool = false) -> y",
     .infer = max_pool_infer,
     .grad = max_pool_grad,
     .expand = max_pool_with_indices_expand_to_values},
    // dx is zero, except at the largest element of each window, the first of equal ones: += dy.
    {.signature = "max_pool_grad(x, dy, kernel_size: int[], stride: int[] = [], padding: int[] = "
                  "[0], dilation: int[] = [1], ceil_mode: bool = false) -> dx",
     .infer = max_pool_grad_infer,
     .expand = max_pool_grad_expand,
     .alias = 1,
     .traits = kInternal},
    // max_pool, and the position of each maximum, in row-major order within its channel: i64.
    // C++: max_pool_with_indices(x, kernel_size, MaxPoolOptions)
    {.signature = "max_pool_with_indices(x, kernel_size: int[], stride: int[] = [], padding: int[] "
                  "= [0], dilation: int[] = [1], ceil_mode: bool = false) -> y, indices",
     .infer = max_pool_with_indices_infer,
     .grad = indexed_grad},
    // Mean of each window: the sum divided by divisor_override if given, otherwise by the size of
    // the window with padding (count_include_pad) or without.
    // C++: avg_pool(x, kernel_size, AvgPoolOptions)
    {.signature = "avg_pool(x, kernel_size: int[], stride: int[] = [], padding: int[] = [0], "
                  "ceil_mode: bool = false, count_include_pad: bool = true, divisor_override: int? "
                  "= none) -> y",
     .infer = avg_pool_infer,
     .grad = avg_pool_grad},
    {.signature = "avg_pool_grad(dy, input_size: int[], kernel_size: int[], stride: int[] = [], "
                  "padding: int[] = [0], ceil_mode: bool = false, count_include_pad: bool = true, "
                  "divisor_override: int? = none) -> dx",
     .infer = avg_pool_grad_infer,
     .grad = avg_pool_grad_grad,
     .traits = kInternal},
    // Means of windows chosen to produce output_size elements.
    {.signature = "adaptive_avg_pool(x, output_size: int[]) -> y",
     .infer = adaptive_avg_pool_infer,
     .grad = adaptive_avg_pool_grad},
    {.signature = "adaptive_avg_pool_grad(dy, input_size: int[]) -> dx",
     .infer = adaptive_avg_pool_grad_infer,
     .grad = adaptive_avg_pool_grad_grad,
     .traits = kInternal},
    // Largest element of each window of adaptive_avg_pool, and its position as in
    // max_pool_with_indices.
    {.signature = "adaptive_max_pool(x, output_size: int[]) -> y, indices",
     .infer = adaptive_max_pool_infer,
     .grad = indexed_grad},
};

}  // namespace

std::span<const OpDef> pool() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
