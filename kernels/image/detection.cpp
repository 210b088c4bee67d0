// SPDX-License-Identifier: Apache-2.0
// Kernels of lib/ops/detection.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/reduce/order.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// -- nms ------------------------------------------------------------------------------------------

struct NmsPlan {
  double threshold = 0;
  int64_t count = 0;
};
Status prepare_nms(PrepareContext& c) {
  const int64_t count = c.in(0).shape[0];
  c.make_state(NmsPlan{c.attrs().real("iou_threshold"), count});
  c.set_workspace(count * (2 * 8 + 1));
  return {};
}

// Calls f(box) for the boxes that are kept, by group and best first. NaN is the best score; equal
// scores keep their order.
template <class F>
void each_kept(const RunContext& c, const F& f) {
  const NmsPlan& plan = c.state<NmsPlan>();
  const int64_t n = plan.count;
  int64_t* order = c.workspace<int64_t>();
  uint8_t* removed = reinterpret_cast<uint8_t*>(order + 2 * n);
  for (int64_t i = 0; i < n; ++i) {
    order[i] = i;
    removed[i] = 0;
  }
  for_float(c.in(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    const T* boxes = c.in(0).as<const T>();
    const T* scores = c.in(1).as<const T>();
    const double threshold =
        c.has(2) ? static_cast<double>(load(c.in(2).as<const T>())) : plan.threshold;
    const int64_t* const groups = c.has(3) ? c.in(3).as<const int64_t>() : nullptr;
    merge_sort(order, order + n, n, [&](int64_t a, int64_t b) {
      if (groups != nullptr && groups[a] != groups[b]) return groups[a] < groups[b];
      const W p = load(scores + a), q = load(scores + b);
      return std::isnan(p) ? !std::isnan(q) : p > q;
    });
    const auto side = [&](int64_t box, int k) { return load(boxes + box * 4 + k); };
    const auto area = [&](int64_t box) {
      return (side(box, 2) - side(box, 0)) * (side(box, 3) - side(box, 1));
    };
    for (int64_t i = 0; i < n; ++i) {
      const int64_t a = order[i];
      if (removed[a]) continue;
      f(a);
      const W area_a = area(a);
      for (int64_t k = i + 1; k < n; ++k) {
        const int64_t b = order[k];
        if (groups != nullptr && groups[a] != groups[b]) break;
        if (removed[b]) continue;
        const W w =
            std::max(W(0), std::min(side(a, 2), side(b, 2)) - std::max(side(a, 0), side(b, 0)));
        const W h =
            std::max(W(0), std::min(side(a, 3), side(b, 3)) - std::max(side(a, 1), side(b, 1)));
        const W both = w * h;
        removed[b] = static_cast<double>(both / (area_a + area(b) - both)) > threshold;
      }
    }
  });
}
void measure_nms(const RunContext& c, std::span<int64_t> dims) noexcept {
  int64_t kept = 0;
  each_kept(c, [&](int64_t) { ++kept; });
  if (!dims.empty()) dims[0] = kept;
}
void run_nms(const RunContext& c) noexcept {
  int64_t* y = c.out(0).as<int64_t>();
  each_kept(c, [&](int64_t box) { *y++ = box; });
}

// -- Regions --------------------------------------------------------------------------------------

struct RoiPlan {
  int64_t images = 0, channels = 0, height = 0, width = 0;  // of x
  int64_t rows = 1, columns = 1;                            // of a region in y
  double scale = 1;
  int64_t ratio = 0;
  bool aligned = false, takes_largest = false;
  int64_t plane() const { return height * width; }
};
RoiPlan roi_plan(const PrepareContext& c, const Sizes& x) {
  RoiPlan plan;
  plan.images = x[0];
  plan.channels = x[1];
  plan.height = x[2];
  plan.width = x[3];
  const Sizes size = c.attrs().integers("output_size");
  plan.rows = size[0];
  plan.columns = size[1];
  plan.scale = c.attrs().real("spatial_scale");
  return plan;
}
Status prepare_roi_align(PrepareContext& c, const Sizes& x) {
  RoiPlan plan = roi_plan(c, x);
  plan.ratio = c.attrs().integer("sampling_ratio");
  plan.aligned = c.attrs().flag("aligned");
  c.make_state(plan);
  return {};
}

