// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions of one to three spatial dims, with a fused epilogue, and
// the gradient of a convolution's weight.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/fused.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// A list attribute with one number per spatial dim; one number stands for all.
Result<std::vector<Dim>> spatial(const AttrReader& attrs, std::string_view name, int dims) {
  const std::span<const Dim> given = attrs.integers(name);
  if (given.size() == 1) return std::vector<Dim>(dims, given[0]);
  if (given.size() != static_cast<size_t>(dims))
    return invalid_argument(name, " has ", int64_t(given.size()), " numbers for ", dims,
                            " spatial dims");
  return std::vector<Dim>(given.begin(), given.end());
}

struct Geometry {
  std::vector<Dim> stride, padding, dilation, output_padding;
};

Result<Geometry> geometry(const AttrReader& attrs, int dims, bool with_output_padding) {
  Geometry g;
  HG_TRY_ASSIGN(g.stride, spatial(attrs, "stride", dims));
  HG_TRY_ASSIGN(g.padding, spatial(attrs, "padding", dims));
  HG_TRY_ASSIGN(g.dilation, spatial(attrs, "dilation", dims));
  g.output_padding.assign(dims, Dim(0));
  if (with_output_padding) {
    HG_TRY_ASSIGN(g.output_padding, spatial(attrs, "output_padding", dims));
  }
  return g;
}

Result<Geometry> checked_geometry(const InferContext& c, int dims, bool with_output_padding) {
  Result<Geometry> read = geometry(c.attrs(), dims, with_output_padding);
  if (!read.ok()) return c.fail(read.status().message());
  const Geometry& g = *read;
  for (size_t i = 0; i < static_cast<size_t>(dims); ++i) {
    if (!c.require_at_least(g.stride[i], 1))
      return c.fail("stride is ", g.stride[i], ", not positive");
    if (!c.require_at_least(g.padding[i], 0))
      return c.fail("padding is ", g.padding[i], ", but must not be negative");
    if (!c.require_at_least(g.dilation[i], 1))
      return c.fail("dilation is ", g.dilation[i], ", not positive");
    if (!c.require_at_least(g.output_padding[i], 0))
      return c.fail("output_padding is ", g.output_padding[i], ", but must not be negative");
  }
  return read;
}

// Kernels store parts of images with their padding. The total must be addressable.
Status check_padded(const InferContext& c, const Dim& elements) {
  constexpr int64_t kMost = int64_t{1} << 44;
  if (elements.is_constant() && elements.constant() > kMost)
    return c.fail("an image with its padding has ", elements, " elements");
  return {};
}

// x: [n, c, spatial...]; weight: [out, c / groups, kernel...], or [c, out / groups, kernel...] if
// transposed. y: [n, out, spatial'...]. For size s, kernel k, padding p, dilation d:
//   s' = floor((s + 2 p - d (k - 1) - 1) / stride) + 1
//   s' = (s - 1) stride - 2 p + d (k - 1) + output_padding + 1      (transposed)
Status conv_infer(InferContext& c) {
  HG_TRY(check_activation(c));
  const TensorType& x = c.in(0);
  const TensorType& weight = c.in(1);
  const int dims = x.rank() - 2;
  if (dims < 1 || dims > 3 || weight.rank() != x.rank())
    return c.fail(
        "x must be [n, c, spatial...] with one to three spatial dims and weight [out, c / "
        "groups, kernel...]: x is ",
        x.shape, ", weight is ", weight.shape);
  if (x.dtype == boolean) return c.fail("convolutions of bool tensors are not defined");
  for (int i = 1; i < c.input_count(); ++i)
    if (c.has(i) && c.in(i).dtype != x.dtype)
      return c.fail("x is ", x.dtype, ", input ", i, " is ", c.in(i).dtype);
  const bool is_transposed = c.attrs().flag("transposed");
  HG_TRY_ASSIGN(const Geometry g, checked_geometry(c, dims, true));
  const Dim groups = c.attrs().integer("groups");
  if (!c.require_at_least(groups, 1)) return c.fail("groups is ", groups, ", not positive");

  const Dim& channels = x.shape[1];
  const Dim used = is_transposed ? weight.shape[0] : weight.shape[1] * groups;
  const Dim out = is_transposed ? weight.shape[1] * groups : weight.shape[0];
  if (!c.require_equal(channels, used))
    return c.fail("x has ", channels, " channels, weight ", weight.shape, " with ", groups,
                  " groups takes ", used);
  const Dim grouped = is_transposed ? channels : out;
  if (grouped.is_constant() && groups.is_constant() && grouped.constant() % groups.constant() != 0)
    return c.fail(grouped, " channels do not divide into ", groups, " groups");

  Shape shape = {x.shape[0], out};
  Dim padded = is_transposed ? out : channels;
  for (size_t i = 0; i < static_cast<size_t>(dims); ++i) {
    const Dim& size = x.shape[i + 2];
    const Dim& kernel = weight.shape[i + 2];
    if (!c.require_at_least(kernel, 1))
      return c.fail("weight ", weight.shape, " has an empty kernel");
    const Dim reach = g.dilation[i] * (kernel - 1) + 1;
    if (is_transposed) {
      if (g.output_padding[i].is_constant() && g.stride[i].is_constant() &&
          g.dilation[i].is_constant() && g.output_padding[i].constant() != 0 &&
          g.output_padding[i].constant() >=
              std::max(g.stride[i].constant(), g.dilation[i].constant()))
        return c.fail("output_padding ", g.output_padding[i], " must be below stride ", g.stride[i],
                      " or dilation ", g.dilation[i]);
      const Dim whole = (size - 1) * g.stride[i] + reach + g.output_padding[i];
      padded = padded * whole;
      shape.push_back(whole - 2 * g.padding[i]);
    } else {
      padded = padded * (size + 2 * g.padding[i]);
      const Dim room = size + 2 * g.padding[i] - reach;
      if (!c.require_at_least(room, 0))
        return c.fail("the kernel reaches over ", reach, " elements, the padded input has ",
                      size + 2 * g.padding[i]);
      shape.push_back(floordiv(room, g.stride[i]) + 1);
    }
    if (!c.require_at_least(shape.back(), 0))
      return c.fail("the output would have the size ", shape.back());
  }
  HG_TRY(check_padded(c, padded));
  HG_TRY(check_added(c, out, shape));
  c.out(0) = {x.dtype, std::move(shape)};
  return {};
}

