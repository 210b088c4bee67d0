// SPDX-License-Identifier: Apache-2.0
// The windows of pooling. One or two spatial dims become three with leading dims of size 1. One
// Window per dim describes every window, so plain and adaptive pooling share the loops.
#pragma once

#include <algorithm>
#include <vector>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/gemm/tiles.h"
#include "kernels/pool/pool_simd.h"
#include "kernels/simd/half_simd.h"

namespace hg::kernels {

struct Window {
  int64_t begin, end;  // inside the input, [begin, end) in steps of the dilation
  int64_t padded;      // elements including padding
};

struct Axis {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool adaptive = false;

  Window window(int64_t o) const {
    if (adaptive) {
      const int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
      return {begin, end, end - begin};
    }
    int64_t begin = o * stride - padding;
    const int64_t padded = std::min(begin + kernel, in + padding) - begin;
    const int64_t end = std::min(begin + (kernel - 1) * dilation + 1, in);
    if (begin < 0) begin += (-begin + dilation - 1) / dilation * dilation;
    return {begin, end, padded};
  }
  // The windows [first, last) that contain element i, without dilation.
  void covering(int64_t i, int64_t& first, int64_t& last) const {
    if (adaptive) {
      first = i * out / in;
      last = std::min(out, ((i + 1) * out + in - 1) / in);
      return;
    }
    const int64_t behind = i + padding - kernel;  // first window: o stride > behind
    first = behind < 0 ? 0 : behind / stride + 1;
    last = std::min(out, (i + padding) / stride + 1);
  }
};

// The outputs [first, last) of a row for which one tap of the window lies inside the input.
struct Reach {
  int64_t first, last;
};

struct PoolState {
  int64_t planes = 1;
  Axis axes[3];
  std::vector<Reach> reach;  // of the taps along the last axis, unless adaptive
  bool count_include_pad = true;
  int64_t divisor = 0;  // 0: the window's size
  // The divisor of each output's sum along a row, without the other dims; 1 if there are no
  // elements.
  std::vector<float> widths;
  int64_t lanes = 1;  // of pools of halves: each has memory for the planes x and y in f32
  int64_t in_count() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_count() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t grain() const { return grain_of(std::max(in_count(), out_count()), 1 << 15); }
  int64_t wide_bytes() const { return (in_count() + out_count()) * 4; }
};

inline PoolState sizes_of(const Tensor& in, const Tensor& out) {
  PoolState s;
  s.planes = in.shape[0] * in.shape[1];
  for (int i = 2; i < in.rank(); ++i) {
    Axis& axis = s.axes[3 - in.rank() + i];
    axis.in = in.shape[i];
    axis.out = out.shape[i];
  }
  return s;
}

inline Sizes per_dim(const KernelAttrs& attrs, std::string_view name, int dims) {
  const Sizes listed = attrs.integers(name);
  return listed.rank() == 1 ? Sizes(dims, listed[0]) : listed;
}

inline void find_reach(PoolState& s) {
  const Axis& a = s.axes[2];
  s.reach.clear();
  for (int64_t k = 0; k < a.kernel; ++k) {
    const int64_t offset = k * a.dilation - a.padding;  // input = output stride + offset
    const int64_t first = offset >= 0 ? 0 : (-offset + a.stride - 1) / a.stride;
    const int64_t last =
        a.in <= offset ? first : std::min(a.out, (a.in - 1 - offset) / a.stride + 1);
    s.reach.push_back({first, std::max(first, last)});
  }
}

inline void read_windows(PoolState& s, const KernelAttrs& attrs, int dims, bool dilated) {
  const Sizes kernel = per_dim(attrs, "kernel_size", dims);
  const Sizes stride = attrs.integers("stride").empty() ? kernel : per_dim(attrs, "stride", dims);
  const Sizes padding = per_dim(attrs, "padding", dims);
  const Sizes dilation = dilated ? per_dim(attrs, "dilation", dims) : Sizes(dims, 1);
  for (int i = 0; i < dims; ++i) {
    Axis& axis = s.axes[3 - dims + i];
    axis.kernel = kernel[i];
    axis.stride = stride[i];
    axis.padding = padding[i];
    axis.dilation = dilation[i];
  }
  find_reach(s);
}

// If windows cover rows without gaps and have size 1 across, merges some rows into one with enough
// columns to fill vectors.
inline void join_rows(PoolState& s) {
  Axis& a = s.axes[2];
  for (const Axis& across : {s.axes[0], s.axes[1]})
    if (across.kernel != 1 || across.stride != 1 || across.padding != 0) return;
  if (a.kernel != a.stride || a.padding != 0 || a.dilation != 1 || a.in != a.out * a.stride) return;
  const int64_t rows = s.planes * s.axes[0].out * s.axes[1].out;
  int64_t joined = (PoolTable::kMaxColumns - a.kernel) / std::max<int64_t>(1, a.in);
  while (joined > 1 && rows % joined != 0) --joined;
  if (joined <= 1) return;
  s.planes = rows / joined;
  s.axes[0] = s.axes[1] = {};
  a.in *= joined;
  a.out *= joined;
  find_reach(s);
}

inline PoolState adaptive_windows(const Tensor& in, const Tensor& out) {
  PoolState s = sizes_of(in, out);
  for (Axis& axis : s.axes) axis.adaptive = true;
  return s;
}

// Calls f(plane) for every plane, in parallel.
template <class F>
void for_planes(const RunContext& c, const PoolState& s, const F& f) {
  c.parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

// For for_wide_planes(), of a pool that is complete.
inline void reserve_wide_planes(PrepareContext& c, PoolState& s) {
  if (c.out(0).dtype != f16 && c.out(0).dtype != bf16) return;
  s.lanes = tile_lanes(c, s.planes);
  c.set_workspace(tile_workspace(s.lanes, s.wide_bytes()));
}

// Calls f(plane, x, y) for every plane of halves: x is widened, and y is rounded afterwards.
template <class T, class F>
void for_wide_planes(const RunContext& c, const PoolState& s, const F& f) {
  const HalfTable& half = half_table();
  for_tiles(c, s.planes, s.lanes, s.wide_bytes(), [&](int64_t plane, float* x) {
    float* const y = x + s.in_count();
    half.widen(s.in_count(), c.in(0).as<T>() + plane * s.in_count(), x);
    f(plane, x, y);
    half.narrow(s.out_count(), y, c.out(0).as<T>() + plane * s.out_count());
  });
}

// Calls f(o, window of depth, of height, of width) for every output of a plane, row-major.
template <class F>
void for_windows(const PoolState& s, const F& f) {
  int64_t o = 0;
  for (int64_t d = 0; d < s.axes[0].out; ++d) {
    const Window wd = s.axes[0].window(d);
    for (int64_t h = 0; h < s.axes[1].out; ++h) {
      const Window wh = s.axes[1].window(h);
      for (int64_t w = 0; w < s.axes[2].out; ++w) f(o++, wd, wh, s.axes[2].window(w));
    }
  }
}

// A row of outputs processes one tap at a time, so that the inner loop runs over neighbors.
// `into(y, x)` folds an element into the result.
template <class T, class F>
void fold_row(const PoolState& s, const T* x, T* y, const F& into) {
  const Axis& a = s.axes[2];
  for (int64_t k = 0; k < a.kernel; ++k) {
    const auto [first, last] = s.reach[k];
    const T* from = x + k * a.dilation - a.padding;
    if (a.stride == 1) {
      for (int64_t o = first; o < last; ++o) y[o] = into(y[o], from[o]);
    } else if (a.stride == 2) {
      for (int64_t o = first; o < last; ++o) y[o] = into(y[o], from[2 * o]);
    } else {
      for (int64_t o = first; o < last; ++o) y[o] = into(y[o], from[o * a.stride]);
    }
  }
}

template <class T, class F>
void fold_plane(const PoolState& s, const T* x, T* y, T start, const F& into) {
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  for (int64_t od = 0; od < ad.out; ++od) {
    const Window wd = ad.window(od);
    for (int64_t oh = 0; oh < ah.out; ++oh, y += aw.out) {
      const Window wh = ah.window(oh);
      for (int64_t o = 0; o < aw.out; ++o) y[o] = start;
      for (int64_t d = wd.begin; d < wd.end; d += ad.dilation)
        for (int64_t h = wh.begin; h < wh.end; h += ah.dilation)
          fold_row(s, x + (d * ah.in + h) * aw.in, y, into);
    }
  }
}

// Windows of one plane, without dilation, whose rows are processed in vectors.
inline bool is_row_pool(const PoolState& s) {
  const Axis& a = s.axes[2];
  return !a.adaptive && a.dilation == 1 && s.axes[1].dilation == 1 && s.axes[0].kernel == 1 &&
         (a.stride == 1 || a.stride == 2 || a.stride == 4) && a.padding < a.kernel &&
         std::max(a.in + 2 * a.padding, a.out * a.stride + a.kernel) <= PoolTable::kMaxColumns;
}

// 2 x 2 windows that cover planes without gaps: rows of all planes follow each other.
inline bool is_pair_pool(const PoolState& s) {
  const auto is_halved = [](const Axis& a) {
    return !a.adaptive && a.kernel == 2 && a.stride == 2 && a.padding == 0 && a.dilation == 1 &&
           a.in == 2 * a.out;
  };
  return s.axes[0].in == 1 && s.axes[0].out == 1 && s.axes[0].kernel == 1 && is_halved(s.axes[1]) &&
         is_halved(s.axes[2]) && s.axes[2].in > 0 && s.axes[2].in <= PoolTable::kMaxColumns;
}

inline void pool_pairs(const RunContext& c, const PoolState& s,
                       void (*pairs)(const float*, int64_t, int64_t, float*)) {
  const int64_t outputs = s.axes[2].out;
  c.parallel_for(s.planes * s.axes[1].out, grain_of(4 * outputs, 1 << 15),
                 [&](int64_t begin, int64_t end) {
                   pairs(c.in(0).as<float>() + begin * 4 * outputs, end - begin, outputs,
                         c.out(0).as<float>() + begin * outputs);
                 });
}

// The windows of depth and height of a row of outputs, and their elements in the plane x.
inline WindowRow row_of_windows(const PoolState& s, const Window& wd, const Window& wh,
                                const float* x) {
  const Axis &ah = s.axes[1], &aw = s.axes[2];
  return {.x = x + (wd.begin * ah.in + wh.begin) * aw.in,
          .rows = wd.end > wd.begin ? std::max<int64_t>(0, wh.end - wh.begin) : 0,
          .row_step = aw.in,
          .columns = aw.in,
          .padding = aw.padding,
          .kernel = aw.kernel,
          .stride = aw.stride,
          .outputs = aw.out};
}

// Calls add(window of depth, of height, row) for each row of windows of a plane.
template <class F>
void pool_rows(const PoolState& s, const float* x, float* y, void (*fold)(const WindowRow*, int),
               const F& add) {
  const Axis &ad = s.axes[0], &ah = s.axes[1];
  const int64_t rows = ad.out * ah.out;
  for (int64_t first = 0; first < rows; first += PoolTable::kMaxRows) {
    const auto count = static_cast<int>(std::min<int64_t>(PoolTable::kMaxRows, rows - first));
    WindowRow some[PoolTable::kMaxRows];
    for (int i = 0; i < count; ++i) {
      const Window wd = ad.window((first + i) / ah.out), wh = ah.window((first + i) % ah.out);
      some[i] = row_of_windows(s, wd, wh, x);
      some[i].y = y + (first + i) * s.axes[2].out;
      add(wd, wh, some[i]);
    }
    fold(some, count);
  }
}

}  // namespace hg::kernels
