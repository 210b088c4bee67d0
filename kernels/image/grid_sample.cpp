// SPDX-License-Identifier: Apache-2.0
// Samples images at given positions; and the gradient. Every mode combines one short list of taps
// per dim; the taps include their derivatives.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "hg/kernel.h"
#include "kernels/ceil_div.h"
#include "kernels/element.h"
#include "kernels/gemm/tiles.h"
#include "kernels/image/grid_sample_simd.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPoints = PlaneTaps::kPoints;  // that are sampled together
constexpr int64_t kWidePlanes = 65536;           // elements of planes of halves that a tile widens

enum class Mode { bilinear, nearest, bicubic };
enum class Padding { zeros, border, reflection };

struct GridState {
  int64_t batch = 1, channels = 1;
  int64_t in[3] = {1, 1, 1};  // depth, height, width
  int dims = 2;
  int64_t points = 1;  // output pixels of one image
  Mode mode = Mode::bilinear;
  Padding padding = Padding::zeros;
  bool align_corners = false;
  std::optional<GridPlane> plane = {};  // samples in two dims, bilinear or nearest, in f32
  // Of halves: planes of an image that a tile widens.
  int64_t together = 1, lanes = 1;
  int64_t in_count() const { return in[0] * in[1] * in[2]; }
  int64_t groups() const { return ceil_div(channels, together); }
  // Room for planes together; grows with their size.
  int64_t wide_bytes() const {
    return std::max(in_count(), std::min(channels * in_count(), kWidePlanes)) * 4;
  }
};

template <class W>
struct Taps {
  int count = 1;
  int64_t index[4] = {0, 0, 0, 0};  // -1: outside, contributes nothing
  W weight[4] = {1, 0, 0, 0};
  W slope[4] = {0, 0, 0, 0};  // d weight / d grid
};

// A position, and its derivative with respect to the number in the grid.
template <class W>
struct Position {
  W at, slope;
};

// Reflects at both ends until the position is inside; `low` and `high` are twice the ends.
template <class W>
Position<W> reflected(Position<W> p, int64_t low, int64_t high) {
  if (low == high) return {0, 0};
  const W least = static_cast<W>(low) / 2, span = static_cast<W>(high - low) / 2;
  W x = p.at - least;
  W sign = 1;
  if (x < 0) {
    x = -x;
    sign = -1;
  }
  const W extra = std::fmod(x, span);
  const bool even = std::fmod(std::floor(x / span), W(2)) == 0;
  return even ? Position<W>{extra + least, p.slope * sign}
              : Position<W>{span - extra + least, -p.slope * sign};
}

template <class W>
Position<W> clipped(Position<W> p, int64_t size) {
  const W last = static_cast<W>(size - 1);
  if (p.at <= 0) return {0, 0};
  if (p.at >= last) return {last, 0};
  return p;
}

template <class W>
Position<W> padded(Position<W> p, int64_t size, const GridState& s) {
  if (s.padding == Padding::reflection)
    p = s.align_corners ? reflected(p, 0, 2 * (size - 1)) : reflected(p, -1, 2 * size - 1);
  if (s.padding != Padding::zeros) p = clipped(p, size);
  if (!(std::abs(p.at) < W(2147483520))) return {-100, p.slope};  // too far, or NaN
  return p;
}

