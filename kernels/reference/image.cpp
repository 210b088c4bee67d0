// SPDX-License-Identifier: Apache-2.0
// Resampling and sliding blocks. A map along one dim is a list of taps per output element: the
// input elements that contribute, and their weights.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

double cubic(double t, double a) {  // Keys 1981
  t = std::fabs(t);
  if (t < 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
  if (t < 2) return a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a;
  return 0;
}

struct Tap {
  int64_t at = 0;
  double weight = 0;
};
using Taps = std::vector<Tap>;

// The input elements of a dim that contribute to output element o.
Taps taps_of(const KernelAttrs& attrs, int dim, int64_t in, int64_t out, int64_t o) {
  const std::string& mode = attrs.string("mode");
  const double scale = attrs.reals("scales").empty() ? 0 : attrs.reals("scales")[size_t(dim)];
  const bool align = attrs.flag("align_corners");
  const double fin = static_cast<double>(in), fout = static_cast<double>(out);
  double step = scale > 0 ? 1 / scale : fin / fout;
  const double fo = static_cast<double>(o);
  const auto place = [&](double at) { return static_cast<int64_t>(std::clamp(at, 0.0, fin - 1)); };
  if (mode == "nearest" || mode == "nearest-exact") {
    const double at = mode == "nearest" ? fo * step : (fo + 0.5) * step;
    const bool whole = mode == "nearest" && (out == in || out == 2 * in);
    return {{place(whole ? std::floor(fo * fin / fout) : std::floor(at)), 1}};
  }
  if (align) step = out > 1 ? (fin - 1) / (fout - 1) : 0;
  const bool is_cubic = mode == "bicubic";
  if (in == out && (!is_cubic || attrs.flag("antialias"))) return {{o, 1}};
  Taps taps;
  if (attrs.flag("antialias")) {
    const double wide = std::fmax(step, 1), support = (is_cubic ? 2 : 1) * wide;
    const double centre = step * (fo + 0.5);
    const double first = std::fmax(std::trunc(centre - support + 0.5), 0);
    const double last = std::fmin(std::trunc(centre + support + 0.5), fin);
    double total = 0;
    for (double k = first; k < last; ++k) {
      const double t = (k - centre + 0.5) / wide;
      taps.push_back({place(k), is_cubic ? cubic(t, -0.5) : std::fmax(0, 1 - std::fabs(t))});
      total += taps.back().weight;
    }
    for (Tap& tap : taps) tap.weight /= total;
    return taps;
  }
  double source = align ? step * fo : step * (fo + 0.5) - 0.5;
  if (!is_cubic) source = std::fmax(source, 0);
  const double base = std::fmin(std::floor(source), fin - 1);
  const double t = std::fmin(std::fmax(source - base, 0), 1);
  for (int k = -1; k <= 2; ++k)
    taps.push_back(
        {place(base + k), is_cubic ? cubic(t - k, -0.75) : std::fmax(0, 1 - std::fabs(t - k))});
  return taps;
}

// Calls f(output element, input element, product of the weights) for all contributing elements of
// one plane; taps[d][o]: for output element o of spatial dim d.
template <class F>
void for_taps(const std::vector<std::vector<Taps>>& taps, const Sizes& in, const F& f, size_t d = 0,
              int64_t to = 0, int64_t from = 0, double weight = 1) {
  if (d == taps.size()) return f(to, from, weight);
  const auto count = static_cast<int64_t>(taps[d].size()), size = in[static_cast<int>(d) + 2];
  for (int64_t o = 0; o < count; ++o)
    for (const Tap& tap : taps[d][o])
      if (tap.weight != 0)
        for_taps(taps, in, f, d + 1, to * count + o, from * size + tap.at, weight * tap.weight);
}

// Adds weight * from to `to` for every pair of an input and an output position.
void resize(const Call& c, const Array& from, Array& to, bool forward) {
  const Sizes &in = forward ? from.shape : to.shape, &out = forward ? to.shape : from.shape;
  int64_t in_plane = 1, out_plane = 1;
  std::vector<std::vector<Taps>> taps;
  for (int d = 2; d < in.rank(); ++d) {
    in_plane *= in[d];
    out_plane *= out[d];
    taps.emplace_back();
    for (int64_t o = 0; o < out[d]; ++o)
      taps.back().push_back(taps_of(c.attrs, d - 2, in[d], out[d], o));
  }
  for (int64_t plane = 0; plane < in[0] * in[1]; ++plane)
    for_taps(taps, in, [&](int64_t o, int64_t i, double weight) {
      if (forward)
        to.at(plane * out_plane + o) += weight * from.at(plane * in_plane + i);
      else
        to.at(plane * in_plane + i) += weight * from.at(plane * out_plane + o);
    });
}
void interpolate_run(const Call& c) { resize(c, c.in[0], c.out[0], true); }
void interpolate_grad_run(const Call& c) { resize(c, c.in[0], c.out[0], false); }

// Calls f(index in columns, index in the image) for every element of every block.
template <class F>
void for_blocks(const Call& c, const Sizes& image, const F& f) {
  const Sizes kernel = listed(c.attrs, "kernel_size", 2), stride = listed(c.attrs, "stride", 2),
              padding = listed(c.attrs, "padding", 2), dilation = listed(c.attrs, "dilation", 2);
  const auto blocks = [&](int i) {
    return (image[i + 2] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  };
  int64_t at = 0;
  for (int64_t plane = 0; plane < image[0] * image[1]; ++plane)
    for (int64_t kh = 0; kh < kernel[0]; ++kh)
      for (int64_t kw = 0; kw < kernel[1]; ++kw)
        for (int64_t bh = 0; bh < blocks(0); ++bh)
          for (int64_t bw = 0; bw < blocks(1); ++bw, ++at) {
            const int64_t h = bh * stride[0] - padding[0] + kh * dilation[0];
            const int64_t w = bw * stride[1] - padding[1] + kw * dilation[1];
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

// The settings of a grid.
struct Sampling {
  std::string mode, padding;
  bool align = false;
  explicit Sampling(const KernelAttrs& attrs)
      : mode(attrs.string("mode")),
        padding(attrs.string("padding_mode")),
        align(attrs.flag("align_corners")) {}

  // The position of the grid's number x, in pixels.
  double in_pixels(double x, int64_t size) const {
    const double s = static_cast<double>(size);
    return align ? (x + 1) / 2 * (s - 1) : ((x + 1) * s - 1) / 2;
  }
  // A position moved inside according to padding_mode; `turned`: whether positions then run
  // backward.
  double moved_inside(double at, int64_t size, bool* turned = nullptr) const {
    const double last = static_cast<double>(size - 1);
    const double low = align ? 0 : -0.5, high = last - low, span = high - low;
    if (padding == "reflection" && span > 0 && (at < low || at > high)) {
      const double rest = std::fmod(std::fabs(at - low), 2 * span);
      if (turned != nullptr) *turned = (at < low) != (rest > span);
      at = low + (rest > span ? 2 * span - rest : rest);
    }
    return padding == "zeros" ? at : std::clamp(at, 0.0, last);
  }
};

// Adds pixel `at` of a dim, unless it is outside.
void add_tap(Taps& taps, double at, int64_t size, double weight) {
  if (at >= 0 && at < static_cast<double>(size)) taps.push_back({static_cast<int64_t>(at), weight});
}

// The pixels of a dim that contribute at the grid's number x.
Taps samples_of(const Sampling& s, double x, int64_t size) {
  Taps taps;
  const double at = s.in_pixels(x, size);
  if (s.mode == "bicubic") {
    for (int k = -1; k <= 2; ++k) {
      const double from = std::floor(at) + k;
      add_tap(taps, s.moved_inside(from, size), size, cubic(at - from, -0.75));
    }
    return taps;
  }
  const double inside = s.moved_inside(at, size);
  if (s.mode == "nearest") {
    add_tap(taps, std::nearbyint(inside), size, 1);
    return taps;
  }
  for (const double pixel : {std::floor(inside), std::floor(inside) + 1})
    add_tap(taps, pixel, size, std::fmax(0, 1 - std::fabs(inside - pixel)));
  return taps;
}

// The same with d weight / dx; at a kink, the derivative to the right.
Taps slopes_of(const Sampling& s, double x, int64_t size) {
  Taps taps;
  const double at = s.in_pixels(x, size), last = static_cast<double>(size - 1);
  const double slope = s.align ? last / 2 : (last + 1) / 2;
  if (s.mode == "nearest") return taps;
  if (s.mode == "bicubic") {
    const auto derivative = [](double t) {
      constexpr double a = -0.75;
      const double u = std::fabs(t), sign = t < 0 ? -1 : 1;
      if (u < 1) return sign * (3 * (a + 2) * u * u - 2 * (a + 3) * u);
      return u < 2 ? sign * a * (3 * u * u - 10 * u + 8) : 0.0;
    };
    for (int k = -1; k <= 2; ++k) {
      const double from = std::floor(at) + k;
      add_tap(taps, s.moved_inside(from, size), size, slope * derivative(at - from));
    }
    return taps;
  }
  bool turned = false;
  double inside = at;
  if (s.padding == "reflection") {
    if (last == 0 && s.align) return taps;
    inside = s.moved_inside(at, size, &turned);
    if (inside <= 0 || inside >= last) return taps;
  } else if (s.padding == "border" && (at <= 0 || at >= last)) {
    return taps;
  }
  const double own = turned ? -slope : slope, pixel = std::floor(inside);
  add_tap(taps, pixel, size, -own);
  add_tap(taps, pixel + 1, size, own);
  return taps;
}

// Calls f(output element, input element, product of the weights of the dims, with the derivative
// for dim `slope`)
template <class F>
void for_samples(const Call& c, const Array& x, const Array& grid, int slope, const F& f) {
  const Sampling sampling(c.attrs);
  const int dims = x.shape.rank() - 2;
  int64_t pixels = 1, points = 1;
  for (int i = 0; i < dims; ++i) {
    pixels *= x.shape[i + 2];
    points *= grid.shape[i + 1];
  }
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t o = 0; o < points; ++o) {
      std::vector<std::vector<Taps>> taps;  // of one output element
      for (int d = 0; d < dims; ++d) {
        const double at = grid.at((n * points + o) * dims + dims - 1 - d);
        taps.push_back({(d == slope ? slopes_of : samples_of)(sampling, at, x.shape[d + 2])});
      }
      for (int64_t plane = n * x.shape[1]; plane < (n + 1) * x.shape[1]; ++plane)
        for_taps(taps, x.shape, [&](int64_t, int64_t i, double w) {
          f(plane * points + o, plane * pixels + i, w);
        });
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
