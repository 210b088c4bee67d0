// SPDX-License-Identifier: Apache-2.0
// Resampling of images, and sliding blocks as columns.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

bool one_of(std::string_view text, std::initializer_list<std::string_view> known) {
  for (std::string_view k : known)
    if (text == k) return true;
  return false;
}

// x: [n, c, spatial...], or dy for the gradient. The sizes in `attribute` replace the spatial
// sizes.
Status resized(InferContext& c, std::string_view attribute) {
  const TensorType& x = c.in(0);
  const int dims = x.rank() - 2;
  if (dims < 1 || dims > 3)
    return c.fail("x must be [n, c, spatial...] with one to three spatial dims, but is ", x.shape);
  const std::string& mode = c.attrs().string("mode");
  const bool nearest = one_of(mode, {"nearest", "nearest-exact"});
  if (!nearest && !(mode == "linear" && dims == 1) && !(mode == "trilinear" && dims == 3) &&
      !(one_of(mode, {"bilinear", "bicubic"}) && dims == 2))
    return c.fail("mode '", mode, "' is not defined for ", dims, " spatial dims");
  if (!nearest && !is_float(x.dtype))
    return c.fail("mode '", mode, "' needs a float tensor, x is ", x.dtype);
  if (c.attrs().flag("antialias") && !one_of(mode, {"bilinear", "bicubic"}))
    return c.fail("antialias is defined for bilinear and bicubic only, mode is '", mode, "'");
  const std::span<const Dim> size = c.attrs().integers(attribute);
  if (size.size() != static_cast<size_t>(dims))
    return c.fail(attribute, " has ", int64_t(size.size()), " numbers for ", dims, " spatial dims");
  if (!c.attrs().reals("scales").empty() && c.attrs().reals("scales").size() != size.size())
    return c.fail("scales has ", int64_t(c.attrs().reals("scales").size()), " numbers for ", dims,
                  " spatial dims");
  Shape shape = {x.shape[0], x.shape[1]};
  for (size_t i = 0; i < size.size(); ++i) {
    if (!c.require_at_least(size[i], 1) || !c.require_at_least(x.shape[i + 2], 1))
      return c.fail("sizes must be positive: x is ", x.shape, ", ", attribute, " has ", size[i]);
    shape.push_back(size[i]);
  }
  c.out(0) = {x.dtype, std::move(shape)};
  return {};
}
Status interpolate_infer(InferContext& c) { return resized(c, "size"); }
Status interpolate_grad_infer(InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("dy must be a float tensor, but is ", c.in(0).dtype);
  return resized(c, "input_size");
}

// Linear in x. Each op applies the transpose of the other to dy.
Status other_way(GradContext& c, std::string_view op, std::string_view size) {
  NamedAttrs attrs = {{size, Dims(c.in(0).shape().begin() + 2, c.in(0).shape().end())}};
  for (std::string_view name : {"mode", "align_corners", "antialias", "scales"})
    attrs.push_back({name, c.attrs().raw(name)});
  c.set_grad(0, c.graph().call(op, {c.dout(0)}, attrs));
  return {};
}
Status interpolate_grad(GradContext& c) { return other_way(c, "interpolate_grad", "input_size"); }
Status interpolate_grad_grad(GradContext& c) { return other_way(c, "interpolate", "size"); }

// x: [n, c, h, w], grid: [n, h', w', 2]; or x: [n, c, d, h, w], grid: [n, d', h', w', 3]
Status check_grid(const InferContext& c, const TensorType& x, const TensorType& grid) {
  const int dims = x.rank() - 2;
  if (!is_float(x.dtype)) return c.fail("x must be a float tensor, but is ", x.dtype);
  if (grid.dtype != x.dtype) return c.fail("x is ", x.dtype, ", grid is ", grid.dtype);
  if ((dims != 2 && dims != 3) || grid.rank() != x.rank() ||
      !c.require_equal(grid.shape.back(), Dim(dims)) || !c.require_equal(grid.shape[0], x.shape[0]))
    return c.fail("x must be [n, c, h, w] with grid [n, h', w', 2], or the same with depth: x is ",
                  x.shape, ", grid is ", grid.shape);
  for (size_t i = 2; i < x.shape.size(); ++i)
    if (!c.require_at_least(x.shape[i], 1)) return c.fail("x ", x.shape, " has no pixels");
  const std::string& mode = c.attrs().string("mode");
  if (!one_of(mode, {"bilinear", "nearest"}) && !(mode == "bicubic" && dims == 2))
    return c.fail("mode '", mode, "' is not defined for ", dims, " spatial dims");
  const std::string& padding = c.attrs().string("padding_mode");
  if (!one_of(padding, {"zeros", "border", "reflection"}))
    return c.fail("padding_mode is '", padding, "', expected one of zeros border reflection");
  return {};
}

