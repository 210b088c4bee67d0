// SPDX-License-Identifier: Apache-2.0
// Suppression, regions, and columns at offsets. A bilinear map is a list of taps: the pixels near a
// position, and their weights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// The boxes of a group suppress each other; without groups, all boxes are one group.
void nms_run(const Call& c) {
  const Array& boxes = c.in[0];
  const int64_t n = boxes.shape[0];
  std::vector<int64_t> order, kept;
  for (int64_t i = 0; i < n; ++i) order.push_back(i);
  const auto group = [&, grouped = given(c, 3)](int64_t i) { return grouped ? c.in[3].at(i) : 0; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return group(a) != group(b) ? group(a) < group(b) : c.in[1].at(a) > c.in[1].at(b);
  });
  const auto common = [&](int64_t a, int64_t b, int side) {
    return std::fmax(0, std::fmin(boxes.at(a * 4 + side + 2), boxes.at(b * 4 + side + 2)) -
                            std::fmax(boxes.at(a * 4 + side), boxes.at(b * 4 + side)));
  };
  const auto overlap = [&](int64_t a, int64_t b) { return common(a, b, 0) * common(a, b, 1); };
  std::vector<double> areas;
  for (int64_t i = 0; i < n; ++i) areas.push_back(overlap(i, i));
  const double threshold = given(c, 2) ? c.in[2].at(0) : c.attrs.real("iou_threshold");
  size_t first = 0;  // of those kept in the group
  for (int64_t i : order) {
    if (!kept.empty() && group(kept.back()) != group(i)) first = kept.size();
    const bool stays =
        std::none_of(kept.begin() + static_cast<std::ptrdiff_t>(first), kept.end(), [&](int64_t k) {
          const double both = overlap(i, k);
          return both / (areas[i] + areas[k] - both) > threshold;
        });
    if (stays) kept.push_back(i);
  }
  for (size_t i = 0; i < kept.size(); ++i)
    c.out[0].at(static_cast<int64_t>(i)) = static_cast<double>(kept[i]);
}

double tent(double t) { return std::fmax(0, 1 - std::fabs(t)); }

// The positions in a region at which x is sampled.
struct Region {
  int64_t image = 0;
  double start[2], part[2], samples[2];  // of y and x

  Region(const Call& c, const Array& rois, int64_t r) {
    const Sizes size = c.attrs.integers("output_size");
    const double scale = c.attrs.real("spatial_scale"), shift = c.attrs.flag("aligned") ? 0.5 : 0;
    image = static_cast<int64_t>(rois.at(r * 5));
    for (int d = 0; d < 2; ++d) {
      start[d] = rois.at(r * 5 + 2 - d) * scale - shift;
      double length = rois.at(r * 5 + 4 - d) * scale - shift - start[d];
      if (shift == 0) length = std::fmax(length, 1);
      part[d] = length / static_cast<double>(size[d]);
      const int64_t ratio = c.attrs.integer("sampling_ratio");
      const double most = 1 << 20;  // boxes outside every image have no samples
      samples[d] = ratio > 0         ? static_cast<double>(ratio)
                   : part[d] <= most ? std::ceil(part[d])
                                     : 0;
    }
  }

  // The pixels of a dim of this size that contribute to a sample of a bin, and their weights.
  std::map<int64_t, double> pixels(int d, int64_t bin, double sample, int64_t size) const {
    const double last = static_cast<double>(size - 1);
    const double at = start[d] + part[d] * (static_cast<double>(bin) + (sample + 0.5) / samples[d]);
    if (!(at >= -1 && at <= last + 1)) return {};
    const double inside = std::clamp(at, 0.0, last);
    const auto first = static_cast<int64_t>(inside);
    std::map<int64_t, double> taps = {{first, tent(inside - static_cast<double>(first))}};
    if (first + 1 < size) taps[first + 1] = tent(inside - static_cast<double>(first + 1));
    return taps;
  }
};

// Calls f(element of y, element of x, weight) for all pairs in a region.
template <class F>
void for_regions(const Call& c, const Array& rois, const Sizes& x, const F& f) {
  const Sizes size = c.attrs.integers("output_size");
  for (int64_t r = 0; r < rois.shape[0]; ++r) {
    const Region region(c, rois, r);
    std::vector<std::map<int64_t, double>> taps[2];  // of each bin, summed over its samples
    for (int d = 0; d < 2; ++d)
      for (int64_t bin = 0; bin < size[d]; ++bin) {
        taps[d].emplace_back();
        for (double s = 0; s < region.samples[d]; ++s)
          for (const auto& [pixel, weight] : region.pixels(d, bin, s, x[d + 2]))
            taps[d].back()[pixel] += weight;
      }
    for (int64_t ch = 0; ch < x[1]; ++ch)
      for (int64_t i = 0; i < size[0]; ++i)
        for (int64_t k = 0; k < size[1]; ++k)
          for (const auto& [h, down] : taps[0][i])
            for (const auto& [w, across] : taps[1][k])
              f(((r * x[1] + ch) * size[0] + i) * size[1] + k,
                ((region.image * x[1] + ch) * x[2] + h) * x[3] + w,
                down * across / std::fmax(region.samples[0] * region.samples[1], 1));
  }
}

