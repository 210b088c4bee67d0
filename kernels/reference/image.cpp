// SPDX-License-Identifier: Apache-2.0
// Resampling and sliding blocks, one element at a time. A map of one dim is a function
// weight(output, input), evaluated for every pair.
#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

double cubic(double t, double a) {  // Keys 1981
  t = std::fabs(t);
  if (t < 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
  if (t < 2) return a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a;
  return 0;
}

// How much input element i counts for output element o.
double weight(const KernelAttrs& attrs, int dim, int64_t in, int64_t out, int64_t o, int64_t i) {
  const std::string& mode = attrs.string("mode");
  const double scale = attrs.reals("scales").empty() ? 0 : attrs.reals("scales")[size_t(dim)];
  const bool align = attrs.flag("align_corners");
  const double fin = static_cast<double>(in), fout = static_cast<double>(out);
  double step = scale > 0 ? 1 / scale : fin / fout;
  const double fo = static_cast<double>(o), fi = static_cast<double>(i);
  if (mode == "nearest" || mode == "nearest-exact") {
    const double at = mode == "nearest" ? fo * step : (fo + 0.5) * step;
    const bool whole = mode == "nearest" && (out == in || out == 2 * in);
    const double source = whole ? std::floor(fo * fin / fout) : std::floor(at);
    return std::fmin(source, fin - 1) == fi ? 1 : 0;
  }
  if (align) step = out > 1 ? (fin - 1) / (fout - 1) : 0;
  const bool is_cubic = mode == "bicubic";
  if (in == out && (!is_cubic || attrs.flag("antialias"))) return o == i ? 1 : 0;
  if (attrs.flag("antialias")) {
    const double wide = std::fmax(step, 1), support = (is_cubic ? 2 : 1) * wide;
    const double centre = step * (fo + 0.5);
    const double first = std::fmax(std::trunc(centre - support + 0.5), 0);
    const double last = std::fmin(std::trunc(centre + support + 0.5), fin);
    auto filter = [&](double k) {
      const double t = (k - centre + 0.5) / wide;
      return is_cubic ? cubic(t, -0.5) : std::fmax(0, 1 - std::fabs(t));
    };
    if (fi < first || fi >= last) return 0;
    double total = 0;
    for (double k = first; k < last; ++k) total += filter(k);
    return filter(fi) / total;
  }
  double source = align ? step * fo : step * (fo + 0.5) - 0.5;
  if (!is_cubic) source = std::fmax(source, 0);
  const double base = std::fmin(std::floor(source), fin - 1);
  const double t = std::fmin(std::fmax(source - base, 0), 1);
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    const double at = std::clamp(base + k, 0.0, fin - 1);
    if (at == fi) sum += is_cubic ? cubic(t - k, -0.75) : std::fmax(0, 1 - std::fabs(t - k));
  }
  return sum;
}

// Adds, for every pair of an input and an output position, weight * from to `to`.
void resize(const Call& c, const Array& from, Array& to, bool forward) {
  const Sizes &in = forward ? from.shape : to.shape, &out = forward ? to.shape : from.shape;
  int64_t in_plane = 1, out_plane = 1;
  for (int d = 2; d < in.rank(); ++d) {
    in_plane *= in[d];
    out_plane *= out[d];
  }
  std::vector<std::vector<double>> weights(in.rank());  // [out, in] of a dim
  for (int d = 2; d < in.rank(); ++d)
    for (int64_t o = 0; o < out[d]; ++o)
      for (int64_t i = 0; i < in[d]; ++i)
        weights[d].push_back(weight(c.attrs, d - 2, in[d], out[d], o, i));
  for (int64_t plane = 0; plane < in[0] * in[1]; ++plane)
    for (int64_t o = 0; o < out_plane; ++o)
      for (int64_t i = 0; i < in_plane; ++i) {
        double w = 1;
        int64_t rest_o = o, rest_i = i;
        for (int d = in.rank() - 1; d >= 2 && w != 0; --d) {
          w *= weights[d][rest_o % out[d] * in[d] + rest_i % in[d]];
          rest_o /= out[d];
          rest_i /= in[d];
        }
        if (w == 0) continue;
        if (forward)
          to.at(plane * out_plane + o) += w * from.at(plane * in_plane + i);
        else
          to.at(plane * in_plane + i) += w * from.at(plane * out_plane + o);
      }
}
void interpolate_run(const Call& c) { resize(c, c.in[0], c.out[0], true); }
void interpolate_grad_run(const Call& c) { resize(c, c.in[0], c.out[0], false); }