// [n, c, h', w'], or with a depth dim
Shape sampled_shape(const TensorType& x, const TensorType& grid) {
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  return shape;
}

Status grid_sample_infer(InferContext& c) {
  const TensorType &x = c.in(0), &grid = c.in(1);
  HG_TRY(check_grid(c, x, grid));
  c.out(0) = {x.dtype, sampled_shape(x, grid)};
  return {};
}

Status grid_sample_grad_infer(InferContext& c) {
  HG_TRY(check_grid(c, c.in(1), c.in(2)));
  const TensorType sampled = {c.in(1).dtype, sampled_shape(c.in(1), c.in(2))};
  if (!c.require_equal(c.in(0), sampled))
    return c.fail("dy is ", c.in(0), ", but must be ", sampled);
  c.out(0) = c.in(1);
  c.out(1) = c.in(2);
  return {};
}

Status grid_sample_grad(GradContext& c) {
  NamedAttrs attrs;
  for (std::string_view name : {"mode", "padding_mode", "align_corners"})
    attrs.push_back({name, c.attrs().raw(name)});
  const std::vector<Value> d =
      c.graph().calls("grid_sample_grad", {c.dout(0), c.in(0), c.in(1)}, attrs);
  if (d.size() != 2) return {};
  c.set_grad(0, d[0]);
  c.set_grad(1, d[1]);
  return {};
}

// The number of blocks of each spatial dim: floor((s + 2 p - d (k - 1) - 1) / stride) + 1
struct Blocks {
  Dims kernel, counts;
};
Status blocks_of(const InferContext& c, std::span<const Dim> size, Blocks& blocks) {
  Dims lists[4];
  const std::string_view names[4] = {"kernel_size", "dilation", "padding", "stride"};
  for (int i = 0; i < 4; ++i) {
    Result<Dims> list = per_dim(c.attrs(), names[i], 2);
    if (!list.ok()) return c.fail(list.status().message());
    lists[i] = *list;
  }
  for (size_t i = 0; i < 2; ++i) {
    const Dim &k = lists[0][i], &d = lists[1][i], &p = lists[2][i], &s = lists[3][i];
    if (!c.require_at_least(k, 1) || !c.require_at_least(d, 1) || !c.require_at_least(s, 1) ||
        !c.require_at_least(p, 0))
      return c.fail("kernel_size ", k, ", dilation ", d, " and stride ", s,
                    " must be positive and padding ", p, " not negative");
    Dim count = floordiv(size[i] + 2 * p - d * (k - 1) - 1, s) + 1;
    if (!c.require_at_least(count, 1))
      return c.fail("a block of ", k, " does not fit into ", size[i]);
    blocks.counts.push_back(std::move(count));
  }
  blocks.kernel = lists[0];
  return {};
}

Status im2col_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.rank() != 4) return c.fail("x must be [n, c, h, w], but is ", x.shape);
  if (!is_float(x.dtype)) return c.fail("x must be a float tensor, but is ", x.dtype);
  Blocks b;
  HG_TRY(blocks_of(c, std::span(x.shape).subspan(2), b));
  c.out(0) = {x.dtype,
              {x.shape[0], x.shape[1] * b.kernel[0] * b.kernel[1], b.counts[0] * b.counts[1]}};
  return {};
}