// The four pixels around a position, with weights; none outside the image.
template <class T>
struct Corners {
  int64_t at[4] = {0, 0, 0, 0};
  T weight[4] = {0, 0, 0, 0};
};
template <class T>
Corners<T> corners_of(T y, T x, int64_t height, int64_t width) {
  Corners<T> c;
  if (!(y >= -1 && y <= static_cast<T>(height) && x >= -1 && x <= static_cast<T>(width))) return c;
  y = std::max(y, T(0));
  x = std::max(x, T(0));
  const int64_t top = std::min(static_cast<int64_t>(y), height - 1);
  const int64_t left = std::min(static_cast<int64_t>(x), width - 1);
  const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
  const T dy = top == height - 1 ? T(0) : y - static_cast<T>(top);
  const T dx = left == width - 1 ? T(0) : x - static_cast<T>(left);
  c.at[0] = top * width + left;
  c.at[1] = top * width + right;
  c.at[2] = bottom * width + left;
  c.at[3] = bottom * width + right;
  c.weight[0] = (1 - dy) * (1 - dx);
  c.weight[1] = (1 - dy) * dx;
  c.weight[2] = dy * (1 - dx);
  c.weight[3] = dy * dx;
  return c;
}

struct Range {
  int64_t begin = 0, end = 0;
};

// The samples first + (k + 1/2) length / count, k in [0, count), that may be inside an image of
// this size, plus a few to allow for rounding; all samples if their number does not depend on the
// length.
Range range_inside(const RoiPlan& plan, double first, double length, int64_t count, int64_t size) {
  if (plan.ratio > 0) return {0, count};
  const double gap = length / static_cast<double>(count);
  const auto at = [&](double k) {
    return k > 0 ? k < static_cast<double>(count) ? static_cast<int64_t>(k) : count : 0;
  };
  return {at((-1 - first) / gap - 3), at((static_cast<double>(size) - first) / gap + 3)};
}

// About one sample per pixel. Boxes that are not finite, inverted, or outside every image have
// none.
int64_t samples_along(double length) {
  constexpr double kMost = 1 << 20;
  return length > 0 && length <= kMost ? static_cast<int64_t>(std::ceil(length)) : 0;
}

// The samples of one region.
template <class T>
struct Region {
  int64_t image = -1;                        // -1: not an image of x
  T top = 0, left = 0, row = 0, column = 0;  // its start, and sizes of an output pixel
  int64_t down = 0, across = 0;              // samples of an output pixel
  Region(const T* roi, const RoiPlan& plan) {
    const T scale = static_cast<T>(plan.scale), shift = plan.aligned ? T(0.5) : T(0);
    if (roi[0] >= 0 && roi[0] < static_cast<T>(plan.images)) image = static_cast<int64_t>(roi[0]);
    left = roi[1] * scale - shift;
    top = roi[2] * scale - shift;
    T width = roi[3] * scale - shift - left, height = roi[4] * scale - shift - top;
    if (!plan.aligned) {
      width = std::max(width, T(1));
      height = std::max(height, T(1));
    }
    row = height / static_cast<T>(plan.rows);
    column = width / static_cast<T>(plan.columns);
    down = plan.ratio > 0 ? plan.ratio : samples_along(row);
    across = plan.ratio > 0 ? plan.ratio : samples_along(column);
  }
  T count() const { return static_cast<T>(std::max<int64_t>(down * across, 1)); }
  // Calls f(corners) for each sample of an output pixel that may be inside the image. Returns
  // whether there are others.
  template <class F>
  bool each_sample(int64_t i, int64_t k, const RoiPlan& plan, const F& f) const {
    const T first_y = top + static_cast<T>(i) * row, first_x = left + static_cast<T>(k) * column;
    const Range ys = range_inside(plan, first_y, row, down, plan.height),
                xs = range_inside(plan, first_x, column, across, plan.width);
    for (int64_t a = ys.begin; a < ys.end; ++a) {
      const T y = first_y + (static_cast<T>(a) + T(0.5)) * row / static_cast<T>(down);
      for (int64_t b = xs.begin; b < xs.end; ++b) {
        const T x = first_x + (static_cast<T>(b) + T(0.5)) * column / static_cast<T>(across);
        f(corners_of(y, x, plan.height, plan.width));
      }
    }
    return (ys.end - ys.begin) * (xs.end - xs.begin) < down * across;
  }
};

