// SPDX-License-Identifier: Apache-2.0
// Resampling by size. Every mode is one linear map per dim: output o reads the input elements
// index[o][tap] with weight[o][tap]; the weights are made when the kernel is prepared. Also im2col.
#include <algorithm>
#include <cmath>
#include <vector>

#include "hg/kernel.h"
#include "kernels/element.h"

namespace hg::kernels {
namespace {

struct AxisTaps {
  int64_t in = 1, out = 1;
  int taps = 1;
  std::vector<int64_t> index = {0};
  std::vector<double> weight = {1};
};

enum class Mode { nearest, nearest_exact, linear, cubic };

Mode mode_of(std::string_view name) {
  if (name == "nearest") return Mode::nearest;
  if (name == "nearest-exact") return Mode::nearest_exact;
  return name == "bicubic" ? Mode::cubic : Mode::linear;
}

// The cubic convolution of Keys 1981; a is -0.75, with antialias -0.5.
template <class W>
W cubic(W t, W a) {
  t = std::abs(t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return (((t - 5) * t + 8) * t - 4) * a;
  return 0;
}

// Input steps for one output step.
template <class W>
W step_of(int64_t in, int64_t out, bool align_corners, double scale) {
  if (align_corners) return out > 1 ? static_cast<W>(in - 1) / static_cast<W>(out - 1) : W(0);
  return scale > 0 ? static_cast<W>(1.0 / scale) : static_cast<W>(in) / static_cast<W>(out);
}

template <class W>
void plain_taps(AxisTaps& a, Mode mode, bool align_corners, double scale) {
  const W step = step_of<W>(a.in, a.out, align_corners, scale);
  a.taps = mode == Mode::cubic ? 4 : 2;
  a.index.resize(static_cast<size_t>(a.out * a.taps));
  a.weight.resize(a.index.size());
  for (int64_t o = 0; o < a.out; ++o) {
    W source =
        align_corners ? step * static_cast<W>(o) : step * (static_cast<W>(o) + W(0.5)) - W(0.5);
    if (mode == Mode::linear && source < 0) source = 0;
    int64_t* index = a.index.data() + o * a.taps;
    double* weight = a.weight.data() + o * a.taps;
    const int64_t first = std::min(static_cast<int64_t>(std::floor(source)), a.in - 1);
    const W t = std::min(std::max(source - static_cast<W>(first), W(0)), W(1));
    if (mode == Mode::linear) {
      index[0] = first;
      index[1] = std::min(first + 1, a.in - 1);
      weight[0] = 1 - t;
      weight[1] = t;
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      index[k] = std::clamp<int64_t>(first - 1 + k, 0, a.in - 1);
      weight[k] = cubic<W>(t + W(1) - static_cast<W>(k), W(-0.75));
    }
  }
}

// With antialias the filter is as wide as the step, and its weights sum to one.
template <class W>
void smooth_taps(AxisTaps& a, Mode mode, bool align_corners, double scale) {
  const W step = step_of<W>(a.in, a.out, align_corners, scale);
  const W half = mode == Mode::cubic ? 2 : 1;
  const W support = step >= 1 ? half * step : half;
  const W inverse = step >= 1 ? W(1) / step : W(1);
  a.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  a.index.assign(static_cast<size_t>(a.out * a.taps), 0);
  a.weight.assign(a.index.size(), 0);
  for (int64_t o = 0; o < a.out; ++o) {
    const W centre = step * (static_cast<W>(o) + W(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + W(0.5)), 0);
    const int64_t count = std::clamp<int64_t>(
        std::min(static_cast<int64_t>(centre + support + W(0.5)), a.in) - first, 0, a.taps);
    int64_t* index = a.index.data() + o * a.taps;
    double* weight = a.weight.data() + o * a.taps;
    W total = 0;
    for (int64_t k = 0; k < count; ++k) {
      const W t = (static_cast<W>(k + first) - centre + W(0.5)) * inverse;
      const W w = mode == Mode::cubic ? cubic<W>(t, W(-0.5)) : std::max(W(0), 1 - std::abs(t));
      index[k] = first + k;
      weight[k] = w;
      total += w;
    }
    if (total != 0)
      for (int64_t k = 0; k < count; ++k) weight[k] = static_cast<W>(weight[k]) / total;
  }
}

template <class W>
void nearest_taps(AxisTaps& a, Mode mode, double scale) {
  const W step = step_of<W>(a.in, a.out, false, scale);
  a.taps = 1;
  a.index.resize(static_cast<size_t>(a.out));
  a.weight.assign(a.index.size(), 1);
  for (int64_t o = 0; o < a.out; ++o) {
    int64_t source;
    if (mode == Mode::nearest_exact)
      source = static_cast<int64_t>(std::floor((static_cast<W>(o) + W(0.5)) * step));
    else if (a.out == a.in)
      source = o;
    else if (a.out == 2 * a.in)
      source = o >> 1;
    else
      source = static_cast<int64_t>(std::floor(static_cast<W>(o) * step));
    a.index[static_cast<size_t>(o)] = std::min(source, a.in - 1);
  }
}

struct ResizeState {
  int64_t planes = 1;
  AxisTaps axes[3];
  int64_t in_count() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_count() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t work() const {
    return std::max(in_count(), out_count() * axes[0].taps * axes[1].taps * axes[2].taps);
  }
};

template <class W>
void fill_taps(ResizeState& s, const KernelAttrs& attrs, int dims) {
  const Mode mode = mode_of(attrs.string("mode"));
  const std::span<const double> scales = attrs.reals("scales");
  for (int i = 0; i < dims; ++i) {
    AxisTaps& a = s.axes[3 - dims + i];
    const double scale = scales.empty() ? 0 : scales[static_cast<size_t>(i)];
    if (mode == Mode::nearest || mode == Mode::nearest_exact)
      nearest_taps<W>(a, mode, scale);
    else if (attrs.flag("antialias"))
      smooth_taps<W>(a, mode, attrs.flag("align_corners"), scale);
    else
      plain_taps<W>(a, mode, attrs.flag("align_corners"), scale);
  }
}

Status prepare_resize(PrepareContext& c, const Tensor& in, const Tensor& out) {
  ResizeState s;
  s.planes = in.shape[0] * in.shape[1];
  const int dims = in.rank() - 2;
  for (int i = 0; i < dims; ++i) {
    s.axes[3 - dims + i].in = in.shape[i + 2];
    s.axes[3 - dims + i].out = out.shape[i + 2];
  }
  if (in.dtype == f64)
    fill_taps<double>(s, c.attrs(), dims);
  else
    fill_taps<float>(s, c.attrs(), dims);
  c.make_state(std::move(s));
  return {};
}
Status resize_prepare(PrepareContext& c) { return prepare_resize(c, c.in(0), c.out(0)); }
Status resize_grad_prepare(PrepareContext& c) {
  if (c.out(0).dtype == f16 || c.out(0).dtype == bf16)
    c.set_workspace(c.out(0).count() * static_cast<int64_t>(sizeof(float)));
  return prepare_resize(c, c.out(0), c.in(0));
}

template <class T>
void copy_plane(const ResizeState& s, const T* x, T* y) {  // one tap of weight 1 each
  const AxisTaps &d = s.axes[0], &h = s.axes[1], &w = s.axes[2];
  for (int64_t od = 0; od < d.out; ++od)
    for (int64_t oh = 0; oh < h.out; ++oh) {
      const T* row = x + (d.index[size_t(od)] * h.in + h.index[size_t(oh)]) * w.in;
      for (int64_t ow = 0; ow < w.out; ++ow) *y++ = row[w.index[size_t(ow)]];
    }
}

template <class T>
void weigh_plane(const ResizeState& s, const T* x, T* y) {
  using W = Wide<T>;
  const AxisTaps &d = s.axes[0], &h = s.axes[1], &w = s.axes[2];
  for (int64_t od = 0; od < d.out; ++od)
    for (int64_t oh = 0; oh < h.out; ++oh)
      for (int64_t ow = 0; ow < w.out; ++ow) {
        const int64_t* iw = w.index.data() + ow * w.taps;
        const double* ww = w.weight.data() + ow * w.taps;
        W sum = 0;
        for (int kd = 0; kd < d.taps; ++kd) {
          const size_t td = static_cast<size_t>(od * d.taps + kd);
          for (int kh = 0; kh < h.taps; ++kh) {
            const size_t th = static_cast<size_t>(oh * h.taps + kh);
            const W outer = static_cast<W>(d.weight[td]) * static_cast<W>(h.weight[th]);
            const T* row = x + (d.index[td] * h.in + h.index[th]) * w.in;
            W along = 0;
            for (int kw = 0; kw < w.taps; ++kw)
              along += static_cast<W>(ww[kw]) * load(row + iw[kw]);
            sum += outer * along;
          }
        }
        store(y++, sum);
      }
}

void resize_run(const RunContext& c) noexcept {
  const ResizeState& s = c.state<ResizeState>();
  const bool copies = s.axes[0].taps * s.axes[1].taps * s.axes[2].taps == 1;
  auto over = [&]<class T>(auto plane) {
    c.parallel_for(s.planes, grain_of(s.work(), 1 << 15), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        plane(s, c.in(0).as<T>() + i * s.in_count(), c.out(0).as<T>() + i * s.out_count());
    });
  };
  if (copies) {  // elements are moved as they are
    switch (size_of(c.out(0).dtype)) {
      case 1:
        return over.template operator()<uint8_t>(copy_plane<uint8_t>);
      case 2:
        return over.template operator()<int16_t>(copy_plane<int16_t>);
      case 4:
        return over.template operator()<int32_t>(copy_plane<int32_t>);
      default:
        return over.template operator()<int64_t>(copy_plane<int64_t>);
    }
  }
  for_float(c.out(0).dtype, [&]<class T>() { over.template operator()<T>(weigh_plane<T>); });
}

void resize_grad_run(const RunContext& c) noexcept {
  const ResizeState& s = c.state<ResizeState>();
  const AxisTaps &d = s.axes[0], &h = s.axes[1], &w = s.axes[2];
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    c.parallel_for(s.planes, grain_of(s.work(), 1 << 15), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* dy = c.in(0).as<T>() + i * s.out_count();
        T* dx = c.out(0).as<T>() + i * s.in_count();
        W* sum = nullptr;
        if constexpr (std::is_same_v<T, W>)
          sum = dx;
        else
          sum = c.workspace<W>() + i * s.in_count();
        for (int64_t k = 0; k < s.in_count(); ++k) sum[k] = 0;
        for (int64_t od = 0; od < d.out; ++od)
          for (int64_t oh = 0; oh < h.out; ++oh)
            for (int64_t ow = 0; ow < w.out; ++ow) {
              const W v = load(dy++);
              for (int kd = 0; kd < d.taps; ++kd)
                for (int kh = 0; kh < h.taps; ++kh)
                  for (int kw = 0; kw < w.taps; ++kw) {
                    const size_t td = static_cast<size_t>(od * d.taps + kd);
                    const size_t th = static_cast<size_t>(oh * h.taps + kh);
                    const size_t tw = static_cast<size_t>(ow * w.taps + kw);
                    sum[(d.index[td] * h.in + h.index[th]) * w.in + w.index[tw]] +=
                        v * static_cast<W>(d.weight[td] * h.weight[th] * w.weight[tw]);
                  }
            }
        if constexpr (!std::is_same_v<T, W>)
          for (int64_t k = 0; k < s.in_count(); ++k) store(dx + k, sum[k]);
      }
    });
  });
}