// The largest of all weighted pixels, including one of 0 for each sample outside.
void roi_align_max(const Call& c) {
  const Array& x = c.in[0];
  const Sizes& y = c.out[0].shape;
  using Samples = std::vector<std::map<int64_t, double>>;
  for (int64_t r = 0; r < y[0]; ++r) {
    const Region region(c, c.in[1], r);
    const auto samples_of = [&](int d, int64_t bin) {
      Samples samples;
      for (double s = 0; s < region.samples[d]; ++s)
        samples.push_back(region.pixels(d, bin, s, x.shape[d + 2]));
      return samples;
    };
    for (int64_t i = 0; i < y[2]; ++i)
      for (int64_t k = 0; k < y[3]; ++k) {
        const Samples rows = samples_of(0, i), columns = samples_of(1, k);
        for (int64_t ch = 0; ch < y[1]; ++ch) {
          double best = rows.empty() || columns.empty() ? 0 : -HUGE_VAL;
          for (const auto& row : rows)
            for (const auto& column : columns) {
              if (row.size() * column.size() < 4) best = std::fmax(best, 0);
              for (const auto& [h, down] : row)
                for (const auto& [w, across] : column)
                  best = std::fmax(best,
                                   down * across * x.at(flat(x.shape, {region.image, ch, h, w})));
            }
          c.out[0].at(flat(y, {r, ch, i, k})) = best;
        }
      }
  }
}

void roi_align_run(const Call& c) {
  if (c.attrs.string("mode") == "max") return roi_align_max(c);
  for_regions(c, c.in[1], c.in[0].shape,
              [&](int64_t y, int64_t x, double w) { c.out[0].at(y) += w * c.in[0].at(x); });
}
void roi_align_grad_run(const Call& c) {
  for_regions(c, c.in[1], c.out[0].shape,
              [&](int64_t y, int64_t x, double w) { c.out[0].at(x) += w * c.in[0].at(y); });
}

// The ends of the parts of a region are computed in the dtype, as in torchvision.
void roi_pool_run(const Call& c) {
  const Array &x = c.in[0], &rois = c.in[1];
  const auto kept = [&](double value) {
    return x.dtype == f64 ? value : double{static_cast<float>(value)};
  };
  const double scale = c.attrs.real("spatial_scale");
  for_positions(c.out[0].shape, [&](int64_t o, const Sizes& p) {
    int64_t from[2], to[2];
    for (int d = 0; d < 2; ++d) {
      const double start = std::round(rois.at(p[0] * 5 + 2 - d) * scale);
      const double end = std::round(rois.at(p[0] * 5 + 4 - d) * scale);
      const double part =
          kept(std::fmax(end - start + 1, 1) / static_cast<double>(c.out[0].shape[d + 2]));
      const double size = static_cast<double>(x.shape[d + 2]), at = static_cast<double>(p[d + 2]);
      from[d] = static_cast<int64_t>(std::clamp(std::floor(kept(at * part)) + start, 0.0, size));
      to[d] = static_cast<int64_t>(std::clamp(std::ceil(kept((at + 1) * part)) + start, 0.0, size));
    }
    c.out[1].at(o) = -1;
    double best = -std::numeric_limits<double>::infinity();
    for (int64_t h = from[0]; h < to[0]; ++h)
      for (int64_t w = from[1]; w < to[1]; ++w) {
        const double value =
            x.at(flat(x.shape, {static_cast<int64_t>(rois.at(p[0] * 5)), p[1], h, w}));
        if (value <= best) continue;
        best = value;
        c.out[1].at(o) = static_cast<double>(h * x.shape[3] + w);
      }
    c.out[0].at(o) = std::isinf(best) ? 0 : best;
  });
}