// Keeps the first elements of each spatial dim, if rounding made the tensor larger.
Value cropped(Graph& g, Value x, const Shape& shape) {
  for (int i = 2; i < x.rank(); ++i) {
    const Dim& want = shape[i];
    if (x.dim(i) == want) continue;
    x = g.call("slice", {x}, {{"dim", i}, {"start", 0}, {"end", want}, {"step", 1}});
  }
  return x;
}

struct ConvAttrs {
  Geometry g;
  Dim groups;
  NamedAttrs named(bool transposed, const std::vector<Dim>& output_padding) const {
    return {{"stride", g.stride},
            {"padding", g.padding},
            {"dilation", g.dilation},
            {"transposed", transposed},
            {"output_padding", output_padding},
            {"groups", groups}};
  }
  NamedAttrs plain() const { return named(false, std::vector<Dim>(g.stride.size(), Dim(0))); }
};

// For images with at least this many pixels, flipping the weight pays off, because their
// convolution reads whole rows.
constexpr int64_t kFewPixels = 32;

// With stride 1, a transposed convolution is a convolution with the weight flipped and the channels
// of each group exchanged. Returns an empty Value for other strides, or if copying the weight would
// cost too much.
Value conv_with_flipped_weight(Graph& g, const ConvAttrs& a, const Value& dy, const Value& weight) {
  const bool is_depthwise = weight.dim(0) == a.groups && weight.dim(1) == Dim(1);
  Dim pixels = 1;
  ConvAttrs conv = a;
  std::vector<Dim> flipped;
  for (size_t i = 0; i < a.g.stride.size(); ++i) {
    const Dim& kernel = weight.shape()[i + 2];
    conv.g.padding[i] = a.g.dilation[i] * (kernel - 1) - a.g.padding[i];
    if (!(a.g.stride[i] == Dim(1)) || !conv.g.padding[i].is_constant() ||
        conv.g.padding[i].constant() < 0)
      return {};
    if (!(kernel == Dim(1))) flipped.emplace_back(static_cast<int64_t>(i) + 2);
    pixels = pixels * dy.shape()[i + 2];
  }
  if (!is_depthwise && pixels.is_constant() && pixels.constant() < kFewPixels) return {};
  Value w = weight;
  if (!is_depthwise) {  // [groups, o, c, kernel...] to [groups, c, o, kernel...]
    Shape parts = weight.shape(), whole = parts;
    parts[0] = floordiv(parts[0], a.groups);
    parts.insert(parts.begin(), a.groups);
    whole[0] = parts[2] * a.groups;
    whole[1] = parts[1];
    std::vector<Dim> dims = {0, 2, 1};
    for (int i = 3; i < static_cast<int>(parts.size()); ++i) dims.emplace_back(i);
    w = g.call("reshape", {w}, {{"shape", parts}});
    w = g.call("permute", {w}, {{"dims", dims}});
    w = g.call("reshape", {w}, {{"shape", whole}});
  }
  if (!flipped.empty()) w = g.call("flip", {w}, {{"dims", flipped}});
  return g.call("conv", {dy, w}, conv.plain());
}