struct BlockState {
  int64_t channels = 1, height = 1, width = 1;  // of the image
  int64_t rows = 1, columns = 1;                // blocks
  int64_t kernel[2], dilation[2], padding[2], stride[2];
  int64_t planes = 1;
};

void read_blocks(PrepareContext& c, const Sizes& image) {
  BlockState s;
  s.planes = image[0] * image[1];
  s.channels = image[1];
  s.height = image[2];
  s.width = image[3];
  auto read = [&](std::string_view name, int64_t* to) {
    const Sizes listed = c.attrs().integers(name);
    to[0] = listed[0];
    to[1] = listed[listed.rank() - 1];
  };
  read("kernel_size", s.kernel);
  read("dilation", s.dilation);
  read("padding", s.padding);
  read("stride", s.stride);
  s.rows = (s.height + 2 * s.padding[0] - s.dilation[0] * (s.kernel[0] - 1) - 1) / s.stride[0] + 1;
  s.columns =
      (s.width + 2 * s.padding[1] - s.dilation[1] * (s.kernel[1] - 1) - 1) / s.stride[1] + 1;
  c.make_state(s);
}
Status im2col_prepare(PrepareContext& c) {
  read_blocks(c, c.in(0).shape);
  return {};
}
Status col2im_prepare(PrepareContext& c) {
  read_blocks(c, c.out(0).shape);
  return {};
}

