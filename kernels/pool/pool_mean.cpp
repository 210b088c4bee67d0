// SPDX-License-Identifier: Apache-2.0
// Average pooling and its gradients.
#include "kernels/pool/pool_shape.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

void read_divisor(PoolState& s, const KernelAttrs& attrs) {
  s.count_include_pad = attrs.flag("count_include_pad");
  if (attrs.has("divisor_override")) s.divisor = attrs.integer("divisor_override");
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
  reserve_wide_planes(c, s);
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
  PoolState s = adaptive_windows(c.in(0), c.out(0));
  reserve_wide_planes(c, s);
  c.make_state(std::move(s));
  return {};
}
Status adaptive_grad_prepare(PrepareContext& c) {
  c.make_state(adaptive_windows(c.out(0), c.in(0)));
  return {};
}

int64_t divisor_of(const PoolState& s, const Window& wd, const Window& wh, const Window& ww) {
  if (s.divisor != 0) return s.divisor;
  if (s.count_include_pad) return wd.padded * wh.padded * ww.padded;
  return (wd.end - wd.begin) * (wh.end - wh.begin) * (ww.end - ww.begin);
}
bool is_empty(const Window& w) { return w.begin >= w.end; }

template <class T>
void avg_plane(const PoolState& s, const T* x, T* y) {
  const int64_t height = s.axes[1].in, width = s.axes[2].in;
  for_windows(s, [&](int64_t o, const Window& wd, const Window& wh, const Window& ww) {
    T sum = 0;
    if (!is_empty(wd) && !is_empty(wh) && !is_empty(ww)) {
      for (int64_t d = wd.begin; d < wd.end; ++d)
        for (int64_t h = wh.begin; h < wh.end; ++h)
          for (int64_t w = ww.begin; w < ww.end; ++w) sum += x[(d * height + h) * width + w];
      sum /= static_cast<T>(divisor_of(s, wd, wh, ww));
    }
    y[o] = sum;
  });
}

// The mean of all positions, with sixteen partial sums.
template <class T>
void global_avg_plane(const T* x, T* y, int64_t count) {
  T lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int k = 0; k < 16; ++k) lanes[k] += x[i + k];
  for (int k = 0; i < count; ++i, ++k) lanes[k] += x[i];
  for (int step = 8; step > 0; step /= 2)
    for (int k = 0; k < step; ++k) lanes[k] += lanes[k + step];
  *y = lanes[0] / static_cast<T>(count);
}

// Means of 2 x 2 windows.
bool is_plain_mean(const PoolState& s) { return s.divisor == 0 || s.divisor == 4; }

// Converts sums to means. Windows without elements have rows of zeros.
void divide_row(const PoolState& s, const Window& wd, const Window& wh, WindowRow& row) {
  const int64_t rows = s.divisor != 0        ? 1
                       : s.count_include_pad ? wd.padded * wh.padded
                                             : (wd.end - wd.begin) * (wh.end - wh.begin);
  row.height = is_empty(wd) || is_empty(wh) ? 1.0f : static_cast<float>(rows);
  row.widths = s.widths.data();
}

// x and y in f32 or f64.
template <class T>
void avg_of_plane(const PoolState& s, const T* x, T* y) {
  if (s.axes[2].adaptive)
    return s.out_count() == 1 ? global_avg_plane(x, y, s.in_count()) : avg_plane(s, x, y);
  if constexpr (std::is_same_v<T, float>) {
    if (is_pair_pool(s) && is_plain_mean(s))
      return pool_table().mean_pairs(x, s.axes[1].out, s.axes[2].out, y);
    if (is_row_pool(s))
      return pool_rows(
          s, x, y, pool_table().sum_rows,
          [&](const Window& wd, const Window& wh, WindowRow& row) { divide_row(s, wd, wh, row); });
    fold_plane(s, x, y, 0.0f, [](float sum, float v) { return sum + v; });
    for_windows(s, [&](int64_t o, const Window& wd, const Window& wh, const Window& ww) {
      if (is_empty(wd) || is_empty(wh) || is_empty(ww))
        y[o] = 0;
      else
        y[o] /= static_cast<float>(divisor_of(s, wd, wh, ww));
    });
  } else {
    avg_plane(s, x, y);
  }
}

void avg_pool_run(const RunContext& c) noexcept {
  const PoolState& s = c.state<PoolState>();
  if (c.out(0).dtype == f32 && is_pair_pool(s) && is_plain_mean(s))
    return pool_pairs(c, s, pool_table().mean_pairs);
  for_float(c.out(0).dtype, [&]<class T>() {
    if constexpr (kIsHalf<T>)
      for_wide_planes<T>(c, s, [&](int64_t, const float* x, float* y) { avg_of_plane(s, x, y); });
    else
      for_planes(c, s, [&](int64_t plane) {
        avg_of_plane(s, c.in(0).as<T>() + plane * s.in_count(),
                     c.out(0).as<T>() + plane * s.out_count());
      });
  });
}

// Each input element sums over the windows that contain it.
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
    {.op = "avg_pool", .name = "taps", .prepare = avg_pool_prepare, .run = avg_pool_run},
    {.op = "avg_pool_grad",
     .name = "gather",
     .prepare = avg_pool_grad_prepare,
     .run = avg_pool_grad_run},
    {.op = "adaptive_avg_pool",
     .name = "windows",
     .prepare = adaptive_prepare,
     .run = avg_pool_run},
    {.op = "adaptive_avg_pool_grad",
     .name = "gather",
     .prepare = adaptive_grad_prepare,
     .run = avg_pool_grad_run},
};

}  // namespace

std::span<const KernelDef> pool_mean() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