Status col2im_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.rank() != 3) return c.fail("x must be [n, c * kernel, blocks], but is ", x.shape);
  if (!is_float(x.dtype)) return c.fail("x must be a float tensor, but is ", x.dtype);
  Result<Dims> size = per_dim(c.attrs(), "output_size", 2);
  if (!size.ok()) return c.fail(size.status().message());
  Blocks b;
  HG_TRY(blocks_of(c, *size, b));
  const Dim area = b.kernel[0] * b.kernel[1];
  if (!c.require_at_least(area, 1))
    return c.fail("a block of ", b.kernel[0], " times ", b.kernel[1]);
  if (x.shape[1].is_constant() && area.is_constant() &&
      x.shape[1].constant() % area.constant() != 0)
    return c.fail(x.shape[1], " rows do not divide into blocks of ", area);
  if (!c.require_equal(x.shape[2], b.counts[0] * b.counts[1]))
    return c.fail("x has ", x.shape[2], " blocks, output_size asks for ",
                  b.counts[0] * b.counts[1]);
  c.out(0) = {x.dtype, {x.shape[0], floordiv(x.shape[1], area), (*size)[0], (*size)[1]}};
  return {};
}

NamedAttrs block_attrs(const AttrReader& given) {
  NamedAttrs attrs;
  for (std::string_view name : {"kernel_size", "dilation", "padding", "stride"})
    attrs.push_back({name, given.raw(name)});
  return attrs;
}

// Each op is the transpose of the other.
Status im2col_grad(GradContext& c) {
  NamedAttrs attrs = block_attrs(c.attrs());
  attrs.push_back({"output_size", Dims{c.in(0).dim(2), c.in(0).dim(3)}});
  c.set_grad(0, c.graph().call("col2im", {c.dout(0)}, attrs));
  return {};
}
Status col2im_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("im2col", {c.dout(0)}, block_attrs(c.attrs())));
  return {};
}

constexpr OpDef kOps[] = {
    // Resizes x: [n, c, spatial...] -> [n, c, size...]. mode: nearest, nearest-exact, linear,
    // bilinear, trilinear or bicubic. scales: factors used to compute positions, one per spatial
    // dim; empty or 0: the ratios of the sizes.
    {.signature = "interpolate(x, size: int[], mode: str = \"nearest\", align_corners: bool = "
                  "false, antialias: bool = false, scales: float[] = []) -> y",
     .infer = interpolate_infer,
     .grad = interpolate_grad},
    {.signature = "interpolate_grad(dy, input_size: int[], mode: str = \"nearest\", "
                  "align_corners: bool = false, antialias: bool = false, scales: float[] = []) -> "
                  "dx",
     .infer = interpolate_grad_infer,
     .grad = interpolate_grad_grad,
     .traits = kInternal},
    // Samples x: [n, c, h, w] at grid: [n, h', w', 2], pairs (x, y) in [-1, 1] -> [n, c, h', w'].
    // Volumes have a depth dim and triples. mode: bilinear (also for volumes), nearest, or bicubic.
    {.signature = "grid_sample(x, grid, mode: str = \"bilinear\", padding_mode: str = \"zeros\", "
                  "align_corners: bool = false) -> y",
     .infer = grid_sample_infer,
     .grad = grid_sample_grad},
    {.signature = "grid_sample_grad(dy, x, grid, mode: str = \"bilinear\", padding_mode: str = "
                  "\"zeros\", align_corners: bool = false) -> dx, dgrid",
     .infer = grid_sample_grad_infer,
     .traits = kInternal},
    // Extracts the patches of x [n, c, h, w] as columns: [n, c * kernel area, number of patches].
    // Each list has one number per spatial dim, or one number for both.
    // C++: im2col(x, kernel_size, PatchOptions)
    {.signature = "im2col(x, kernel_size: int[], dilation: int[] = [1], padding: int[] = [0], "
                  "stride: int[] = [1]) -> y",
     .infer = im2col_infer,
     .grad = im2col_grad},
    // The transpose of im2col; overlapping patches are summed: [n, c * kernel area, patches] -> [n,
    // c, output_size...].
    // C++: col2im(x, output_size, kernel_size, PatchOptions)
    {.signature = "col2im(x, output_size: int[], kernel_size: int[], dilation: int[] = [1], "
                  "padding: int[] = [0], stride: int[] = [1]) -> y",
     .infer = col2im_infer,
     .grad = col2im_grad},
};

}  // namespace

std::span<const OpDef> image() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
