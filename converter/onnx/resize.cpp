// SPDX-License-Identifier: Apache-2.0
// Resize, Upsample and GridSample. Modes that torch's interpolation lacks are computed axis by
// axis: each result element is a sum of a few input elements, the taps.
#include <algorithm>
#include <cmath>

#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {
namespace {

constexpr double kMostTaps = 4096, kMostSize = 1ll << 40;

struct Settings {
  std::string mode, coordinates, nearest;
  double a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

struct Axis {
  int dim = 0;
  Dim in, out;
  std::optional<double> scale;  // if constant
  Value scale_value;            // f64, rank 0; none if symbolic sizes determine it
  Value roi_start, roi_end;     // f64, rank 0; only for tf_crop_and_resize
  bool scaled = true;           // the scale is not just the quotient of the sizes
};

Value real(Graph& g, const Dim& size) {
  if (size.is_constant()) return g.scalar(static_cast<double>(size.constant()), f64);
  return cast(reshape(g.call("dims", {}, {{"values", Dims{size}}}), {}), f64);
}

// Returns the input coordinate of each result element: f64[out]
Value coordinates(Node& n, const Axis& axis, const Settings& s) {
  Graph& g = n.graph();
  const Value i = cast(g.call("arange", {}, {{"end", axis.out}}), f64);
  const Value in = real(g, axis.in), scale = axis.scale_value, one = g.scalar(1.0, f64);
  const Value length = scale * in;  // before it was rounded down
  const std::string& mode = s.coordinates;
  const Value half = (i + 0.5) / scale - 0.5;
  if (mode == "half_pixel") return half;
  if (mode == "asymmetric") return i / scale;
  if (mode == "pytorch_half_pixel") {
    if (axis.out.is_constant()) return axis.out == Dim(1) ? i - 0.5 : half;
    return where(gt(length, one), half, constant_like(half, -0.5));
  }
  if (mode == "half_pixel_symmetric") return in / 2.0 * (1.0 - real(g, axis.out) / length) + half;
  if (mode == "align_corners") {
    const Value apart = where(gt(length, one), length - 1.0, one);
    return where(gt(length, one), i * (in - 1.0) / apart, i * 0.0);
  }
  if (mode == "tf_crop_and_resize") {
    const Value width = axis.roi_end - axis.roi_start;
    const Value apart = where(gt(length, one), length - 1.0, one);
    const Value from =
        where(gt(length, one), i * width * (in - 1.0) / apart, i * 0.0 + width * (in - 1.0) / 2.0);
    return from + axis.roi_start * (in - 1.0);
  }
  n.refuse(str_cat("attribute 'coordinate_transformation_mode' is '", mode, "'"));
}

// Returns the weight of an element at this distance: f64
Value weight_at(const Value& distance, const Settings& s) {
  const Value d = hg::abs(distance), zero = constant_like(d, 0);
  if (s.mode == "linear") return maximum(1.0 - d, zero);
  const double a = s.a;
  const Value near = ((a + 2) * d - (a + 3)) * d * d + 1.0;
  const Value far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return where(le(d, constant_like(d, 1)), near, where(lt(d, constant_like(d, 2)), far, zero));
}

// Antialiases with a non-constant scale, for which the number of taps varies: a matrix product with
// weights [out, in]. Weights of elements outside x are added to those of its ends.
Value antialiased(Node& n, const Value& x, const Axis& axis, const Settings& s, const Value& at) {
  Graph& g = n.graph();
  const auto counted = [&](const Dim& end) { return g.call("arange", {}, {{"end", end}}); };
  const Value zero = g.scalar(0.0, f64), last = real(g, axis.in) - 1.0;
  const Value scale = minimum(axis.scale_value, constant_like(axis.scale_value, 1));
  if (s.coordinates == "tf_crop_and_resize")
    n.refuse("the scale is open, and a part of the input is to be antialiased");
  const int64_t reach = s.mode == "linear" ? 1 : 2;
  const Dim taps = axis.scaled
                       ? n.call().size_of(cast(ceil(static_cast<double>(reach) / scale), i64))
                       : max(Dim(reach), ceildiv(Dim(reach) * axis.in, axis.out));
  const Dim beyond = taps + Dim(1);
  const Dim width = axis.in + beyond * Dim(2);
  const Value place = cast(counted(width) - size_value(g, beyond), f64);  // f64[width]
  const Value row = reshape(place, {1, width});
  const Value inside = logical_and(ge(row, zero), le(row, last));
  Value weights = weight_at((row - reshape(at, {axis.out, 1})) * scale, s);
  if (s.exclude_outside) weights = where(inside, weights, zero);
  weights = weights / sum(weights, {1}, true);
  weights = n.op(
      "index_reduce",
      {expand(zero, {axis.out, axis.in}), cast(minimum(maximum(place, zero), last), i64), weights},
      {{"dim", 1}, {"reduce", "add"}});
  Dims last_dim = range(x.rank());
  std::swap(last_dim[axis.dim], last_dim.back());
  const Value y = matmul(permute(x, last_dim), cast(permute(weights, {1, 0}), x.dtype()));
  return permute(y, last_dim);
}

Value resized_axis(Node& n, const Value& x, const Axis& axis, const Settings& s) {
  Graph& g = n.graph();
  const Value at = coordinates(n, axis, s);
  const Value last = real(g, axis.in) - 1.0, zero = g.scalar(0.0, f64);
  const auto pick = [&](const Value& place) {
    const Value inside = minimum(maximum(place, zero), last);
    return n.op("index_select", {x, cast(inside, i64)}, {{"dim", axis.dim}});
  };
  Shape along(x.rank(), Dim(1));
  along[axis.dim] = axis.out;
  Value y;
  if (s.mode == "nearest") {
    const std::string& rounding = s.nearest;
    if (rounding == "round_prefer_floor")
      y = pick(ceil(at - 0.5));
    else if (rounding == "round_prefer_ceil")
      y = pick(floor(at + 0.5));
    else if (rounding == "floor")
      y = pick(floor(at));
    else if (rounding == "ceil")
      y = pick(ceil(at));
    else if (rounding == "outwards")  // Resize of opset 10
      y = pick(where(lt(axis.scale_value, g.scalar(1.0, f64)), ceil(at), floor(at)));
    else
      n.refuse(str_cat("attribute 'nearest_mode' is '", rounding, "'"));
  } else {
    const int reach = s.mode == "linear" ? 1 : 2;
    int64_t first = 1 - reach, count = 2 * reach;
    double scale = 1;
    if (s.antialias) {
      if (!axis.scale) return antialiased(n, x, axis, s, at);
      scale = std::min(*axis.scale, 1.0);
      if (!(scale * kMostTaps > reach)) n.refuse(str_cat("its scale is ", scale));
      first = static_cast<int64_t>(std::floor(-reach / scale)) + 1;
      count = 2 * reach - 2 * first - (reach == 2 ? 2 : 0);
    }
    const Value base = ceil(at) - 1.0;
    Values places, weights;
    Value total;
    for (int64_t t = first; t < first + count; ++t) {
      const Value place = base + static_cast<double>(t);
      Value weight = weight_at((place - at) * scale, s);
      if (s.exclude_outside)
        weight = where(logical_and(ge(place, zero), le(place, last)), weight, zero);
      places.push_back(place);
      weights.push_back(weight);
      total = total ? total + weight : weight;
    }
    const bool normalised = s.antialias || s.exclude_outside;
    for (size_t t = 0; t < places.size(); ++t) {
      const Value weight = normalised ? weights[t] / total : weights[t];
      const Value part = pick(places[t]) * reshape(cast(weight, x.dtype()), along);
      y = y ? y + part : part;
    }
  }
  if (s.coordinates == "tf_crop_and_resize") {
    const Value outside = logical_or(lt(at, zero), gt(at, last));
    y = where(reshape(outside, along), constant_like(y, s.extrapolation), y);
  }
  if (!y) n.refuse(std::string(g.take_status().message()));
  return y;
}

// Returns whether every element of an axis is repeated exactly 2, 4 or 8 times, so that rounding of
// coordinates does not matter.
bool is_repeated(const Axis& axis, const Settings& s) {
  const bool from_start = s.coordinates == "asymmetric" && s.nearest == "floor";
  const bool from_middle =
      (s.coordinates == "half_pixel" || s.coordinates == "pytorch_half_pixel") &&
      s.nearest.starts_with("round_prefer");
  if (!from_start && !from_middle) return false;
  for (const int64_t times : {2, 4, 8})
    if (axis.out == axis.in * Dim(times) &&
        (!axis.scaled || axis.scale == static_cast<double>(times)))
      return true;
  return false;
}

// Uses torch's "nearest" for images whose elements are repeated. For other quotients torch computes
// coordinates in f32.
Value repeated(Node& n, const Value& x, const std::vector<Axis>& axes, const Settings& s) {
  if (!is_float(x.dtype()) || x.rank() < 3 || x.rank() > 5) return {};
  Dims size(x.shape().begin() + 2, x.shape().end());
  for (const Axis& axis : axes) {
    if (axis.dim < 2 || !is_repeated(axis, s)) return {};
    size[axis.dim - 2] = axis.out;
  }
  return n.op("interpolate", {x}, {{"size", size}, {"mode", "nearest"}});
}

// Uses torch's interpolation if it has the same semantics and handles all axes at once.
Value interpolated(Node& n, Value x, const std::vector<Axis>& axes, const Settings& s) {
  const int spatial = x.rank() - 2;
  if (!is_float(x.dtype()) || spatial < 1 || spatial > 3 || s.antialias || s.exclude_outside)
    return {};
  const bool corners = s.coordinates == "align_corners";
  if (!corners && s.coordinates != "half_pixel" && s.coordinates != "pytorch_half_pixel") return {};
  if (s.mode == "cubic" && (spatial != 2 || s.a != -0.75)) return {};
  if (s.mode != "linear" && s.mode != "cubic") return {};
  Dims size(x.shape().begin() + 2, x.shape().end());
  std::vector<double> scales(spatial, 1.0);
  bool scaled = false;
  for (const Axis& axis : axes) {
    if (axis.dim < 2 || (axis.scaled && !axis.scale)) return {};
    if (s.coordinates == "pytorch_half_pixel" && axis.out.lower_bound() <= 1 &&
        (axis.scaled || s.mode != "linear"))
      return {};
    if (corners && axis.scaled) return {};  // ONNX divides by the length before rounding
    // If the size does not change in spite of a scale, torch copies.
    if (s.mode == "linear" && axis.scaled && *axis.scale > 1 && *axis.scale < 1.5 &&
        (axis.out - axis.in).lower_bound() <= 0)
      return {};
    size[axis.dim - 2] = axis.out;
    if (!axis.scaled) continue;
    scales[axis.dim - 2] = *axis.scale;
    scaled = true;
  }
  // pytorch_half_pixel maps a single result element to the first input element; torch maps it to
  // the middle.
  if (s.coordinates == "pytorch_half_pixel")
    for (const Axis& axis : axes)
      if (axis.out.lower_bound() <= 1)
        x = slice(x, axis.dim, 0, min(axis.in, (axis.in - 1) * min(max(axis.out - 1, 0), 1) + 1));
  static constexpr const char* kLinear[] = {"linear", "bilinear", "trilinear"};
  NamedAttrs attrs = {{"size", size},
                      {"mode", s.mode == "cubic" ? "bicubic" : kLinear[spatial - 1]},
                      {"align_corners", corners}};
  if (scaled) attrs.push_back({"scales", scales});
  return n.op("interpolate", {x}, attrs);
}

Value resized(Node& n, Value x, const std::vector<Axis>& all, const Settings& s) {
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    n.refuse(str_cat("attribute 'mode' is '", s.mode, "'"));
  std::vector<Axis> axes;
  for (const Axis& axis : all) {
    const bool same = axis.scale == 1.0 && axis.in == axis.out;
    if (!same || s.coordinates == "tf_crop_and_resize") axes.push_back(axis);
  }
  if (axes.empty()) return x;
  if (s.mode == "nearest") {
    if (const Value y = repeated(n, x, axes, s)) return y;
  } else if (const Value y = interpolated(n, x, axes, s)) {
    return y;
  }
  if (s.mode != "nearest" && !is_float(x.dtype()))
    n.refuse(str_cat("it interpolates ", x.dtype(), "; floats are supported"));
  for (Axis& axis : axes) {
    if (!axis.scale_value) axis.scale_value = real(n.graph(), axis.out) / real(n.graph(), axis.in);
    x = resized_axis(n, x, axis, s);
  }
  return x;
}

// Returns floor(in * scale + more).
int64_t scaled_size(Node& n, int64_t in, double scale, double more) {
  const double size = std::floor(static_cast<double>(in) * scale + more);
  if (!(size >= 0 && size < kMostSize))
    n.refuse(str_cat("a size of ", in, " times the scale ", scale));
  return static_cast<int64_t>(size);
}

Dim scaled_size(Node& n, const Axis& axis) {
  if (axis.scale && !(*axis.scale > 0 && 1 / *axis.scale < kMostSize))
    n.refuse(str_cat("its scale is ", *axis.scale));
  if (axis.scale && axis.in.is_constant())
    return scaled_size(n, axis.in.constant(), *axis.scale, 0);
  if (axis.scale && *axis.scale == std::floor(*axis.scale) && *axis.scale < 1e6)
    return axis.in * Dim(static_cast<int64_t>(*axis.scale));
  if (axis.scale && 1 / *axis.scale == std::floor(1 / *axis.scale))
    return floordiv(axis.in, Dim(static_cast<int64_t>(1 / *axis.scale)));
  return n.call().size_of(cast(floor(real(n.graph(), axis.in) * axis.scale_value), i64));
}

void scale_axis(Node& n, Axis& axis, int input, size_t at) {
  Graph& g = n.graph();
  if (n.is_constant(input)) {
    axis.scale = n.reals(input).at(at);
    axis.scale_value = g.scalar(*axis.scale, f64);
  } else {
    const auto i = static_cast<int64_t>(at);
    axis.scale_value = cast(reshape(slice(n.in(input), 0, i, i + 1), {}), f64);
  }
  axis.out = scaled_size(n, axis);
}

void size_axis(Node& n, Axis& axis, const Dim& size) {
  axis.out = size;
  axis.scaled = false;
  if (size.is_constant() && axis.in.is_constant()) {
    axis.scale = static_cast<double>(size.constant()) / static_cast<double>(axis.in.constant());
    axis.scale_value = n.graph().scalar(*axis.scale, f64);
  } else if (size == axis.in) {
    axis.scale = 1.0;
  }
}

// Gives all axes the same scale: the smallest or largest that the sizes require. Computes the sizes
// floor(in * scale + 1/2) in integers.
void keep_aspect(Node& n, std::vector<Axis>& axes, const std::string& policy) {
  const bool is_least = policy == "not_larger";
  if (!is_least && policy != "not_smaller")
    n.refuse(str_cat("attribute 'keep_aspect_ratio_policy' is '", policy, "'"));
  std::optional<double> scale;
  Value scale_value;
  std::vector<Dim> sizes;
  for (const Axis& axis : axes) {
    if (axis.in == Dim(0)) n.refuse("an axis has no elements");
    const Value own = real(n.graph(), axis.out) / real(n.graph(), axis.in);
    if (!scale_value) {
      scale = axis.scale;
      scale_value = own;
    } else {
      scale_value = is_least ? minimum(scale_value, own) : maximum(scale_value, own);
      if (!axis.scale || !scale)
        scale.reset();
      else
        scale = is_least ? std::min(*scale, *axis.scale) : std::max(*scale, *axis.scale);
    }
    Dim size;
    for (const Axis& other : axes) {
      const Dim by = floordiv(axis.in * other.out * Dim(2) + other.in, other.in * Dim(2));
      size = &other == &axes[0] ? by : is_least ? min(size, by) : max(size, by);
    }
    sizes.push_back(size);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i].scale = scale;
    axes[i].scaled = true;
    axes[i].scale_value = scale ? n.graph().scalar(*scale, f64) : scale_value;
    axes[i].out = sizes[i];
  }
}

void resize(Node& n) {
  const Value x = n.in(0);
  Settings s;
  s.mode = n.string("mode", "nearest");
  const bool old = n.opset() < 11;
  s.coordinates = old ? "asymmetric" : n.string("coordinate_transformation_mode", "half_pixel");
  s.nearest = old ? "floor" : n.string("nearest_mode", "round_prefer_floor");
  s.a = n.real("cubic_coeff_a", -0.75);
  s.extrapolation = n.real("extrapolation_value", 0.0);
  s.exclude_outside = n.flag("exclude_outside");
  s.antialias = n.flag("antialias");
  std::vector<int> dims;
  for (const int64_t axis : n.integers("axes")) dims.push_back(n.axis(axis, x.rank()));
  if (!n.has("axes"))
    for (int d = 0; d < x.rank(); ++d) dims.push_back(d);
  const int scales = old ? 1 : 2;
  // An empty tensor counts as not given.
  const bool by_scale = n.has(scales) && !(count(n.type(scales).shape) == Dim(0));
  const Dims sizes = by_scale ? Dims{} : n.dims(3);
  Value roi;
  if (s.coordinates == "tf_crop_and_resize") roi = cast(n.in(1), f64);
  const auto bound = [&](size_t i) {
    const auto at = static_cast<int64_t>(i);
    return reshape(slice(roi, 0, at, at + 1), {});
  };
  std::vector<Axis> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    Axis axis;
    axis.dim = dims[i];
    axis.in = x.dim(axis.dim);
    if (roi) {
      axis.roi_start = bound(i);
      axis.roi_end = bound(dims.size() + i);
    }
    if (by_scale)
      scale_axis(n, axis, scales, i);
    else
      size_axis(n, axis, sizes.at(i));
    axes.push_back(axis);
  }
  const auto grows = [](const Axis& axis) { return axis.scale && *axis.scale >= 1; };
  if (old && !std::all_of(axes.begin(), axes.end(), grows)) s.nearest = "outwards";
  const std::string policy = n.string("keep_aspect_ratio_policy", "stretch");
  if (!by_scale && policy != "stretch") keep_aspect(n, axes, policy);
  n.give(resized(n, x, axes, s));
}