template <class W>
Taps<W> taps_of(W coordinate, int64_t size, const GridState& s) {
  Taps<W> t;
  const W slope = s.align_corners ? static_cast<W>(size - 1) / 2 : static_cast<W>(size) / 2;
  Position<W> p{s.align_corners ? (coordinate + 1) / 2 * static_cast<W>(size - 1)
                                : ((coordinate + 1) * static_cast<W>(size) - 1) / 2,
                slope};
  auto inside = [&](int64_t i) { return i >= 0 && i < size ? i : -1; };
  if (s.mode == Mode::bicubic) {
    if (!(std::abs(p.at) < W(2147483520))) p.at = -100;
    const W first = std::floor(p.at), f = p.at - first;
    constexpr W a = W(-0.75);
    t.count = 4;
    for (int k = 0; k < 4; ++k) {
      const W d = f + 1 - static_cast<W>(k);  // signed distance
      const W x = std::abs(d), sign = d < 0 ? W(-1) : W(1);
      if (k == 1 || k == 2) {
        t.weight[k] = ((a + 2) * x - (a + 3)) * x * x + 1;
        t.slope[k] = (3 * (a + 2) * x - 2 * (a + 3)) * x * sign * slope;
      } else {
        t.weight[k] = ((x - 5) * x + 8) * x * a - 4 * a;
        t.slope[k] = ((3 * x - 10) * x + 8) * a * sign * slope;
      }
      const Position<W> q = padded(Position<W>{first - 1 + static_cast<W>(k), 1}, size, s);
      t.index[k] = inside(static_cast<int64_t>(q.at));
    }
    return t;
  }
  p = padded(p, size, s);
  if (s.mode == Mode::nearest) {
    t.index[0] = inside(static_cast<int64_t>(std::nearbyint(p.at)));
    return t;
  }
  const W first = std::floor(p.at);
  t.count = 2;
  t.index[0] = inside(static_cast<int64_t>(first));
  t.index[1] = inside(static_cast<int64_t>(first) + 1);
  t.weight[1] = p.at - first;
  t.weight[0] = 1 - t.weight[1];
  t.slope[0] = -p.slope;
  t.slope[1] = p.slope;
  return t;
}

// The taps of one output pixel: depth, height, width. The grid lists width first.
template <class T>
struct Point {
  Taps<Wide<T>> axes[3];
  Point(const T* grid, const GridState& s) {
    for (int i = 0; i < s.dims; ++i) axes[2 - i] = taps_of<Wide<T>>(load(grid + i), s.in[2 - i], s);
  }
};

// f(position in a plane, tap of depth, of height, of width) for all taps inside.
template <class W, class F>
void for_taps(const Taps<W>* axes, const GridState& s, const F& f) {
  for (int d = 0; d < axes[0].count; ++d) {
    if (axes[0].index[d] < 0) continue;
    for (int h = 0; h < axes[1].count; ++h) {
      if (axes[1].index[h] < 0) continue;
      for (int w = 0; w < axes[2].count; ++w) {
        if (axes[2].index[w] < 0) continue;
        f((axes[0].index[d] * s.in[1] + axes[1].index[h]) * s.in[2] + axes[2].index[w], d, h, w);
      }
    }
  }
}

GridState read_grid(const KernelAttrs& attrs, const Tensor& x, const Tensor& grid) {
  GridState s;
  s.batch = x.shape[0];
  s.channels = x.shape[1];
  s.dims = x.rank() - 2;
  for (int i = 0; i < s.dims; ++i) {
    s.in[3 - s.dims + i] = x.shape[i + 2];
    s.points *= grid.shape[i + 1];
  }
  const std::string &mode = attrs.string("mode"), &padding = attrs.string("padding_mode");
  s.mode = mode == "bicubic" ? Mode::bicubic : mode == "nearest" ? Mode::nearest : Mode::bilinear;
  s.padding = padding == "zeros"    ? Padding::zeros
              : padding == "border" ? Padding::border
                                    : Padding::reflection;
  s.align_corners = attrs.flag("align_corners");
  return s;
}

