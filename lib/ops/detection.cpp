// SPDX-License-Identifier: Apache-2.0
// Ops of detection models, with torchvision's semantics: suppression of overlapping boxes, regions
// of feature maps, and convolutions with offsets as inputs.
#include <algorithm>

#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

bool is_wide(DType dtype) { return dtype == f32 || dtype == f64; }

Status nms_infer(InferContext& c) {
  const TensorType &boxes = c.in(0), &scores = c.in(1);
  if (!is_float(boxes.dtype)) return c.fail("boxes must be floats, but are ", boxes.dtype);
  if (scores.dtype != boxes.dtype)
    return c.fail("boxes are ", boxes.dtype, ", scores are ", scores.dtype);
  if (boxes.rank() != 2 || !c.require_equal(boxes.shape[1], 4))
    return c.fail("boxes must be [count, 4], but are ", boxes.shape);
  if (scores.rank() != 1 || !c.require_equal(scores.shape[0], boxes.shape[0]))
    return c.fail("scores must have one number for each box: they are ", scores.shape,
                  ", boxes are ", boxes.shape);
  if (c.has(2) && (c.in(2).dtype != boxes.dtype || c.in(2).rank() != 0))
    return c.fail("threshold must be one number of ", boxes.dtype, ", but is ", c.in(2).dtype,
                  c.in(2).shape);
  if (c.has(3) && (c.in(3).dtype != i64 || c.in(3).rank() != 1 ||
                   !c.require_equal(c.in(3).shape[0], boxes.shape[0])))
    return c.fail("groups must be one i64 for each box, but are ", c.in(3).dtype, c.in(3).shape);
  c.out(0) = {i64, {c.fresh_dim()}};
  return {};
}

// x: [n, c, h, w], rois: [count, 5]. `h` and `w` are sizes of the result.
Status check_rois(const InferContext& c, const TensorType& x, const TensorType& rois) {
  if (!is_wide(x.dtype)) return c.fail("x must be f32 or f64, but is ", x.dtype);
  if (rois.dtype != x.dtype) return c.fail("x is ", x.dtype, ", rois are ", rois.dtype);
  if (x.rank() != 4) return c.fail("x must be [n, c, h, w], but is ", x.shape);
  if (rois.rank() != 2 || !c.require_equal(rois.shape[1], 5))
    return c.fail("rois must be [count, 5], but are ", rois.shape);
  const std::span<const Dim> size = c.attrs().integers("output_size");
  if (size.size() != 2 || !c.require_at_least(size[0], 1) || !c.require_at_least(size[1], 1))
    return c.fail("output_size must be two positive numbers");
  return {};
}
Status check_pixels(const InferContext& c, const Dim& height, const Dim& width) {
  if (!c.require_at_least(height, 1) || !c.require_at_least(width, 1))
    return c.fail("an image of ", height, " times ", width, " has no pixels");
  return {};
}
// 0 or less: one sample per pixel.
Status check_sampling(const InferContext& c) {
  constexpr int64_t kMost = 1024;
  if (!c.require_at_least(kMost - c.attrs().integer("sampling_ratio"), 0))
    return c.fail("sampling_ratio is ", c.attrs().integer("sampling_ratio"), ", the most is ",
                  kMost);
  return {};
}
Status roi_infer(InferContext& c) {
  const TensorType &x = c.in(0), &rois = c.in(1);
  HG_TRY(check_rois(c, x, rois));
  HG_TRY(check_pixels(c, x.shape[2], x.shape[3]));
  const std::span<const Dim> size = c.attrs().integers("output_size");
  c.out(0) = {x.dtype, {rois.shape[0], x.shape[1], size[0], size[1]}};
  if (c.output_count() > 1) c.out(1) = {i64, c.out(0).shape};
  return {};
}

Status roi_align_infer(InferContext& c) {
  HG_TRY(check_sampling(c));
  const std::string& mode = c.attrs().string("mode");
  if (mode != "avg" && mode != "max") return c.fail("mode is '", mode, "', not 'avg' or 'max'");
  return roi_infer(c);
}

Status roi_align_grad_infer(InferContext& c) {
  const TensorType &dy = c.in(0), &rois = c.in(1);
  HG_TRY(check_rois(c, dy, rois));
  HG_TRY(check_sampling(c));
  const std::span<const Dim> size = c.attrs().integers("input_size");
  if (size.size() != 4) return c.fail("input_size must be [n, c, h, w]");
  HG_TRY(check_pixels(c, size[2], size[3]));
  if (!c.require_equal(dy.shape[0], rois.shape[0]) || !c.require_equal(dy.shape[1], size[1]))
    return c.fail("dy is ", dy.shape, ", rois are ", rois.shape, ", x has ", size[1], " channels");
  const std::span<const Dim> regions = c.attrs().integers("output_size");
  if (!c.require_equal(dy.shape[2], regions[0]) || !c.require_equal(dy.shape[3], regions[1]))
    return c.fail("dy is ", dy.shape, ", output_size is [", regions[0], ", ", regions[1], "]");
  c.out(0) = {dy.dtype, Shape(size.begin(), size.end())};
  return {};
}