void upsample(Node& n) {
  const Value x = n.in(0);
  Settings s;
  s.mode = n.string("mode", "nearest");
  s.coordinates = "asymmetric";
  s.nearest = "floor";
  std::vector<Axis> axes;
  for (int d = 0; d < x.rank(); ++d) {
    Axis axis;
    axis.dim = d;
    axis.in = x.dim(d);
    if (n.opset() < 9) {
      axis.scale = n.reals("scales").at(d);
      axis.scale_value = n.graph().scalar(*axis.scale, f64);
      axis.out = scaled_size(n, axis);
    } else {
      scale_axis(n, axis, 1, static_cast<size_t>(d));
    }
    axes.push_back(axis);
  }
  n.give(resized(n, x, axes, s));
}

void grid_sample_of(Node& n) {
  std::string mode = n.string("mode", n.opset() < 20 ? "bilinear" : "linear");
  if (mode == "linear") mode = "bilinear";
  if (mode == "cubic") mode = "bicubic";
  const Value x = n.in(0), grid = n.in(1);
  const Result<Interpolation> how = parse_interpolation(mode);
  const Result<GridPadding> beyond = parse_grid_padding(n.string("padding_mode", "zeros"));
  if (!how.ok()) n.refuse(std::string(how.status().message()));
  if (!beyond.ok()) n.refuse(std::string(beyond.status().message()));
  n.give(cast(grid_sample(x, cast(grid, x.dtype()), *how, *beyond, n.flag("align_corners")),
              x.dtype()));
}

void affine_grid(Node& n) {
  const Value theta = n.in(0);
  n.give(n.aten_value("aten::affine_grid_generator",
                      {{"theta", n.item_of(theta)},
                       {"size", list_item(n.dims(1))},
                       {"align_corners", Item(n.flag("align_corners"))}}));
}

constexpr Builtin kRows[] = {
    {"onnx::Resize", row<resize>},
    {"onnx::Upsample", row<upsample>},
    {"onnx::GridSample", row<grid_sample_of>},
    {"com.microsoft::GridSample", row<grid_sample_of>},
    {"onnx::AffineGrid", row<affine_grid>},
};

}  // namespace

Rows resize_rows() { return kRows; }

}  // namespace hg::convert::onnx