// For every element of a block the pixel it lies on: f(index in columns, index in the image).
template <class F>
void for_blocks(const Call& c, const Sizes& image, const F& f) {
  auto list = [&](std::string_view name, int i) {
    const Sizes all = c.attrs.integers(name);
    return all.rank() == 1 ? all[0] : all[i];
  };
  auto blocks = [&](int i) {
    return (image[i + 2] + 2 * list("padding", i) -
            list("dilation", i) * (list("kernel_size", i) - 1) - 1) /
               list("stride", i) +
           1;
  };
  int64_t at = 0;
  for (int64_t plane = 0; plane < image[0] * image[1]; ++plane)
    for (int64_t kh = 0; kh < list("kernel_size", 0); ++kh)
      for (int64_t kw = 0; kw < list("kernel_size", 1); ++kw)
        for (int64_t bh = 0; bh < blocks(0); ++bh)
          for (int64_t bw = 0; bw < blocks(1); ++bw, ++at) {
            const int64_t h =
                bh * list("stride", 0) - list("padding", 0) + kh * list("dilation", 0);
            const int64_t w =
                bw * list("stride", 1) - list("padding", 1) + kw * list("dilation", 1);
            if (h >= 0 && h < image[2] && w >= 0 && w < image[3])
              f(at, (plane * image[2] + h) * image[3] + w);
          }
}
void im2col_run(const Call& c) {
  for_blocks(c, c.in[0].shape,
             [&](int64_t column, int64_t pixel) { c.out[0].at(column) = c.in[0].at(pixel); });
}
void col2im_run(const Call& c) {
  for_blocks(c, c.out[0].shape,
             [&](int64_t column, int64_t pixel) { c.out[0].at(pixel) += c.in[0].at(column); });
}

// Where the grid's number x lies in pixels, moved inside as padding_mode says.
double moved_inside(const Call& c, double at, int64_t size) {
  const std::string& padding = c.attrs.string("padding_mode");
  const double last = static_cast<double>(size - 1);
  if (padding == "reflection") {
    const double low = c.attrs.flag("align_corners") ? 0 : -0.5, high = last - low;
    while (high > low && (at < low || at > high)) at = at < low ? 2 * low - at : 2 * high - at;
  }
  return padding == "zeros" ? at : std::clamp(at, 0.0, last);
}
double in_pixels(const Call& c, double x, int64_t size) {
  const double s = static_cast<double>(size);
  return c.attrs.flag("align_corners") ? (x + 1) / 2 * (s - 1) : ((x + 1) * s - 1) / 2;
}

// How much pixel i of a dim counts at the grid's number x.
double tap(const Call& c, double x, int64_t size, int64_t i) {
  const std::string& mode = c.attrs.string("mode");
  const double at = in_pixels(c, x, size), fi = static_cast<double>(i);
  if (mode == "nearest") return std::nearbyint(moved_inside(c, at, size)) == fi ? 1 : 0;
  if (mode == "bilinear") return std::fmax(0, 1 - std::fabs(moved_inside(c, at, size) - fi));
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    const double from = std::floor(at) + k;
    if (moved_inside(c, from, size) == fi) sum += cubic(at - from, -0.75);
  }
  return sum;
}