// Each element of a region reads sampling_ratio^2 samples of four pixels. If the ratio is 0, data
// decides their number.
double roi_align_flops(const Sizes& regions, const AttrReader& attrs) {
  const Dim given = attrs.integer("sampling_ratio");
  const double ratio =
      given.is_constant() ? std::max(static_cast<double>(given.constant()), 1.0) : 1.0;
  return 8 * ratio * ratio * static_cast<double>(regions.count());
}

NamedAttrs roi_attrs(const AttrReader& given) {
  NamedAttrs attrs;
  for (std::string_view name : {"output_size", "spatial_scale", "sampling_ratio", "aligned"})
    attrs.push_back({name, given.raw(name)});
  return attrs;
}

// Linear in x. Each op is the transpose of the other. As in torchvision, rois have no gradient.
Status roi_align_grad(GradContext& c) {
  if (c.attrs().string("mode") == "max")
    return unsupported("roi_align has no gradient of mode 'max'");
  NamedAttrs attrs = roi_attrs(c.attrs());
  attrs.push_back({"input_size", c.in(0).shape()});
  c.set_grad(0, c.graph().call("roi_align_grad", {c.dout(0), c.in(1)}, attrs));
  return {};
}
Status roi_align_grad_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("roi_align", {c.dout(0), c.in(1)}, roi_attrs(c.attrs())));
  return {};
}

// Each pixel of the result comes from the position that argmax stores, counted in h w; -1: from
// none.
Status roi_pool_grad(GradContext& c) {
  const Value x = c.in(0), rois = c.in(1), argmax = c.out(1);
  Graph& g = c.graph();
  const Dim &channels = x.dim(1), area = x.dim(2) * x.dim(3);
  const Value image = cast(term::reshape(term::slice(rois, 1, 0, 1), {rois.dim(0), 1, 1, 1}), i64);
  const Value channel = term::reshape(g.call("arange", {}, {{"end", channels}, {"dtype", i64}}),
                                      {Dim(1), channels, Dim(1), Dim(1)});
  const Value channel_count = g.call("dims", {}, {{"values", Dims{channels}}});
  const Value area_count = g.call("dims", {}, {{"values", Dims{area}}});
  const Value nowhere = lt(argmax, term::number(argmax, 0));
  const Value place = (image * channel_count + channel) * area_count +
                      where(nowhere, term::number(argmax, 0), argmax);
  const Value dy = where(nowhere, term::number(c.dout(0), 0), c.dout(0));
  const Value zeros = term::expand(term::number(x, 0), {x.dim(0) * channels * area});
  const Value dx = g.call(
      "scatter",
      {zeros, term::reshape(place, {count(place.shape())}), term::reshape(dy, {count(dy.shape())})},
      {{"dim", 0}, {"reduce", "add"}});
  c.set_grad(0, term::reshape(dx, x.shape()));
  return {};
}

// x: [n, c, h, w], offset: [n, 2 groups kernel, h', w'], mask: [n, groups kernel, h', w']; kernel
// is the area of the kernel.
Status check_deform(const InferContext& c, const TensorType& x, const TensorType& offset,
                    const TensorType& mask) {
  if (!is_wide(x.dtype)) return c.fail("x must be f32 or f64, but is ", x.dtype);
  if (offset.dtype != x.dtype || mask.dtype != x.dtype)
    return c.fail("x is ", x.dtype, ", offset is ", offset.dtype, ", mask is ", mask.dtype);
  if (x.rank() != 4 || offset.rank() != 4 || mask.rank() != 4)
    return c.fail("x, offset and mask must have 4 dims: x is ", x.shape, ", offset is ",
                  offset.shape, ", mask is ", mask.shape);
  Dims lists[4];
  const std::string_view names[4] = {"kernel_size", "stride", "padding", "dilation"};
  for (int i = 0; i < 4; ++i) {
    HG_TRY_ASSIGN(lists[i], per_dim(c.attrs(), names[i], 2));
  }
  for (size_t i = 0; i < 2; ++i) {
    const Dim &k = lists[0][i], &s = lists[1][i], &p = lists[2][i], &d = lists[3][i];
    if (!c.require_at_least(k, 1) || !c.require_at_least(s, 1) || !c.require_at_least(p, 0) ||
        !c.require_at_least(d, 1))
      return c.fail("kernel_size ", k, ", stride ", s, " and dilation ", d,
                    " must be positive and padding ", p, " not negative");
    const Dim size = floordiv(x.shape[i + 2] + 2 * p - d * (k - 1) - 1, s) + 1;
    if (!c.require_equal(offset.shape[i + 2], size) || !c.require_equal(mask.shape[i + 2], size))
      return c.fail("offset ", offset.shape, " and mask ", mask.shape, " must have size ", size,
                    " in dim ", int64_t(i + 2));
  }
  const Dim area = lists[0][0] * lists[0][1];
  if (!c.require_equal(offset.shape[1], 2 * mask.shape[1]) ||
      !c.require_equal(offset.shape[0], x.shape[0]) || !c.require_equal(mask.shape[0], x.shape[0]))
    return c.fail("offset ", offset.shape, " and mask ", mask.shape, " do not fit x ", x.shape);
  const Dim groups = floordiv(mask.shape[1], area);
  if (!c.require_at_least(groups, 1) || !c.require_equal(groups * area, mask.shape[1]) ||
      (groups.is_constant() && x.shape[1].is_constant() &&
       x.shape[1].constant() % groups.constant() != 0))
    return c.fail(x.shape[1], " channels do not divide into ", groups, " groups of offsets");
  return {};
}