void im2col_run(const RunContext& c) noexcept {
  const BlockState& s = c.state<BlockState>();
  const int64_t area = s.kernel[0] * s.kernel[1], blocks = s.rows * s.columns;
  for_float(c.out(0).dtype, [&]<class T>() {
    c.parallel_for(s.planes, grain_of(area * blocks), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* x = c.in(0).as<T>() + plane * s.height * s.width;
        T* y = c.out(0).as<T>() + plane * area * blocks;
        for (int64_t k = 0; k < area; ++k)
          for (int64_t r = 0; r < s.rows; ++r) {
            const int64_t h = r * s.stride[0] - s.padding[0] + k / s.kernel[1] * s.dilation[0];
            int64_t w = k % s.kernel[1] * s.dilation[1] - s.padding[1];
            const bool inside = h >= 0 && h < s.height;
            for (int64_t q = 0; q < s.columns; ++q, w += s.stride[1])
              *y++ = inside && w >= 0 && w < s.width ? x[h * s.width + w] : T();
          }
      }
    });
  });
}

// Each pixel gathers from the blocks that cover it.
void col2im_run(const RunContext& c) noexcept {
  const BlockState& s = c.state<BlockState>();
  const int64_t area = s.kernel[0] * s.kernel[1], blocks = s.rows * s.columns;
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    c.parallel_for(s.planes, grain_of(area * blocks), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* x = c.in(0).as<T>() + plane * area * blocks;
        T* y = c.out(0).as<T>() + plane * s.height * s.width;
        for (int64_t h = 0; h < s.height; ++h)
          for (int64_t w = 0; w < s.width; ++w) {
            W sum = 0;
            for (int64_t kh = 0; kh < s.kernel[0]; ++kh) {
              const int64_t at_h = h + s.padding[0] - kh * s.dilation[0];
              if (at_h < 0 || at_h % s.stride[0] != 0 || at_h / s.stride[0] >= s.rows) continue;
              for (int64_t kw = 0; kw < s.kernel[1]; ++kw) {
                const int64_t at_w = w + s.padding[1] - kw * s.dilation[1];
                if (at_w < 0 || at_w % s.stride[1] != 0 || at_w / s.stride[1] >= s.columns)
                  continue;
                sum += load(x + (kh * s.kernel[1] + kw) * blocks + at_h / s.stride[0] * s.columns +
                            at_w / s.stride[1]);
              }
            }
            store(y + h * s.width + w, sum);
          }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "interpolate",
     .device = Device::cpu,
     .name = "taps",
     .prepare = resize_prepare,
     .run = resize_run},
    {.op = "interpolate_grad",
     .device = Device::cpu,
     .name = "taps",
     .prepare = resize_grad_prepare,
     .run = resize_grad_run},
    {.op = "im2col",
     .device = Device::cpu,
     .name = "rows",
     .prepare = im2col_prepare,
     .run = im2col_run},
    {.op = "col2im",
     .device = Device::cpu,
     .name = "gather",
     .prepare = col2im_prepare,
     .run = col2im_run},
};

}  // namespace

std::span<const KernelDef> image() { return kKernels; }

}  // namespace hg::kernels