// f32 and f64, the only dtypes that the shape rules of these ops accept.
template <class F>
void for_wide(DType dtype, const F& f) {
  dtype == f32 ? f.template operator()<float>() : f.template operator()<double>();
}

// The largest weighted corner of all samples of an output pixel, for each channel of y at `at`. A
// sample outside counts as 0, and so does a pixel without samples.
template <class T>
void largest_sample(const Region<T>& region, int64_t i, int64_t k, const RoiPlan& plan, const T* x,
                    T* at) {
  const int64_t step = plan.rows * plan.columns;
  for (int64_t ch = 0; ch < plan.channels; ++ch)
    at[ch * step] = -std::numeric_limits<T>::infinity();
  const bool has_more = region.each_sample(i, k, plan, [&](const Corners<T>& s) {
    for (int64_t ch = 0; ch < plan.channels; ++ch)
      for (int e = 0; e < 4; ++e)
        at[ch * step] = std::max(at[ch * step], s.weight[e] * x[ch * plan.plane() + s.at[e]]);
  });
  if (has_more || region.down * region.across == 0)
    for (int64_t ch = 0; ch < plan.channels; ++ch) at[ch * step] = std::max(at[ch * step], T(0));
}

void run_roi_align(const RunContext& c) noexcept {
  const RoiPlan& plan = c.state<RoiPlan>();
  for_wide(c.out(0).dtype, [&]<class T>() {
    const T* all = c.in(0).as<const T>();
    c.parallel_for(c.in(1).shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const Region<T> region(c.in(1).as<const T>() + r * 5, plan);
        if (region.image < 0) return c.fail("a region names an image that x does not have");
        const T* x = all + region.image * plan.channels * plan.plane();
        T* y = c.out(0).as<T>() + r * plan.channels * plan.rows * plan.columns;
        for (int64_t i = 0; i < plan.rows; ++i)
          for (int64_t k = 0; k < plan.columns; ++k) {
            T* at = y + i * plan.columns + k;
            const int64_t step = plan.rows * plan.columns;
            if (plan.takes_largest) {
              largest_sample(region, i, k, plan, x, at);
              continue;
            }
            for (int64_t ch = 0; ch < plan.channels; ++ch) at[ch * step] = 0;
            region.each_sample(i, k, plan, [&](const Corners<T>& s) {
              for (int64_t ch = 0; ch < plan.channels; ++ch) {
                const T* from = x + ch * plan.plane();
                at[ch * step] += s.weight[0] * from[s.at[0]] + s.weight[1] * from[s.at[1]] +
                                 s.weight[2] * from[s.at[2]] + s.weight[3] * from[s.at[3]];
              }
            });
            for (int64_t ch = 0; ch < plan.channels; ++ch) at[ch * step] /= region.count();
          }
      }
    });
  });
}