// Calls f(column element, pixel of x, mask element, y and x offset element, weight, its slopes in y
// and x) for every column and the pixels near its position.
template <class F>
void for_columns(const KernelAttrs& attrs, const Sizes& kernel, const Array& x, const Array& offset,
                 const F& f) {
  const Sizes stride = listed(attrs, "stride", 2), padding = listed(attrs, "padding", 2),
              dilation = listed(attrs, "dilation", 2);
  const int64_t kw = kernel.back(), area = kernel[0] * kw;
  const int64_t rows = offset.shape[2], columns = offset.shape[3], points = rows * columns;
  const int64_t channels = x.shape[1], groups = offset.shape[1] / (2 * area);
  for (int64_t o = 0; o < x.shape[0] * channels * area * points; ++o) {
    const int64_t point = o % points, tap = o / points % area, ch = o / (points * area) % channels;
    const int64_t image = o / (points * area * channels), group = ch / (channels / groups);
    const int64_t m = ((image * groups + group) * area + tap) * points + point;
    const int64_t shift[2] = {((image * groups + group) * 2 * area + 2 * tap) * points + point,
                              ((image * groups + group) * 2 * area + 2 * tap + 1) * points + point};
    double at[2];
    for (int d = 0; d < 2; ++d) {
      const int64_t step = d == 0 ? point / columns : point % columns;
      const int64_t k = d == 0 ? tap / kw : tap % kw;
      at[d] = static_cast<double>(step * stride[d] - padding[d] + k * dilation[d]) +
              offset.at(shift[d]);
    }
    // The first of two pixels of a dim; nullopt if there is none.
    const auto first = [&](int d) {
      const double size = static_cast<double>(x.shape[d + 2]);
      return static_cast<int64_t>(std::clamp(std::floor(at[d]), -2.0, size));
    };
    const auto is_inside = [&](int64_t i, int d) { return i >= 0 && i < x.shape[d + 2]; };
    for (int64_t h = first(0); h < first(0) + 2; ++h)
      for (int64_t w = first(1); w < first(1) + 2; ++w) {
        if (!is_inside(h, 0) || !is_inside(w, 1)) continue;
        const double dy = at[0] - static_cast<double>(h), dx = at[1] - static_cast<double>(w);
        const double slope_y = std::fabs(dy) < 1 ? (dy < 0 ? 1 : -1) : 0;
        const double slope_x = std::fabs(dx) < 1 ? (dx < 0 ? 1 : -1) : 0;
        f(o, ((image * channels + ch) * x.shape[2] + h) * x.shape[3] + w, m, shift,
          tent(dy) * tent(dx), slope_y * tent(dx), slope_x * tent(dy));
      }
  }
}
Sizes kernel_of(const KernelAttrs& attrs) {
  const Sizes list = attrs.integers("kernel_size");
  return {list[0], list.back()};
}
void deform_im2col_run(const Call& c) {
  for_columns(c.attrs, kernel_of(c.attrs), c.in[0], c.in[1],
              [&](int64_t o, int64_t i, int64_t m, const int64_t*, double w, double, double) {
                c.out[0].at(o) += w * c.in[0].at(i) * c.in[2].at(m);
              });
}
void deform_im2col_grad_run(const Call& c) {
  const Array &x = c.in[1], &mask = c.in[3];
  for_columns(c.attrs, kernel_of(c.attrs), x, c.in[2],
              [&](int64_t o, int64_t i, int64_t m, const int64_t* shift, double w, double slope_y,
                  double slope_x) {
                const double dy = c.in[0].at(o);
                c.out[0].at(i) += dy * w * mask.at(m);
                c.out[1].at(shift[0]) += dy * slope_y * x.at(i) * mask.at(m);
                c.out[1].at(shift[1]) += dy * slope_x * x.at(i) * mask.at(m);
                c.out[2].at(m) += dy * w * x.at(i);
              });
}

// weight: [out, channels / groups, kernel...]
void deform_conv2d_run(const Call& c) {
  const Array &x = c.in[0], &weight = c.in[1], &mask = c.in[4];
  const Sizes& y = c.out[0].shape;
  const int64_t area = weight.shape[2] * weight.shape[3], points = y[2] * y[3];
  const int64_t groups = c.attrs.integer("groups"), of_group = y[1] / groups;
  for_columns(c.attrs, {weight.shape[2], weight.shape[3]}, x, c.in[2],
              [&](int64_t o, int64_t i, int64_t m, const int64_t*, double w, double, double) {
                const int64_t point = o % points, tap = o / points % area;
                const int64_t ch = o / (points * area) % x.shape[1],
                              image = o / (points * area * x.shape[1]);
                const int64_t group = ch / weight.shape[1];
                for (int64_t out = group * of_group; out < (group + 1) * of_group; ++out)
                  c.out[0].at((image * y[1] + out) * points + point) +=
                      weight.at((out * weight.shape[1] + ch % weight.shape[1]) * area + tap) * w *
                      x.at(i) * (mask.given ? mask.at(m) : 1);
              });
  for (int64_t i = 0; i < c.out[0].count() && c.in[3].given; ++i)
    c.out[0].at(i) += c.in[3].at(i / points % y[1]);
}

constexpr Row kRows[] = {
    {"deform_conv2d", deform_conv2d_run},
    {"nms", nms_run},
    {"roi_align", roi_align_run},
    {"roi_align_grad", roi_align_grad_run},
    {"roi_pool", roi_pool_run},
    {"deform_im2col", deform_im2col_run},
    {"deform_im2col_grad", deform_im2col_grad_run},
};

}  // namespace

std::span<const Row> detection() { return kRows; }

}  // namespace hg::reference::rows