// The gradient of an input of the shape `shape`: the transposed convolution with `weight`, with an
// output padding for the elements that the forward pass dropped by rounding.
Value conv_to_input(Graph& g, const ConvAttrs& a, const Value& dy, const Value& weight,
                    const Shape& shape) {
  if (Value flipped = conv_with_flipped_weight(g, a, dy, weight);
      flipped && flipped.shape() == shape)
    return flipped;
  std::vector<Dim> output_padding;
  for (size_t i = 0; i < a.g.stride.size(); ++i) {
    const Dim reach = a.g.dilation[i] * (weight.shape()[i + 2] - 1) + 1;
    const Dim made = (dy.shape()[i + 2] - 1) * a.g.stride[i] - 2 * a.g.padding[i] + reach;
    output_padding.push_back(shape[i + 2] - made);
  }
  return g.call("conv", {dy, weight}, a.named(true, output_padding));
}

Value weight_grad(Graph& g, const ConvAttrs& a, const Value& x, const Value& dy,
                  const Shape& weight) {
  return g.call("conv_weight_grad", {x, dy},
                {{"stride", a.g.stride},
                 {"padding", a.g.padding},
                 {"dilation", a.g.dilation},
                 {"groups", a.groups},
                 {"kernel", std::vector<Dim>(weight.begin() + 2, weight.end())}});
}

// dx is the reverse convolution. dweight correlates x and dy (exchanged if transposed). dbias sums
// dy over all dims except channels. The expansion supplies the gradient of an activation.
Status conv_grad(GradContext& c) {
  if (activation_attr(c.attrs()) != Activation::none) return {};
  Graph& g = c.graph();
  const Value x = c.in(0), weight = c.in(1);
  ConvAttrs a;
  HG_TRY_ASSIGN(a.g, geometry(c.attrs(), x.rank() - 2, true));
  a.groups = c.attrs().integer("groups");
  const bool is_transposed = c.attrs().flag("transposed");
  const Value dy = c.dout(0);
  if (c.needs(0)) {
    c.set_grad(0, is_transposed ? cropped(g, g.call("conv", {dy, weight}, a.plain()), x.shape())
                                : conv_to_input(g, a, dy, weight, x.shape()));
  }
  if (c.needs(1)) {
    c.set_grad(1, is_transposed ? weight_grad(g, a, dy, x, weight.shape())
                                : weight_grad(g, a, x, dy, weight.shape()));
  }
  if (c.input_count() > 2 && c.has(2) && c.needs(2)) {
    std::vector<Dim> dims = {0};
    for (int i = 2; i < x.rank(); ++i) dims.emplace_back(i);
    c.set_grad(2, g.call("sum", {dy}, {{"dim", dims}, {"keepdim", false}}));
  }
  if (c.input_count() > 3 && c.has(3) && c.needs(3)) c.set_grad(3, dy);
  return {};
}

Status conv_expand(ExpandContext& c) {
  Graph& g = c.graph();
  const Value bias = input_or_none(c, 2), residual = input_or_none(c, 3);
  const Activation activation = activation_attr(c.attrs());
  if (!residual && activation == Activation::none)
    return unsupported("conv: no kernel of this device supports it");
  NamedAttrs attrs;
  for (std::string_view name :
       {"stride", "padding", "dilation", "transposed", "output_padding", "groups", "exact"})
    attrs.push_back({name, c.attrs().raw(name)});
  if (activation != Activation::none) {
    const Value u = g.call("conv", {c.in(0), c.in(1), bias, residual}, attrs);
    c.set_out(0, apply_activation(u, activation));
    return {};
  }
  c.set_out(0, g.call("add", {g.call("conv", {c.in(0), c.in(1), bias}, attrs), residual}));
  return {};
}