void run_roi_align_grad(const RunContext& c) noexcept {
  const RoiPlan& plan = c.state<RoiPlan>();
  for_wide(c.out(0).dtype, [&]<class T>() {
    c.parallel_for(plan.images * plan.channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        T* dx = c.out(0).as<T>() + plane * plan.plane();
        std::fill(dx, dx + plan.plane(), T(0));
        for (int64_t r = 0; r < c.in(1).shape[0]; ++r) {
          const Region<T> region(c.in(1).as<const T>() + r * 5, plan);
          if (region.image < 0) return c.fail("a region names an image that x does not have");
          if (region.image != plane / plan.channels) continue;
          const T* dy = c.in(0).as<const T>() +
                        (r * plan.channels + plane % plan.channels) * plan.rows * plan.columns;
          for (int64_t i = 0; i < plan.rows; ++i)
            for (int64_t k = 0; k < plan.columns; ++k) {
              const T share = dy[i * plan.columns + k] / region.count();
              region.each_sample(i, k, plan, [&](const Corners<T>& s) {
                for (int e = 0; e < 4; ++e) dx[s.at[e]] += share * s.weight[e];
              });
            }
        }
      }
    });
  });
}

// The largest pixel of each part of a region whose corners are rounded to pixels.
void run_roi_pool(const RunContext& c) noexcept {
  const RoiPlan& plan = c.state<RoiPlan>();
  for_wide(c.out(0).dtype, [&]<class T>() {
    const auto nearest = [&](T at) {
      const T whole = std::round(at * static_cast<T>(plan.scale));
      if (std::isnan(whole)) return int64_t{0};
      return static_cast<int64_t>(std::clamp(whole, T(-(1 << 30)), T(1 << 30)));
    };
    c.parallel_for(c.in(1).shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* roi = c.in(1).as<const T>() + r * 5;
        if (!(roi[0] >= 0 && roi[0] < static_cast<T>(plan.images)))
          return c.fail("a region names an image that x does not have");
        const int64_t left = nearest(roi[1]), top = nearest(roi[2]);
        const int64_t width = std::max<int64_t>(nearest(roi[3]) - left + 1, 1);
        const int64_t height = std::max<int64_t>(nearest(roi[4]) - top + 1, 1);
        const T row = static_cast<T>(height) / static_cast<T>(plan.rows);
        const T column = static_cast<T>(width) / static_cast<T>(plan.columns);
        const auto edge = [](T at, int64_t start, int64_t size) {
          return std::clamp<int64_t>(static_cast<int64_t>(at) + start, 0, size);
        };
        const int64_t first = r * plan.channels * plan.rows * plan.columns;
        for (int64_t i = 0; i < plan.channels * plan.rows * plan.columns; ++i) {
          const int64_t k = i % plan.columns, h = i / plan.columns % plan.rows;
          const int64_t ch = i / (plan.columns * plan.rows);
          const int64_t y0 = edge(std::floor(static_cast<T>(h) * row), top, plan.height);
          const int64_t y1 = edge(std::ceil(static_cast<T>(h + 1) * row), top, plan.height);
          const int64_t x0 = edge(std::floor(static_cast<T>(k) * column), left, plan.width);
          const int64_t x1 = edge(std::ceil(static_cast<T>(k + 1) * column), left, plan.width);
          const T* x = c.in(0).as<const T>() +
                       (static_cast<int64_t>(roi[0]) * plan.channels + ch) * plan.plane();
          const bool empty = y1 <= y0 || x1 <= x0;
          T best = empty ? T(0) : std::numeric_limits<T>::lowest();
          int64_t place = -1;
          for (int64_t a = y0; a < y1; ++a)
            for (int64_t b = x0; b < x1; ++b)
              if (x[a * plan.width + b] > best) {
                best = x[a * plan.width + b];
                place = a * plan.width + b;
              }
          c.out(0).as<T>()[first + i] = best;
          c.out(1).as<int64_t>()[first + i] = place;
        }
      }
    });
  });
}
Status prepare_roi_pool(PrepareContext& c) {
  c.make_state(roi_plan(c, c.in(0).shape));
  return {};
}
Status prepare_roi_align_forward(PrepareContext& c) {
  HG_TRY(prepare_roi_align(c, c.in(0).shape));
  c.state<RoiPlan>()->takes_largest = c.attrs().string("mode") == "max";
  return {};
}
Status prepare_roi_align_grad(PrepareContext& c) { return prepare_roi_align(c, c.out(0).shape); }