// d tap / dx; where a weight has a kink, the derivative to the right.
double tap_slope(const Call& c, double x, int64_t size, int64_t i) {
  const std::string& mode = c.attrs.string("mode");
  const double at = in_pixels(c, x, size), fi = static_cast<double>(i);
  const double last = static_cast<double>(size - 1);
  const bool align = c.attrs.flag("align_corners");
  double slope = align ? last / 2 : (last + 1) / 2;
  if (mode == "nearest") return 0;
  if (mode == "bicubic") {
    auto derivative = [](double t) {
      constexpr double a = -0.75;
      const double u = std::fabs(t), sign = t < 0 ? -1 : 1;
      if (u < 1) return sign * (3 * (a + 2) * u * u - 2 * (a + 3) * u);
      return u < 2 ? sign * a * (3 * u * u - 10 * u + 8) : 0.0;
    };
    double sum = 0;
    for (int k = -1; k <= 2; ++k) {
      const double from = std::floor(at) + k;
      if (moved_inside(c, from, size) == fi) sum += derivative(at - from);
    }
    return sum * slope;
  }
  const std::string& padding = c.attrs.string("padding_mode");
  double m = at;
  if (padding == "reflection") {
    const double low = align ? 0 : -0.5, high = last - low;
    if (low == high) return 0;
    for (; m < low || m > high; slope = -slope) m = m < low ? 2 * low - m : 2 * high - m;
  }
  if (padding != "zeros" && (m <= 0 || m >= last)) return 0;
  const double t = m - fi;
  return t >= 0 && t < 1 ? -slope : t >= -1 && t < 0 ? slope : 0;
}

// f(output element, input element, product of the weights of the dims, where that of the dim
// `slope` is its derivative)
template <class F>
void for_samples(const Call& c, const Array& x, const Array& grid, int slope, const F& f) {
  const int dims = x.shape.rank() - 2;
  int64_t pixels = 1, points = 1;
  for (int i = 0; i < dims; ++i) {
    pixels *= x.shape[i + 2];
    points *= grid.shape[i + 1];
  }
  for (int64_t plane = 0; plane < x.shape[0] * x.shape[1]; ++plane)
    for (int64_t o = 0; o < points; ++o)
      for (int64_t i = 0; i < pixels; ++i) {
        double w = 1;
        int64_t rest = i;
        for (int d = dims - 1; d >= 0; --d) {
          const double at = grid.at((plane / x.shape[1] * points + o) * dims + dims - 1 - d);
          w *= (d == slope ? tap_slope : tap)(c, at, x.shape[d + 2], rest % x.shape[d + 2]);
          rest /= x.shape[d + 2];
        }
        f(plane * points + o, plane * pixels + i, w);
      }
}
void grid_sample_run(const Call& c) {
  for_samples(c, c.in[0], c.in[1], -1,
              [&](int64_t o, int64_t i, double w) { c.out[0].at(o) += w * c.in[0].at(i); });
}

void grid_sample_grad_run(const Call& c) {
  const int dims = c.in[1].shape.rank() - 2;
  const int64_t channels = c.in[1].shape[1], points = c.in[2].count() / dims / c.in[2].shape[0];
  for_samples(c, c.in[1], c.in[2], -1,
              [&](int64_t o, int64_t i, double w) { c.out[0].at(i) += w * c.in[0].at(o); });
  for (int d = 0; d < dims; ++d)  // of the grid's numbers: width first
    for_samples(c, c.in[1], c.in[2], dims - 1 - d, [&](int64_t o, int64_t i, double slope) {
      const int64_t at = (o / points / channels * points + o % points) * dims + d;
      c.out[1].at(at) += slope * c.in[1].at(i) * c.in[0].at(o);
    });
}

constexpr Row kRows[] = {
    {"interpolate", interpolate_run}, {"interpolate_grad", interpolate_grad_run},
    {"im2col", im2col_run},           {"col2im", col2im_run},
    {"grid_sample", grid_sample_run}, {"grid_sample_grad", grid_sample_grad_run},
};

}  // namespace

std::span<const Row> image() { return kRows; }

}  // namespace hg::reference::rows