Status sample_prepare(PrepareContext& c) {
  GridState s = read_grid(c.attrs(), c.in(0), c.in(1));
  const DType dtype = c.out(0).dtype;
  if (dtype != f64 && s.dims == 2 && s.mode != Mode::bicubic && s.padding != Padding::reflection &&
      s.in_count() > 0 && s.in_count() <= std::numeric_limits<int32_t>::max() &&
      std::max(s.in[1], s.in[2]) <= GridPlane::kLargest)
    s.plane = {static_cast<int32_t>(s.in[1]), static_cast<int32_t>(s.in[2]),
               s.mode == Mode::nearest, s.padding == Padding::border, s.align_corners};
  if (dtype == f16 || dtype == bf16) {
    s.together = std::clamp<int64_t>(kWidePlanes / std::max<int64_t>(1, s.in_count()), 1,
                                     std::max<int64_t>(1, s.channels));
    s.lanes = tile_lanes(c, s.batch * s.groups());
    c.set_workspace(tile_workspace(s.lanes, s.wide_bytes()));
  }
  c.make_state(s);
  return {};
}
Status sample_grad_prepare(PrepareContext& c) {
  c.make_state(read_grid(c.attrs(), c.in(1), c.in(2)));
  if (c.out(0).dtype == f16 || c.out(0).dtype == bf16)
    c.set_workspace(c.out(0).count() * static_cast<int64_t>(sizeof(float)));
  return {};
}

// The taps of some points as one list, which all channels share.
template <class T>
struct PointTaps {
  static constexpr int kMost = 16;  // of one point: 4 by 4, or 2 by 2 by 2
  int64_t at[kPoints * kMost];
  T weight[kPoints * kMost];
  int64_t first[kPoints + 1];  // of each point
  bool in_fours = true;        // each point has four taps

  PointTaps(const GridState& s, const T* grid, int64_t points) {
    int64_t count = 0;
    for (int64_t i = 0; i < points; ++i) {
      first[i] = count;
      const Point<T> p(grid + i * s.dims, s);
      for_taps(p.axes, s, [&](int64_t place, int d, int h, int w) {
        at[count] = place;
        weight[count++] = p.axes[0].weight[d] * p.axes[1].weight[h] * p.axes[2].weight[w];
      });
      in_fours = in_fours && count == first[i] + 4;
    }
    first[points] = count;
  }
  T sample(const T* x, int64_t point) const {
    if (in_fours) {
      const int64_t* a = at + 4 * point;
      const T* w = weight + 4 * point;
      return x[a[0]] * w[0] + x[a[1]] * w[1] + x[a[2]] * w[2] + x[a[3]] * w[3];
    }
    T sum = 0;
    for (int64_t t = first[point]; t < first[point + 1]; ++t) sum += x[at[t]] * weight[t];
    return sum;
  }
};

// Samples `planes` planes of x, which follow each other, at `count` points. Calls y(plane) for
// memory for the samples, and done(plane) when they are there.
template <class T, class Y, class Done>
void sample_points(const GridState& s, const T* grid, int64_t count, const T* x, int64_t planes,
                   const Y& y, const Done& done) {
  if constexpr (std::is_same_v<T, float>)
    if (s.plane) {
      const GridSampleTable& table = grid_sample_table();
      PlaneTaps taps;
      table.taps(*s.plane, grid, count, taps);
      for (int64_t k = 0; k < planes; ++k, x += s.in_count()) {
        table.sample(taps, x, y(k), count);
        done(k);
      }
      return;
    }
  const PointTaps<T> taps(s, grid, count);
  for (int64_t k = 0; k < planes; ++k, x += s.in_count()) {
    T* const to = y(k);
    for (int64_t j = 0; j < count; ++j) to[j] = taps.sample(x, j);
    done(k);
  }
}

// A tile widens some planes of an image and the grid, and rounds the samples.
template <class T>
void sample_halves(const RunContext& c, const GridState& s) {
  const HalfTable& half = half_table();
  for_tiles(c, s.batch * s.groups(), s.lanes, s.wide_bytes(), [&](int64_t task, float* x) {
    const int64_t n = task / s.groups(), first = task % s.groups() * s.together;
    const int64_t planes = std::min(s.together, s.channels - first);
    const int64_t plane = n * s.channels + first;
    half.widen(planes * s.in_count(), c.in(0).as<T>() + plane * s.in_count(), x);
    for (int64_t point = 0; point < s.points; point += kPoints) {
      const int64_t count = std::min(kPoints, s.points - point);
      float grid[kPoints * 3], sums[kPoints];
      half.widen(count * s.dims, c.in(1).as<T>() + (n * s.points + point) * s.dims, grid);
      sample_points<float>(
          s, grid, count, x, planes, [&](int64_t) { return sums; },
          [&](int64_t k) {
            half.narrow(count, sums, c.out(0).as<T>() + (plane + k) * s.points + point);
          });
    }
  });
}

