// SPDX-License-Identifier: Apache-2.0
// Pooling. One or two spatial dims are three with leading ones; every window is described by one
// Window for each dim, so plain and adaptive pooling share the loops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/pool_simd.h"

namespace hg::kernels {
namespace {

struct Window {
  int64_t begin, end;  // inside of the input, [begin, end) in steps of the dilation
  int64_t padded;      // elements with those of the padding
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
  // The windows [first, last) that element i is in, without dilation.
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

// The outputs [first, last) of a row for which one tap of the window lies inside of the input.
struct Reach {
  int64_t first, last;
};

struct PoolState {
  int64_t planes = 1;
  Axis axes[3];
  std::vector<Reach> reach;  // of the taps along the last axis, unless adaptive
  bool count_include_pad = true;
  int64_t divisor = 0;  // 0: the window's size
  // What the sum of each output of a row is divided by, besides the other dims; 1 for no elements.
  std::vector<float> widths;
  int64_t in_count() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_count() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t grain() const { return grain_of(std::max(in_count(), out_count()), 1 << 15); }
};

PoolState sizes_of(const Tensor& in, const Tensor& out) {
  PoolState s;
  s.planes = in.shape[0] * in.shape[1];
  for (int i = 2; i < in.rank(); ++i) {
    Axis& axis = s.axes[3 - in.rank() + i];
    axis.in = in.shape[i];
    axis.out = out.shape[i];
  }
  return s;
}

Sizes per_dim(const KernelAttrs& attrs, std::string_view name, int dims) {
  const Sizes listed = attrs.integers(name);
  return listed.rank() == 1 ? Sizes(dims, listed[0]) : listed;
}

void read_windows(PoolState& s, const KernelAttrs& attrs, int dims, bool dilated) {
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
  const Axis& a = s.axes[2];
  for (int64_t k = 0; k < a.kernel; ++k) {
    const int64_t offset = k * a.dilation - a.padding;  // input = output stride + offset
    const int64_t first = offset >= 0 ? 0 : (-offset + a.stride - 1) / a.stride;
    const int64_t last =
        a.in <= offset ? first : std::min(a.out, (a.in - 1 - offset) / a.stride + 1);
    s.reach.push_back({first, std::max(first, last)});
  }
}

void read_divisor(PoolState& s, const KernelAttrs& attrs) {
  s.count_include_pad = attrs.flag("count_include_pad");
  if (attrs.has("divisor_override")) s.divisor = attrs.integer("divisor_override");
}

Status max_pool_prepare(PrepareContext& c) {
  PoolState s = sizes_of(c.in(0), c.out(0));
  read_windows(s, c.attrs(), c.in(0).rank() - 2, true);
  c.make_state(std::move(s));
  return {};
}
Status avg_pool_prepare(PrepareContext& c) {
  PoolState s = sizes_of(c.in(0), c.out(0));
  read_windows(s, c.attrs(), c.in(0).rank() - 2, false);
  read_divisor(s, c.attrs());
  for (int64_t o = 0; o < s.axes[2].out; ++o) {
    const Window w = s.axes[2].window(o);
    const int64_t width = s.divisor != 0        ? s.divisor
                          : s.count_include_pad ? w.padded
                                                : w.end - w.begin;
    s.widths.push_back(static_cast<float>(w.end > w.begin ? width : 1));
  }
  c.make_state(std::move(s));
  return {};
}
Status avg_pool_grad_prepare(PrepareContext& c) {
  PoolState s = sizes_of(c.out(0), c.in(0));
  read_windows(s, c.attrs(), c.in(0).rank() - 2, false);
  read_divisor(s, c.attrs());
  c.make_state(std::move(s));
  return {};
}
Status adaptive_prepare(PrepareContext& c) {
  PoolState s = sizes_of(c.in(0), c.out(0));
  for (Axis& axis : s.axes) axis.adaptive = true;
  c.make_state(std::move(s));
  return {};
}
Status adaptive_grad_prepare(PrepareContext& c) {
  PoolState s = sizes_of(c.out(0), c.in(0));
  for (Axis& axis : s.axes) axis.adaptive = true;
  c.make_state(std::move(s));
  return {};
}

// f(plane) for every plane, in parallel.
template <class F>
void for_planes(const RunContext& c, const PoolState& s, const F& f) {
  c.parallel_for(s.planes, s.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

// f(o, window of depth, of height, of width) for every output of a plane, row-major.
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

template <class T>
bool beats(T v, T best) {
  if constexpr (std::is_floating_point_v<T>) return (v > best) | (v != v);
  return v > best;
}
template <class T>
T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

template <class T>
void max_plane(const PoolState& s, const T* x, T* y, int64_t* indices) {
  using W = Wide<T>;
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  for_windows(s, [&](int64_t o, const Window& wd, const Window& wh, const Window& ww) {
    W best = lowest<W>();
    int64_t index = (wd.begin * ah.in + wh.begin) * aw.in + ww.begin;
    for (int64_t d = wd.begin; d < wd.end; d += ad.dilation)
      for (int64_t h = wh.begin; h < wh.end; h += ah.dilation)
        for (int64_t w = ww.begin; w < ww.end; w += aw.dilation) {
          const int64_t at = (d * ah.in + h) * aw.in + w;
          const W v = load(x + at);
          if (beats(v, best)) {
            best = v;
            index = at;
          }
        }
    store(y + o, best);
    if (indices) indices[o] = index;
  });
}

constexpr int64_t kRowPart = 256;  // outputs of a row whose maxima are kept at once

// As max_plane, but a row of outputs takes one tap at a time, in loops over neighbours.
template <class T, class Index>
void max_rows(const PoolState& s, const T* x, T* y, int64_t* indices) {
  using W = Wide<T>;
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  W best[kRowPart], found[kRowPart];
  Index index[kRowPart];
  for (int64_t row = 0; row < ad.out * ah.out; ++row) {
    const Window wd = ad.window(row / ah.out), wh = ah.window(row % ah.out);
    for (int64_t o0 = 0; o0 < aw.out; o0 += kRowPart) {
      const int64_t o1 = std::min(aw.out, o0 + kRowPart);
      for (int64_t o = o0; o < o1; ++o) {
        best[o - o0] = lowest<W>();
        index[o - o0] =
            static_cast<Index>((wd.begin * ah.in + wh.begin) * aw.in + aw.window(o).begin);
      }
      for (int64_t d = wd.begin; d < wd.end; d += ad.dilation)
        for (int64_t h = wh.begin; h < wh.end; h += ah.dilation)
          for (int64_t k = 0; k < aw.kernel; ++k) {
            const Reach& reach = s.reach[static_cast<size_t>(k)];
            const int64_t first = std::max(reach.first, o0), last = std::min(reach.last, o1);
            const int64_t tap = (d * ah.in + h) * aw.in + k * aw.dilation - aw.padding;
            for (int64_t o = first; o < last; ++o) found[o - o0] = load(x + tap + o * aw.stride);
            Index at = static_cast<Index>(tap + first * aw.stride);
            const Index step = static_cast<Index>(aw.stride);
            for (int64_t o = first - o0; o < last - o0; ++o, at += step) {
              const W v = found[o];
              const bool is_better = beats(v, best[o]);  // no branch: data would mislead it
              best[o] = is_better ? v : best[o];
              index[o] = is_better ? at : index[o];
            }
          }
      for (int64_t o = o0; o < o1; ++o) store(y + row * aw.out + o, best[o - o0]);
      if (indices) std::copy_n(index, o1 - o0, indices + row * aw.out + o0);
    }
  }
}

void indexed_max_run(const RunContext& c) noexcept {
  const PoolState& s = c.state<PoolState>();
  int64_t* indices = c.output_count() > 1 ? c.out(1).as<int64_t>() : nullptr;
  for_number(c.out(0).dtype, [&]<class T>() {
    for_planes(c, s, [&](int64_t plane) {
      const bool is_small = s.in_count() <= std::numeric_limits<int32_t>::max();
      const auto maxima = s.axes[2].adaptive ? max_plane<T>
                          : is_small         ? max_rows<T, int32_t>
                                             : max_rows<T, int64_t>;
      maxima(s, c.in(0).as<T>() + plane * s.in_count(), c.out(0).as<T>() + plane * s.out_count(),
             indices ? indices + plane * s.out_count() : nullptr);
    });
  });
}

// A row of outputs takes one tap at a time, so that the inner loop runs over neighbours.
// `into(y, x)` folds an element in.
template <class T, class F>
void fold_row(const PoolState& s, const T* x, T* y, const F& into) {
  const Axis& a = s.axes[2];
  for (int64_t k = 0; k < a.kernel; ++k) {
    const auto [first, last] = s.reach[static_cast<size_t>(k)];
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

// Windows of one plane, without dilation, whose rows are taken in vectors.
bool is_row_pool(const PoolState& s) {
  const Axis& a = s.axes[2];
  return !a.adaptive && a.dilation == 1 && s.axes[1].dilation == 1 && s.axes[0].kernel == 1 &&
         (a.stride == 1 || a.stride == 2) && a.padding < a.kernel &&
         std::max(a.in + 2 * a.padding, a.out * a.stride + a.kernel) <= PoolTable::kMaxColumns;
}

// after(window of depth, of height, y) for every row of y, once it is there.
template <class F>
void pool_rows(const RunContext& c, const PoolState& s, void (*fold)(const WindowRow&),
               const F& after) {
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  for_planes(c, s, [&](int64_t plane) {
    const float* x = c.in(0).as<float>() + plane * s.in_count();
    float* y = c.out(0).as<float>() + plane * s.out_count();
    for (int64_t row = 0; row < ad.out * ah.out; ++row, y += aw.out) {
      const Window wd = ad.window(row / ah.out), wh = ah.window(row % ah.out);
      fold({.x = x + (wd.begin * ah.in + wh.begin) * aw.in,
            .rows = wd.end > wd.begin ? std::max<int64_t>(0, wh.end - wh.begin) : 0,
            .row_step = aw.in,
            .columns = aw.in,
            .padding = aw.padding,
            .kernel = aw.kernel,
            .stride = aw.stride,
            .outputs = aw.out,
            .y = y});
      after(wd, wh, y);
    }
  });
}

void max_pool_run(const RunContext& c) noexcept {
  const PoolState& s = c.state<PoolState>();
  if (c.out(0).dtype != f32) return indexed_max_run(c);
  if (is_row_pool(s))
    return pool_rows(c, s, pool_table().max_row, [](const Window&, const Window&, float*) {});
  for_planes(c, s, [&](int64_t plane) {
    fold_plane(s, c.in(0).as<float>() + plane * s.in_count(),
               c.out(0).as<float>() + plane * s.out_count(), lowest<float>(),
               [](float best, float v) { return ((v > best) | (v != v)) ? v : best; });
  });
}

int64_t divisor_of(const PoolState& s, const Window& wd, const Window& wh, const Window& ww) {
  if (s.divisor != 0) return s.divisor;
  if (s.count_include_pad) return wd.padded * wh.padded * ww.padded;
  return (wd.end - wd.begin) * (wh.end - wh.begin) * (ww.end - ww.begin);
}
bool is_empty(const Window& w) { return w.begin >= w.end; }

template <class T>
void avg_plane(const PoolState& s, const T* x, T* y) {
  using W = Wide<T>;
  const int64_t height = s.axes[1].in, width = s.axes[2].in;
  for_windows(s, [&](int64_t o, const Window& wd, const Window& wh, const Window& ww) {
    W sum = 0;
    if (!is_empty(wd) && !is_empty(wh) && !is_empty(ww)) {
      for (int64_t d = wd.begin; d < wd.end; ++d)
        for (int64_t h = wh.begin; h < wh.end; ++h)
          for (int64_t w = ww.begin; w < ww.end; ++w) sum += load(x + (d * height + h) * width + w);
      sum /= static_cast<W>(divisor_of(s, wd, wh, ww));
    }
    store(y + o, sum);
  });
}

// The mean of all positions: sixteen partial sums.
template <class T>
void global_avg_plane(const T* x, T* y, int64_t count) {
  Wide<T> lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int k = 0; k < 16; ++k) lanes[k] += load(x + i + k);
  for (int k = 0; i < count; ++i, ++k) lanes[k] += load(x + i);
  for (int step = 8; step > 0; step /= 2)
    for (int k = 0; k < step; ++k) lanes[k] += lanes[k + step];
  store(y, lanes[0] / static_cast<Wide<T>>(count));
}

// Sums to means.
void divide_row(const PoolState& s, const Window& wd, const Window& wh, float* y) {
  const int64_t rows = s.divisor != 0        ? 1
                       : s.count_include_pad ? wd.padded * wh.padded
                                             : (wd.end - wd.begin) * (wh.end - wh.begin);
  const auto by = static_cast<float>(rows);
  for (size_t o = 0; o < s.widths.size(); ++o) y[o] /= by * s.widths[o];
  if (is_empty(wd) || is_empty(wh)) std::fill_n(y, s.widths.size(), 0.0f);
}

void avg_pool_run(const RunContext& c) noexcept {
  const PoolState& s = c.state<PoolState>();
  if (c.out(0).dtype == f32 && is_row_pool(s))
    return pool_rows(c, s, pool_table().sum_row, [&](const Window& wd, const Window& wh, float* y) {
      divide_row(s, wd, wh, y);
    });
  const bool folds = c.out(0).dtype == f32 && !s.axes[2].adaptive;
  const bool global = s.axes[2].adaptive && s.out_count() == 1;
  for_float(c.out(0).dtype, [&]<class T>() {
    for_planes(c, s, [&](int64_t plane) {
      const T* x = c.in(0).as<T>() + plane * s.in_count();
      T* y = c.out(0).as<T>() + plane * s.out_count();
      if (global) return global_avg_plane(x, y, s.in_count());
      if constexpr (std::is_same_v<T, float>) {
        if (folds) {
          fold_plane(s, x, y, 0.0f, [](float sum, float v) { return sum + v; });
          for_windows(s, [&](int64_t o, const Window& wd, const Window& wh, const Window& ww) {
            if (is_empty(wd) || is_empty(wh) || is_empty(ww))
              y[o] = 0;
            else
              y[o] /= static_cast<float>(divisor_of(s, wd, wh, ww));
          });
          return;
        }
      }
      avg_plane(s, x, y);
    });
  });
}

// Each input element gathers from the windows that it is in.
void avg_pool_grad_run(const RunContext& c) noexcept {
  const PoolState& s = c.state<PoolState>();
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    for_planes(c, s, [&](int64_t plane) {
      const T* dy = c.in(0).as<T>() + plane * s.out_count();
      T* dx = c.out(0).as<T>() + plane * s.in_count();
      for (int64_t d = 0; d < ad.in; ++d) {
        int64_t d0, d1, h0, h1, w0, w1;
        ad.covering(d, d0, d1);
        for (int64_t h = 0; h < ah.in; ++h) {
          ah.covering(h, h0, h1);
          for (int64_t w = 0; w < aw.in; ++w) {
            aw.covering(w, w0, w1);
            W sum = 0;
            for (int64_t od = d0; od < d1; ++od)
              for (int64_t oh = h0; oh < h1; ++oh)
                for (int64_t ow = w0; ow < w1; ++ow)
                  sum += load(dy + (od * ah.out + oh) * aw.out + ow) /
                         static_cast<W>(divisor_of(s, ad.window(od), ah.window(oh), aw.window(ow)));
            store(dx++, sum);
          }
        }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "max_pool",
     .device = Device::cpu,
     .name = "taps",
     .prepare = max_pool_prepare,
     .run = max_pool_run},
    {.op = "max_pool_with_indices",
     .device = Device::cpu,
     .name = "windows",
     .prepare = max_pool_prepare,
     .run = indexed_max_run},
    {.op = "avg_pool",
     .device = Device::cpu,
     .name = "taps",
     .prepare = avg_pool_prepare,
     .run = avg_pool_run},
    {.op = "avg_pool_grad",
     .device = Device::cpu,
     .name = "gather",
     .prepare = avg_pool_grad_prepare,
     .run = avg_pool_grad_run},
    {.op = "adaptive_avg_pool",
     .device = Device::cpu,
     .name = "windows",
     .prepare = adaptive_prepare,
     .run = avg_pool_run},
    {.op = "adaptive_avg_pool_grad",
     .device = Device::cpu,
     .name = "gather",
     .prepare = adaptive_grad_prepare,
     .run = avg_pool_grad_run},
    {.op = "adaptive_max_pool",
     .device = Device::cpu,
     .name = "windows",
     .prepare = adaptive_prepare,
     .run = indexed_max_run},
};

}  // namespace

std::span<const KernelDef> pool() { return kKernels; }

}  // namespace hg::kernels