// -- Columns at offsets ---------------------------------------------------------------------------

struct DeformPlan {
  int64_t batch = 1, channels = 1, height = 1, width = 1;
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  int64_t rows = 1, columns = 1, groups = 1;
  int64_t area() const { return kernel[0] * kernel[1]; }
  int64_t plane() const { return height * width; }
  int64_t points() const { return rows * columns; }
};
Status make_deform(PrepareContext& c, const Sizes& x, const Sizes& offset) {
  DeformPlan plan;
  plan.batch = x[0];
  plan.channels = x[1];
  plan.height = x[2];
  plan.width = x[3];
  plan.rows = offset[2];
  plan.columns = offset[3];
  const auto read = [&](std::string_view name, int64_t(&to)[2]) {
    const Sizes list = c.attrs().integers(name);
    for (int i = 0; i < 2; ++i) to[i] = list[list.rank() == 1 ? 0 : i];
  };
  read("kernel_size", plan.kernel);
  read("stride", plan.stride);
  read("padding", plan.padding);
  read("dilation", plan.dilation);
  plan.groups = offset[1] / (2 * plan.area());
  c.make_state(plan);
  return {};
}
Status prepare_deform(PrepareContext& c) { return make_deform(c, c.in(0).shape, c.in(1).shape); }
Status prepare_deform_grad(PrepareContext& c) {
  return make_deform(c, c.in(1).shape, c.in(2).shape);
}

// The four pixels around (y, x); pixels outside count as 0.
template <class T>
struct Around {
  int64_t at[4];
  bool inside[4];
  T dy, dx;  // from the first of them
  Around(T y, T x, int64_t height, int64_t width) {
    // Positions that are not finite are outside.
    if (!(std::abs(y) < T(1 << 30) && std::abs(x) < T(1 << 30))) y = x = T(-10);
    const T top = std::floor(y), left = std::floor(x);
    dy = y - top;
    dx = x - left;
    for (int i = 0; i < 4; ++i) {
      const int64_t a = static_cast<int64_t>(top) + i / 2, b = static_cast<int64_t>(left) + i % 2;
      inside[i] = a >= 0 && a < height && b >= 0 && b < width;
      at[i] = inside[i] ? a * width + b : 0;
    }
  }
  T weight(int i) const { return (i / 2 ? dy : 1 - dy) * (i % 2 ? dx : 1 - dx); }
};

// The position that element (image, group, tap, point) of the kernel reads.
template <class T>
Around<T> around(const DeformPlan& p, const T* offset, int64_t image, int64_t group, int64_t tap,
                 int64_t point) {
  const T* shift =
      offset + ((image * p.groups + group) * 2 * p.area() + 2 * tap) * p.points() + point;
  const int64_t y =
      point / p.columns * p.stride[0] - p.padding[0] + tap / p.kernel[1] * p.dilation[0];
  const int64_t x =
      point % p.columns * p.stride[1] - p.padding[1] + tap % p.kernel[1] * p.dilation[1];
  return Around<T>(static_cast<T>(y) + shift[0], static_cast<T>(x) + shift[p.points()], p.height,
                   p.width);
}

void run_deform(const RunContext& c) noexcept {
  const DeformPlan& p = c.state<DeformPlan>();
  for_wide(c.out(0).dtype, [&]<class T>() {
    // One task: a tap of a group of an image, for all channels.
    c.parallel_for(p.batch * p.groups * p.area(), 1, [&](int64_t begin, int64_t end) {
      const int64_t each = p.channels / p.groups;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t tap = i % p.area(), group = i / p.area() % p.groups;
        const int64_t image = i / (p.area() * p.groups);
        const T* mask = c.in(2).as<const T>() + i * p.points();
        for (int64_t point = 0; point < p.points(); ++point) {
          const Around<T> a = around(p, c.in(1).as<const T>(), image, group, tap, point);
          T weight[4];
          for (int e = 0; e < 4; ++e) weight[e] = a.inside[e] ? a.weight(e) : T(0);
          for (int64_t ch = group * each; ch < (group + 1) * each; ++ch) {
            const T* x = c.in(0).as<const T>() + (image * p.channels + ch) * p.plane();
            T sum = 0;
            for (int e = 0; e < 4; ++e)
              if (a.inside[e]) sum += weight[e] * x[a.at[e]];
            c.out(0).as<T>()[((image * p.channels + ch) * p.area() + tap) * p.points() + point] =
                sum * mask[point];
          }
        }
      }
    });
  });
}