void sample_run(const RunContext& c) noexcept {
  const GridState& s = c.state<GridState>();
  const int64_t blocks = ceil_div(s.points, kPoints);
  for_float(c.out(0).dtype, [&]<class T>() {
    if constexpr (kIsHalf<T>)
      return sample_halves<T>(c, s);
    else
      c.parallel_for(s.batch * blocks, grain_of((s.channels + 4) * (s.plane ? 8 : 16) * kPoints),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         const int64_t n = i / blocks, point = i % blocks * kPoints;
                         T* const y = c.out(0).as<T>() + n * s.channels * s.points + point;
                         sample_points<T>(
                             s, c.in(1).as<T>() + (n * s.points + point) * s.dims,
                             std::min(kPoints, s.points - point),
                             c.in(0).as<T>() + n * s.channels * s.in_count(), s.channels,
                             [&](int64_t k) { return y + k * s.points; }, [](int64_t) {});
                       }
                     });
  });
}

void sample_grad_run(const RunContext& c) noexcept {
  const GridState& s = c.state<GridState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    const T* grid = c.in(2).as<T>();
    c.parallel_for(s.batch * s.channels, grain_of(s.points * 16), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* dy = c.in(0).as<T>() + plane * s.points;
        T* dx = c.out(0).as<T>() + plane * s.in_count();
        W* sum = nullptr;
        if constexpr (std::is_same_v<T, W>)
          sum = dx;
        else
          sum = c.workspace<W>() + plane * s.in_count();
        for (int64_t k = 0; k < s.in_count(); ++k) sum[k] = 0;
        for (int64_t i = 0; i < s.points; ++i) {
          const Point<T> p(grid + (plane / s.channels * s.points + i) * s.dims, s);
          const W v = load(dy + i);
          for_taps(p.axes, s, [&](int64_t at, int d, int h, int w) {
            sum[at] += v * p.axes[0].weight[d] * p.axes[1].weight[h] * p.axes[2].weight[w];
          });
        }
        if constexpr (!std::is_same_v<T, W>)
          for (int64_t k = 0; k < s.in_count(); ++k) store(dx + k, sum[k]);
      }
    });
    c.parallel_for(s.batch * s.points, grain_of(s.channels * 16), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / s.points, point = i % s.points;
        const Point<T> p(grid + i * s.dims, s);
        W sums[3] = {0, 0, 0};
        for (int64_t k = 0; k < s.channels; ++k) {
          const int64_t plane = n * s.channels + k;
          const T* x = c.in(1).as<T>() + plane * s.in_count();
          const W dy = load(c.in(0).as<T>() + plane * s.points + point);
          for_taps(p.axes, s, [&](int64_t at, int d, int h, int w) {
            const W v = dy * load(x + at);
            const Taps<W>* a = p.axes;
            sums[0] += v * a[0].slope[d] * a[1].weight[h] * a[2].weight[w];
            sums[1] += v * a[0].weight[d] * a[1].slope[h] * a[2].weight[w];
            sums[2] += v * a[0].weight[d] * a[1].weight[h] * a[2].slope[w];
          });
        }
        for (int k = 0; k < s.dims; ++k) store(c.out(1).as<T>() + i * s.dims + k, sums[2 - k]);
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "grid_sample", .name = "taps", .prepare = sample_prepare, .run = sample_run},
    {.op = "grid_sample_grad",
     .name = "taps",
     .prepare = sample_grad_prepare,
     .run = sample_grad_run},
};

}  // namespace

std::span<const KernelDef> grid_sample() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