// dw[o, i, k] = sum over n and s of dy[n, o, s] x[n, i, s stride - padding + k dilation], where i
// runs over the channels of o's group. x is 0 outside its sizes.
Status conv_weight_grad_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const TensorType& dy = c.in(1);
  const int dims = x.rank() - 2;
  if (dims < 1 || dims > 3 || dy.rank() != x.rank())
    return c.fail("x and dy must be [n, c, spatial...] with one to three spatial dims: x is ",
                  x.shape, ", dy is ", dy.shape);
  if (x.dtype != dy.dtype || x.dtype == boolean)
    return c.fail("x is ", x.dtype, ", dy is ", dy.dtype);
  if (!c.require_equal(x.shape[0], dy.shape[0]))
    return c.fail("batch sizes differ: x is ", x.shape, ", dy is ", dy.shape);
  HG_TRY_ASSIGN(const Geometry g, checked_geometry(c, dims, false));
  const std::span<const Dim> kernel = c.attrs().integers("kernel");
  if (kernel.size() != static_cast<size_t>(dims))
    return c.fail("kernel has ", int64_t(kernel.size()), " numbers for ", dims, " spatial dims");
  const Dim groups = c.attrs().integer("groups");
  if (!c.require_at_least(groups, 1)) return c.fail("groups is ", groups, ", not positive");
  for (const Dim& channels : {x.shape[1], dy.shape[1]})
    if (channels.is_constant() && groups.is_constant() &&
        channels.constant() % groups.constant() != 0)
      return c.fail(channels, " channels do not divide into ", groups, " groups");
  Shape shape = {dy.shape[1], floordiv(x.shape[1], groups)};
  Dim padded = x.shape[1];
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (!c.require_at_least(kernel[i], 1))
      return c.fail("kernel sizes must be positive, one is ", kernel[i]);
    shape.push_back(kernel[i]);
    // A transposed convolution may have fewer groups.
    const Dim around = x.shape[i + 2] + 2 * g.padding[i];
    padded = padded * around;
    const Dim room = around - g.dilation[i] * (kernel[i] - 1) - 1;
    const Dim most = floordiv(room, g.stride[i]) + 1;
    if (!(dy.shape[i + 2] == Dim(0)) && !c.require_at_least(most - dy.shape[i + 2], 0))
      return c.fail("dy is ", dy.shape, ", but of x ", x.shape, " there are ", most,
                    " positions in dim ", int64_t(i + 2));
  }
  HG_TRY(check_padded(c, padded));
  c.out(0) = {x.dtype, std::move(shape)};
  return {};
}

// Linear in both: dx is the transposed convolution of dy with ddw, d(dy) the convolution of x.
Status conv_weight_grad_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value x = c.in(0), dy = c.in(1), ddw = c.dout(0);
  ConvAttrs a;
  HG_TRY_ASSIGN(a.g, geometry(c.attrs(), x.rank() - 2, false));
  a.groups = c.attrs().integer("groups");
  if (c.needs(0)) c.set_grad(0, conv_to_input(g, a, dy, ddw, x.shape()));
  if (c.needs(1)) c.set_grad(1, cropped(g, g.call("conv", {x, ddw}, a.plain()), dy.shape()));
  return {};
}

// Each element of y (of x if transposed) is multiplied with one element of each kernel of its
// group.
double conv_flops(std::span<const Sizes> in, std::span<const Sizes> out, const AttrReader& attrs) {
  double weights = 1;  // weights per element
  for (int i = 1; i < in[1].rank(); ++i) weights *= static_cast<double>(in[1][i]);
  return 2 * weights * static_cast<double>((attrs.flag("transposed") ? in[0] : out[0]).count());
}

double conv_weight_grad_flops(std::span<const Sizes> in, std::span<const Sizes> out,
                              const AttrReader&) {
  double weights = 1;
  for (int i = 1; i < out[0].rank(); ++i) weights *= static_cast<double>(out[0][i]);
  return 2 * weights * static_cast<double>(in[1].count());
}

// Each list has one number per spatial dim, or one number for all of them.
constexpr OpDef kOps[] = {
    // activation(x * weight + bias + residual), where * is the convolution.
    //
    // - x: [n, c, spatial...] with one to three spatial dims, weight: [out, c / groups, kernel...],
    //   or [c, out / groups, kernel...] if transposed. bias: [out]. residual has the shape of the
    //   result.
    // - padding: zeros on both sides.
    // - output_padding: of transposed convolutions.
    // - activation: applied last.
    // - exact: adds each product without transforms (no Winograd). Sums of integers below 2^24 are
    //   then exact in f32.
    // C++: hg/ops/conv.h
    {.signature = "conv(x, weight, bias?, residual?, stride: int[] = [1], padding: int[] = [0], "
                  "dilation: int[] = [1], transposed: bool = false, output_padding: int[] = [0], "
                  "groups: int = 1, activation: str = \"none\", exact: bool = false) -> y",
     .infer = conv_infer,
     .grad = conv_grad,
     .expand = conv_expand,
     .traits = kProduct,
     .flops = conv_flops},
    {.signature = "conv_weight_grad(x, dy, stride: int[] = [1], padding: int[] = [0], "
                  "dilation: int[] = [1], groups: int = 1, kernel: int[]) -> dw",
     .infer = conv_weight_grad_infer,
     .grad = conv_weight_grad_grad,
     .traits = kInternal,
     .flops = conv_weight_grad_flops},
};

}  // namespace

std::span<const OpDef> conv() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