void run_deform_grad(const RunContext& c) noexcept {
  const DeformPlan& p = c.state<DeformPlan>();
  const int64_t each = p.channels / p.groups;
  for_wide(c.out(0).dtype, [&]<class T>() {
    const T *dy = c.in(0).as<const T>(), *offset = c.in(2).as<const T>();
    const T* mask = c.in(3).as<const T>();
    c.parallel_for(p.batch * p.channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        T* dx = c.out(0).as<T>() + plane * p.plane();
        std::fill(dx, dx + p.plane(), T(0));
        const int64_t image = plane / p.channels, group = plane % p.channels / each;
        for (int64_t tap = 0; tap < p.area(); ++tap)
          for (int64_t point = 0; point < p.points(); ++point) {
            const Around<T> a = around(p, offset, image, group, tap, point);
            const T d = dy[(plane * p.area() + tap) * p.points() + point] *
                        mask[((image * p.groups + group) * p.area() + tap) * p.points() + point];
            for (int e = 0; e < 4; ++e)
              if (a.inside[e]) dx[a.at[e]] += d * a.weight(e);
          }
      }
    });
    c.parallel_for(p.batch * p.groups * p.area(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t tap = i % p.area(), group = i / p.area() % p.groups;
        const int64_t image = i / (p.area() * p.groups);
        T* doffset =
            c.out(1).as<T>() + ((image * p.groups + group) * 2 * p.area() + 2 * tap) * p.points();
        for (int64_t point = 0; point < p.points(); ++point) {
          const Around<T> a = around(p, offset, image, group, tap, point);
          T to_y = 0, to_x = 0, to_mask = 0;
          for (int64_t ch = group * each; ch < (group + 1) * each; ++ch) {
            const int64_t plane = image * p.channels + ch;
            const T* x = c.in(1).as<const T>() + plane * p.plane();
            const T d = dy[(plane * p.area() + tap) * p.points() + point];
            T v[4], sum = 0;
            for (int e = 0; e < 4; ++e) {
              v[e] = a.inside[e] ? x[a.at[e]] : T(0);
              sum += a.weight(e) * v[e];
            }
            to_y += d * ((1 - a.dx) * (v[2] - v[0]) + a.dx * (v[3] - v[1]));
            to_x += d * ((1 - a.dy) * (v[1] - v[0]) + a.dy * (v[3] - v[2]));
            to_mask += d * sum;
          }
          const T m = mask[i * p.points() + point];
          doffset[point] = to_y * m;
          doffset[p.points() + point] = to_x * m;
          c.out(2).as<T>()[i * p.points() + point] = to_mask;
        }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "nms", .name = "loop", .prepare = prepare_nms, .run = run_nms, .measure = measure_nms},
    {.op = "roi_align", .name = "loop", .prepare = prepare_roi_align_forward, .run = run_roi_align},
    {.op = "roi_align_grad",
     .name = "loop",
     .prepare = prepare_roi_align_grad,
     .run = run_roi_align_grad},
    {.op = "roi_pool", .name = "loop", .prepare = prepare_roi_pool, .run = run_roi_pool},
    {.op = "deform_im2col", .name = "loop", .prepare = prepare_deform, .run = run_deform},
    {.op = "deform_im2col_grad",
     .name = "loop",
     .prepare = prepare_deform_grad,
     .run = run_deform_grad},
};

}  // namespace

std::span<const KernelDef> detection() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