Status deform_im2col_infer(InferContext& c) {
  const TensorType &x = c.in(0), &offset = c.in(1);
  HG_TRY(check_deform(c, x, offset, c.in(2)));
  HG_TRY_ASSIGN(const Dims kernel, per_dim(c.attrs(), "kernel_size", 2));
  c.out(0) = {x.dtype,
              {x.shape[0], x.shape[1] * kernel[0] * kernel[1], offset.shape[2] * offset.shape[3]}};
  return {};
}
Status deform_im2col_grad_infer(InferContext& c) {
  const TensorType &dy = c.in(0), &x = c.in(1), &offset = c.in(2);
  HG_TRY(check_deform(c, x, offset, c.in(3)));
  HG_TRY_ASSIGN(const Dims kernel, per_dim(c.attrs(), "kernel_size", 2));
  if (dy.dtype != x.dtype || dy.rank() != 3 || !c.require_equal(dy.shape[0], x.shape[0]) ||
      !c.require_equal(dy.shape[1], x.shape[1] * kernel[0] * kernel[1]) ||
      !c.require_equal(dy.shape[2], offset.shape[2] * offset.shape[3]))
    return c.fail("dy must be [n, c kernel, blocks] of ", x.dtype, ", but is ", dy);
  for (int i = 0; i < 3; ++i) c.out(i) = c.in(i + 1);
  return {};
}
NamedAttrs deform_attrs(const AttrReader& given) {
  NamedAttrs attrs;
  for (std::string_view name : {"kernel_size", "stride", "padding", "dilation"})
    attrs.push_back({name, given.raw(name)});
  return attrs;
}
Status deform_im2col_grad(GradContext& c) {
  const std::vector<Value> d = c.graph().calls(
      "deform_im2col_grad", {c.dout(0), c.in(0), c.in(1), c.in(2)}, deform_attrs(c.attrs()));
  if (d.size() != 3) return {};
  for (int i = 0; i < 3; ++i) c.set_grad(i, d[i]);
  return {};
}

// weight: [out, c / groups, kernel...]; y = weight columns + bias, group by group
Status deform_conv2d(ExpandContext& c) {
  using namespace term;
  const Value x = widened(c.in(0)), weight = widened(c.in(1)), offset = widened(c.in(2));
  Value mask = widened(input_or_none(c, 4));
  const Dim groups = c.attrs().integer("groups");
  if (x.rank() != 4 || weight.rank() != 4 || offset.rank() != 4)
    return invalid_argument("deform_conv2d: x ", x.shape(), ", weight ", weight.shape(),
                            " and offset ", offset.shape(), " must have 4 dims");
  if (!c.require_at_least(groups, 1) || !c.require_equal(weight.dim(1) * groups, x.dim(1)) ||
      (groups.is_constant() && weight.dim(0).is_constant() &&
       weight.dim(0).constant() % groups.constant() != 0))
    return invalid_argument("deform_conv2d: x is ", x.shape(), ", weight is ", weight.shape(),
                            ", groups is ", groups);
  if (!mask)
    mask = expand(number(x, 1),
                  {offset.dim(0), floordiv(offset.dim(1), 2), offset.dim(2), offset.dim(3)});
  NamedAttrs attrs = {{"kernel_size", Dims{weight.dim(2), weight.dim(3)}}};
  for (std::string_view name : {"stride", "padding", "dilation"})
    attrs.push_back({name, c.attrs().raw(name)});
  const Value columns = c.graph().call("deform_im2col", {x, offset, mask}, attrs);
  if (columns.rank() != 3) return {};  // an error, which the graph stores
  const Dim rows = floordiv(columns.dim(1), groups), each = floordiv(weight.dim(0), groups);
  const Value w = reshape(weight, {Dim(1), groups, each, rows});
  const Value y = c.graph().call(
      "matmul", {w, reshape(columns, {columns.dim(0), groups, rows, columns.dim(2)})});
  Value out = reshape(y, {x.dim(0), weight.dim(0), offset.dim(2), offset.dim(3)});
  if (given(c, 3)) out = out + reshape(widened(c.in(3)), {weight.dim(0), Dim(1), Dim(1)});
  c.set_out(0, hg::cast(out, c.in(0).dtype()));
  return {};
}

