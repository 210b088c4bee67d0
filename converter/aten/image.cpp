// SPDX-License-Identifier: Apache-2.0
// Resampling, pixel shuffles and sliding blocks.
#include <cmath>

#include "converter/rows/view.h"

namespace hg::convert::rows {
namespace {

// Returns floor(size * scale). For a symbolic size, the scale must be a ratio of small integers.
Dim scaled(Call& call, const Dim& size, double scale) {
  if (size.is_constant()) return static_cast<int64_t>(static_cast<double>(size.constant()) * scale);
  for (int64_t q = 1; q <= 64; ++q) {
    const double p = scale * static_cast<double>(q);
    if (p == std::floor(p) && p >= 1 && p < 1e6)
      return floordiv(size * static_cast<int64_t>(p), Dim(q));
  }
  call.refuse("scale_factors", "must be ratios of small whole numbers where sizes are symbolic");
}

// Handles the overloads with one scale per dim, and `vec` with a size or scales.
void upsample(Call& call, std::string_view mode, int dims, bool antialias) {
  const bool vec = call.find("input") != nullptr;
  const Value x = call.tensor(vec ? "input" : "self");
  if (x.rank() != dims + 2) call.refuse(vec ? "input" : "self", "has the wrong number of dims");
  Dims size = call.sizes("output_size", dims);
  std::vector<double> scales;
  if (vec) {
    if (call.is_of_data("scale_factors"))
      throw Refusal{
          "argument 'scale_factors' depends on data, but must be constants unless they only decide "
          "the size",
          "call interpolate with recompute_scale_factor=True, or with size="};
    scales = call.reals("scale_factors");
    if (!scales.empty() && scales.size() != static_cast<size_t>(dims))
      call.refuse("scale_factors", "must have one number for each spatial dim");
    if (size.empty() && scales.empty())
      call.refuse("output_size", "or scale_factors must be given");
    if (size.empty())
      for (int i = 0; i < dims; ++i) size.push_back(scaled(call, x.dim(i + 2), scales[i]));
  } else {
    const std::string_view names[3] = {"scales_d", "scales_h", "scales_w"};
    for (int i = 3 - dims; i < 3; ++i)
      scales.push_back(call.real(dims == 1 ? std::string_view("scales") : names[i], 0.0));
  }
  call.returns(call.graph().call("interpolate", {x},
                                 {{"size", size},
                                  {"mode", std::string(mode)},
                                  {"align_corners", call.flag("align_corners", false)},
                                  {"antialias", antialias},
                                  {"scales", scales}}));
}

template <int kDims>
void nearest(Call& call) {
  upsample(call, "nearest", kDims, false);
}
template <int kDims>
void nearest_exact(Call& call) {
  upsample(call, "nearest-exact", kDims, false);
}
void linear_resize(Call& call) { upsample(call, "linear", 1, false); }
void bilinear_resize(Call& call) { upsample(call, "bilinear", 2, false); }
void trilinear_resize(Call& call) { upsample(call, "trilinear", 3, false); }
void bicubic(Call& call) { upsample(call, "bicubic", 2, false); }
void bilinear_smooth(Call& call) { upsample(call, "bilinear", 2, true); }
void bicubic_smooth(Call& call) { upsample(call, "bicubic", 2, true); }

void grid_sampler(Call& call) {
  const int64_t mode = call.number("interpolation_mode"), padding = call.number("padding_mode");
  if (mode < 0 || mode > 2) call.refuse("interpolation_mode", "must be 0, 1 or 2");
  if (padding < 0 || padding > 2) call.refuse("padding_mode", "must be 0, 1 or 2");
  const char* modes[] = {"bilinear", "nearest", "bicubic"};
  const char* paddings[] = {"zeros", "border", "reflection"};
  call.returns(call.graph().call("grid_sample", {call.tensor("input"), call.tensor("grid")},
                                 {{"mode", modes[mode]},
                                  {"padding_mode", paddings[padding]},
                                  {"align_corners", call.flag("align_corners", false)}}));
}

// Returns the coordinates of the pixels of one dim in [-1, 1]: the centers of `size` equal parts.
// With align_corners, they include both ends; a single pixel is at 0.
Value positions(Call& call, const Dim& size, DType dtype, bool align_corners) {
  Graph& g = call.graph();
  const Value index = g.call("arange", {}, {{"end", size}, {"dtype", f64}});
  const Dim parts = align_corners ? max(size - Dim(1), Dim(1)) : size;
  const Value number =
      convert::cast(g.call("dims", {}, {{"values", std::vector<Dim>{parts}}}), f64);
  const Value alone = convert::cast(
      g.call("dims", {}, {{"values", std::vector<Dim>{max(Dim(2) - size, Dim(0))}}}), f64);
  const Value two = g.scalar(2.0, f64), one = g.scalar(1.0, f64);
  Value at = g.call("mul", {index, two});
  at = g.call("add", {at, align_corners ? alone : one});
  return convert::cast(g.call("sub", {g.call("div", {at, number}), one}), dtype);
}

// grid = (x, y, 1) theta^T for each pixel; theta: [n, 2, 3], or [n, 3, 4] with depth
void affine_grid(Call& call) {
  Graph& g = call.graph();
  const Value theta = call.tensor("theta");
  const Dims size = call.sizes("size");
  const int dims = static_cast<int>(size.size()) - 2;
  if (dims < 2 || dims > 3) call.refuse("size", "must be [n, c, h, w] or [n, c, d, h, w]");
  const bool align = call.flag("align_corners");
  const Shape spatial(size.begin() + 2, size.end());
  Shape column = spatial;
  column.push_back(1);
  std::vector<Value> columns;
  for (int i = dims - 1; i >= 0; --i) {
    Shape shape(dims + 1, Dim(1));
    shape[i] = spatial[i];
    const Value along = positions(call, spatial[i], theta.dtype(), align);
    columns.push_back(g.call("expand", {reshaped(along, shape)}, {{"shape", column}}));
  }
  columns.push_back(g.call("expand", {g.scalar(1.0, theta.dtype())}, {{"shape", column}}));
  const Value base =
      reshaped(g.call("concat", columns, {{"dim", dims}}), {Dim(1), count(spatial), Dim(dims + 1)});
  const Value grid = g.call("matmul", {base, permute(theta, {0, 2, 1})});
  Shape shape = {theta.dim(0)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(dims);
  call.returns(reshaped(grid, shape));
}

// [..., c r r, h, w] -> [..., c, h r, w r]
void pixel_shuffle(Call& call) {
  const Value x = call.tensor("self");
  const Dim r = call.size("upscale_factor");
  const int lead = x.rank() - 3;
  if (lead < 0) call.refuse("self", "must have at least 3 dims");
  Shape split(x.shape().begin(), x.shape().begin() + lead), shape = split;
  const Dim c = floordiv(x.dim(-3), r * r);
  for (const Dim& d : {c, r, r, x.dim(-2), x.dim(-1)}) split.push_back(d);
  for (const Dim& d : {c, x.dim(-2) * r, x.dim(-1) * r}) shape.push_back(d);
  Dims order;
  for (int i = 0; i < lead; ++i) order.emplace_back(i);
  for (int i : {0, 3, 1, 4, 2}) order.emplace_back(lead + i);
  call.returns(reshaped(permute(reshaped(x, split), order), shape));
}

// [..., c, h r, w r] -> [..., c r r, h, w]
void pixel_unshuffle(Call& call) {
  const Value x = call.tensor("self");
  const Dim r = call.size("downscale_factor");
  const int lead = x.rank() - 3;
  if (lead < 0) call.refuse("self", "must have at least 3 dims");
  Shape split(x.shape().begin(), x.shape().begin() + lead), shape = split;
  const Dim h = floordiv(x.dim(-2), r), w = floordiv(x.dim(-1), r);
  for (const Dim& d : {x.dim(-3), h, r, w, r}) split.push_back(d);
  for (const Dim& d : {x.dim(-3) * r * r, h, w}) shape.push_back(d);
  Dims order;
  for (int i = 0; i < lead; ++i) order.emplace_back(i);
  for (int i : {0, 2, 4, 1, 3}) order.emplace_back(lead + i);
  call.returns(reshaped(permute(reshaped(x, split), order), shape));
}

// Reads channels [groups, c / groups] as [c / groups, groups].
void channel_shuffle(Call& call) {
  const Value x = call.tensor("self");
  const Dim groups = call.size("groups");
  if (x.rank() < 3) call.refuse("self", "must have at least 3 dims");
  Shape split = {x.dim(0), groups, floordiv(x.dim(1), groups)};
  Dims order = {0, 2, 1};
  for (int i = 2; i < x.rank(); ++i) {
    split.push_back(x.dim(i));
    order.emplace_back(i + 1);
  }
  call.returns(reshaped(permute(reshaped(x, split), order), x.shape()));
}

// A single image temporarily gets a batch dim.
void blocks(Call& call, std::string_view op, int batched_rank) {
  Value x = call.tensor("self");
  const bool is_bool = x.dtype() == boolean && op == "im2col";  // im2col only moves elements
  if (is_bool) x = convert::cast(x, f32);
  const bool single = x.rank() == batched_rank - 1;
  if (single) {
    Shape shape = x.shape();
    shape.insert(shape.begin(), Dim(1));
    x = reshaped(x, shape);
  }
  NamedAttrs attrs;
  for (std::string_view name : {"kernel_size", "dilation", "padding", "stride"})
    attrs.push_back({name, call.sizes(name, 2)});
  if (op == "col2im") attrs.push_back({"output_size", call.sizes("output_size", 2)});
  Value y = call.graph().call(op, {x}, attrs);
  if (single) y = reshaped(y, Shape(y.shape().begin() + 1, y.shape().end()));
  call.returns(is_bool ? convert::cast(y, boolean) : y);
}
void im2col(Call& call) { blocks(call, "im2col", 4); }
void col2im(Call& call) { blocks(call, "col2im", 3); }

constexpr Row kRows[] = {
    {"aten::upsample_nearest1d", nearest<1>},
    {"aten::upsample_nearest2d", nearest<2>},
    {"aten::upsample_nearest3d", nearest<3>},
    {"aten::_upsample_nearest_exact1d", nearest_exact<1>},
    {"aten::_upsample_nearest_exact2d", nearest_exact<2>},
    {"aten::_upsample_nearest_exact3d", nearest_exact<3>},
    {"aten::upsample_linear1d", linear_resize},
    {"aten::upsample_bilinear2d", bilinear_resize},
    {"aten::upsample_trilinear3d", trilinear_resize},
    {"aten::upsample_bicubic2d", bicubic},
    {"aten::_upsample_bilinear2d_aa", bilinear_smooth},
    {"aten::_upsample_bicubic2d_aa", bicubic_smooth},
    {"aten::grid_sampler", grid_sampler},
    {"aten::grid_sampler_2d", grid_sampler},
    {"aten::grid_sampler_3d", grid_sampler},
    {"aten::affine_grid_generator", affine_grid},
    {"aten::pixel_shuffle", pixel_shuffle},
    {"aten::pixel_unshuffle", pixel_unshuffle},
    {"aten::channel_shuffle", channel_shuffle},
    {"aten::native_channel_shuffle", channel_shuffle},
    {"aten::im2col", im2col},
    {"aten::col2im", col2im},
};

}  // namespace

std::span<const Row> image() { return kRows; }

}  // namespace hg::convert::rows
