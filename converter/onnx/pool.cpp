// SPDX-License-Identifier: Apache-2.0
// Pooling over windows, and over all spatial dims.
#include <algorithm>
#include <cmath>

#include "converter/onnx/contrib.h"
#include "converter/onnx/windows.h"

namespace hg::convert::onnx {
namespace {

// Returns x padded so that `out` windows fit exactly.
Value fitted(const Value& x, const Windows& w, double value) {
  Dims pads = {0, 0, 0, 0};
  for (int d = 0; d < w.count(); ++d) {
    const auto i = static_cast<size_t>(d);
    pads.push_back(w.begin[i]);
    const Dim needed = (w.out[i] - Dim(1)) * w.strides[i] + w.reach(d);
    pads.push_back(needed - x.dim(d + 2) - w.begin[i]);
  }
  if (std::all_of(pads.begin(), pads.end(), [](const Dim& p) { return p == Dim(0); })) return x;
  return pad(x, std::move(pads), PadMode::constant, value);
}

// Sums over the windows, which must fit x exactly.
Value sums(const Value& x, const Windows& w) {
  if (!w.is_dilated()) {
    AvgPoolOptions options;
    options.stride = w.strides;
    double elements = 1;
    for (const Dim& k : w.kernel) elements *= static_cast<double>(k.constant());
    return avg_pool(x, w.kernel, options) * elements;
  }
  // Convolves each channel with ones.
  ConvOptions options;
  options.stride = w.strides;
  options.dilation = w.dilations;
  Shape single = {x.dim(0) * x.dim(1), Dim(1)}, ones = {Dim(1), Dim(1)},
        shape = {x.dim(0), x.dim(1)};
  single.insert(single.end(), x.shape().begin() + 2, x.shape().end());
  ones.insert(ones.end(), w.kernel.begin(), w.kernel.end());
  shape.insert(shape.end(), w.out.begin(), w.out.end());
  return reshape(conv(reshape(x, single), expand(constant_like(x, 1), ones), {}, options), shape);
}

Windows pool_windows(Node& n, const Shape& x) {
  if (!n.has("kernel_shape")) n.refuse("attribute 'kernel_shape' is missing");
  return windows_of(n, x, dims_of(n.integers("kernel_shape")));
}

// Whether torch's pooling has the same windows: symmetric padding of at most half the kernel.
bool is_plain(const Windows& w) {
  for (size_t d = 0; d < w.kernel.size(); ++d)
    if (!w.begin[d].is_constant() || 2 * w.begin[d].constant() > w.kernel[d].constant())
      return false;
  return w.is_symmetric();
}

}  // namespace

Value average_pooled(Node& n, const Value& x) {
  const Windows w = pool_windows(n, x.shape());
  const bool counts = n.flag("count_include_pad"), up = n.flag("ceil_mode");
  if (is_plain(w) && !w.is_dilated()) {
    AvgPoolOptions options;
    options.stride = w.strides;
    options.padding = w.begin;
    options.ceil_mode = up;
    options.count_include_pad = counts;
    return avg_pool(x, w.kernel, options);
  }
  // The number of elements of each window that are in the input, or also in the padding.
  Shape spatial = {1, 1};
  Windows around = w;
  for (size_t d = 0; d < w.kernel.size(); ++d) {
    spatial.push_back(counts ? x.dim(static_cast<int>(d) + 2) + w.begin[d] + w.end[d]
                             : x.dim(static_cast<int>(d) + 2));
    if (counts) around.begin[d] = 0;
  }
  const Value ones = expand(constant_like(x, 1), spatial);
  return sums(fitted(x, w, 0), w) / sums(fitted(ones, around, 0), around);
}

namespace {

void average_pool(Node& n) { n.give(average_pooled(n, n.in(0))); }

// Converts positions in each plane to positions in the whole tensor [n, c, spatial...], row-major
// or with the first spatial axis fastest.
Value whole_places(Node& n, const Value& x, const Value& places) {
  Graph& g = n.graph();
  Dim plane = 1;
  for (int d = 2; d < x.rank(); ++d) plane = plane * x.dim(d);
  Shape planes = {x.dim(0), x.dim(1)};
  planes.resize(x.rank(), Dim(1));
  const Value offset =
      reshape(g.call("arange", {}, {{"end", x.dim(0) * x.dim(1)}}), planes) * size_value(g, plane);
  if (n.integer("storage_order", 0) == 0) return places + offset;
  Value rest = places, turned = g.scalar(int64_t{0}, i64);
  std::vector<Value> at(x.rank());
  for (int d = x.rank() - 1; d >= 2; --d) {
    const Value size = size_value(g, x.dim(d));
    at[d] = remainder(rest, size);
    rest = floor_divide(rest, size);
  }
  for (int d = x.rank() - 1; d >= 2; --d) turned = turned * size_value(g, x.dim(d)) + at[d];
  return turned + offset;
}

// Converts positions in planes of `padded`, which has `begin` elements before x in each dim, to
// positions in planes of x. Padding is -inf. If it is the maximum, all elements of x in the window
// are -inf, and the nearest element of x is one of them.
Value unpadded_places(const Value& x, const Value& padded, const Dims& begin, Value places) {
  Graph& g = *x.graph();
  Value y = g.scalar(int64_t{0}, i64), step = g.scalar(int64_t{1}, i64);
  for (int d = x.rank() - 1; d >= 2; --d) {
    const Value size = size_value(g, x.dim(d)), wide = size_value(g, padded.dim(d));
    const Value at = remainder(places, wide) - size_value(g, begin[d - 2]);
    places = floor_divide(places, wide);
    y = y + minimum(maximum(at, g.scalar(int64_t{0}, i64)), size - 1.0) * step;
    step = step * size;
  }
  return y;
}

}  // namespace

Value max_pooled(Node& n, Value x) {
  const DType dtype = x.dtype();
  const Windows w = pool_windows(n, x.shape());
  const bool plain = is_plain(w);
  if (!plain) x = fitted(x, w, dtype == u8 ? 0 : dtype == i8 ? -128 : -INFINITY);
  return n.op("max_pool", {x},
              {{"kernel_size", w.kernel},
               {"stride", w.strides},
               {"padding", plain ? w.begin : one_each(w.count(), 0)},
               {"dilation", w.dilations},
               {"ceil_mode", plain && n.flag("ceil_mode")}});
}

namespace {

void max_pool_of(Node& n) {
  const Value given = n.in(0);
  if (n.output_count() == 1) return n.give(max_pooled(n, given));
  const Windows w = pool_windows(n, given.shape());
  const Value x = is_float(given.dtype()) ? given : cast(given, f32);
  const bool plain = is_plain(w);
  const Value around = plain ? x : fitted(x, w, -INFINITY);
  const Values both = n.ops("max_pool_with_indices", {around},
                            {{"kernel_size", w.kernel},
                             {"stride", w.strides},
                             {"padding", plain ? w.begin : one_each(w.count(), 0)},
                             {"dilation", w.dilations},
                             {"ceil_mode", plain && n.flag("ceil_mode")}});
  const Value places = plain ? both[1] : unpadded_places(x, around, w.begin, both[1]);
  n.give({cast(both[0], given.dtype()), whole_places(n, x, places)});
}

void max_unpool(Node& n) {
  const Value x = n.in(0), places = n.in(1);
  const Dims kernel = dims_of(n.integers("kernel_shape"));
  Dims strides = dims_of(n.integers("strides")), pads = dims_of(n.integers("pads"));
  if (strides.empty()) strides = one_each(static_cast<int>(kernel.size()), 1);
  if (pads.empty()) pads = one_each(2 * static_cast<int>(kernel.size()), 0);
  Shape natural = {x.dim(0), x.dim(1)};
  for (size_t d = 0; d < kernel.size(); ++d)
    natural.push_back((x.dim(static_cast<int>(d) + 2) - Dim(1)) * strides[d] + kernel[d] - pads[d] -
                      pads[kernel.size() + d]);
  const Value flat = expand(constant_like(x, 0), {count(natural)});
  const Dim total = count(x.shape());
  const Value y =
      n.op("scatter", {flat, reshape(places, {total}), reshape(x, {total})}, {{"dim", 0}});
  Value out = reshape(y, natural);
  if (n.has(2)) {
    const Dims wanted = n.dims(2);
    Dims more;
    for (size_t d = 0; d < wanted.size(); ++d) {
      more.emplace_back(0);
      more.push_back(wanted[d] - natural.at(d));
    }
    out = pad(out, std::move(more));
  }
  n.give(out);
}

void lp_pool(Node& n) {
  const Value x = n.in(0);
  const Windows w = pool_windows(n, x.shape());
  const double p = static_cast<double>(n.integer("p", 2));
  const Value powers = p == 2 ? x * x : pow(hg::abs(x), constant_like(x, p));
  const Value total = sums(fitted(powers, w, 0), w);
  n.give(p == 2 ? hg::sqrt(total) : pow(total, constant_like(x, 1 / p)));
}

Dims spatial_of(const Value& x) {
  Dims dims = range(x.rank());
  dims.erase(dims.begin(), dims.begin() + std::min<long>(2, x.rank()));
  return dims;
}
void global_average(Node& n) {
  const Value x = n.in(0);
  const int dims = x.rank() - 2;
  const bool is_pool = dims >= 1 && dims <= 3;
  n.give(is_pool ? adaptive_avg_pool(x, one_each(dims, 1)) : mean(x, spatial_of(x), true));
}
void global_max(Node& n) {
  const Value x = n.in(0);
  n.give(amax(x, spatial_of(x), true));
}
void global_lp(Node& n) {
  const Value x = n.in(0);
  n.give(norm(x, static_cast<double>(n.integer("p", 2)), spatial_of(x), true));
}

constexpr Builtin kRows[] = {
    {"onnx::AveragePool", row<average_pool>},
    {"onnx::MaxPool", row<max_pool_of>},
    {"onnx::MaxUnpool", row<max_unpool>},
    {"onnx::LpPool", row<lp_pool>},
    {"onnx::GlobalAveragePool", row<global_average>},
    {"onnx::GlobalMaxPool", row<global_max>},
    {"onnx::GlobalLpPool", row<global_lp>},
};

}  // namespace

Rows pool_rows() { return kRows; }

}  // namespace hg::convert::onnx