// The semantics are those of torchvision.
constexpr OpDef kOps[] = {
    // Non-maximum suppression. boxes: [count, 4] as (x1, y1, x2, y2). Returns the indices (i64) of
    // the kept boxes, highest score first. A box is dropped if its IoU with a kept box exceeds
    // iou_threshold, or `threshold` (rank 0, the dtype of boxes) if given. With `groups`
    // (i64[count]), a box only drops boxes of its group, and the result has the groups in ascending
    // order.
    // C++: nms(boxes, scores, iou_threshold, threshold, groups)
    {.signature = "nms(boxes, scores, threshold?, groups?, iou_threshold: float = 0.0) -> y",
     .infer = nms_infer,
     .traits = kNoGradient | kDataDependent,
     .flops =
         [](std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
           return static_cast<double>(in[1].count()) * static_cast<double>(in[1].count());
         }},
    // x: [n, c, h, w], rois: [count, 5] as (image, x1, y1, x2, y2) -> [count, c, output_size...].
    // sampling_ratio 0 uses one sample per pixel of x. Mode "max" returns the largest weighted
    // pixel of the samples instead of their mean, as ONNX does, and has no gradient.
    {.signature = "roi_align(x, rois, output_size: int[], spatial_scale: float = 1.0, "
                  "sampling_ratio: int = 0, aligned: bool = false, mode: str = \"avg\") -> y",
     .infer = roi_align_infer,
     .grad = roi_align_grad,
     .flops = [](std::span<const Sizes>, std::span<const Sizes> out,
                 const AttrReader& attrs) { return roi_align_flops(out[0], attrs); }},
    {.signature = "roi_align_grad(dy, rois, input_size: int[], output_size: int[], spatial_scale: "
                  "float = 1.0, sampling_ratio: int = 0, aligned: bool = false) -> dx",
     .infer = roi_align_grad_infer,
     .grad = roi_align_grad_grad,
     .traits = kInternal,
     .flops = [](std::span<const Sizes> in, std::span<const Sizes>,
                 const AttrReader& attrs) { return roi_align_flops(in[0], attrs); }},
    // Returns the largest element of each part of a roi, and its position in h * w (i64; -1 if the
    // part is empty).
    {.signature = "roi_pool(x, rois, output_size: int[], spatial_scale: float = 1.0) -> y, argmax",
     .infer = roi_infer,
     .grad = roi_pool_grad},
    // As im2col, with each element read at its position plus offset (y, x), times mask.
    {.signature = "deform_im2col(x, offset, mask, kernel_size: int[], stride: int[] = [1], "
                  "padding: int[] = [0], dilation: int[] = [1]) -> y",
     .infer = deform_im2col_infer,
     .grad = deform_im2col_grad,
     .traits = kInternal},
    {.signature = "deform_im2col_grad(dy, x, offset, mask, kernel_size: int[], stride: int[] = "
                  "[1], padding: int[] = [0], dilation: int[] = [1]) -> dx, doffset, dmask",
     .infer = deform_im2col_grad_infer,
     .traits = kInternal},
    // Deformable convolution: each element of x [n, c, h, w] is read at its position plus an offset
    // and multiplied by mask. With `kernel` the kernel's area and channels divided into `parts`:
    // weight is [out, c / groups, kernel...], offset is [n, 2 * parts * kernel, h', w'] as (y, x),
    // and mask is [n, parts * kernel, h', w'].
    // C++: deform_conv2d(x, weight, offset, bias, mask, DeformConvOptions)
    {.signature = "deform_conv2d(x, weight, offset, bias?, mask?, stride: int[] = [1], padding: "
                  "int[] = [0], dilation: int[] = [1], groups: int = 1) -> y",
     .expand = deform_conv2d},
};

}  // namespace

std::span<const OpDef> detection() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
