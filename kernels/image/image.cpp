// SPDX-License-Identifier: Apache-2.0
// Resampling by size. Every mode is one linear map per dim: output o reads the input elements
// index[o][tap] with weight[o][tap], computed in prepare. A row of x is resampled horizontally once
// for all neighboring rows of y that read it.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/gemm/tiles.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kMostTaps = int64_t{1} << 26;  // per axis: limit of the size of its tables

struct AxisTaps {
  int64_t in = 1, out = 1;
  int taps = 1;
  std::vector<int64_t> index = {0};
  std::vector<double> weight = {1};
  std::vector<float> narrow = {1};  // the same weights, as f32 computes with them
  std::vector<int> used = {1};      // number of taps used by each output

  // Tables for `each` taps per output. Returns false if they would be too large.
  bool make_tables(double each) {
    if (out > 0 && !(each * static_cast<double>(out) <= kMostTaps)) return false;
    taps = out > 0 ? static_cast<int>(each) : 1;
    index.assign(out * taps, 0);
    weight.assign(index.size(), 0);
    used.assign(out, taps);
    return true;
  }
  // The element at or below `position`, which may be any number.
  template <class W>
  int64_t element(W position) const {
    if (!(position < static_cast<W>(in))) return in - 1;
    return std::min(static_cast<int64_t>(std::floor(position)), in - 1);
  }

  template <class W>
  W weight_at(size_t tap) const {
    if constexpr (std::is_same_v<W, float>)
      return narrow[tap];
    else
      return weight[tap];
  }
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
bool plain_taps(AxisTaps& a, Mode mode, bool align_corners, double scale) {
  const W step = step_of<W>(a.in, a.out, align_corners, scale);
  if (!a.make_tables(mode == Mode::cubic ? 4 : 2)) return false;
  for (int64_t o = 0; o < a.out; ++o) {
    W source =
        align_corners ? step * static_cast<W>(o) : step * (static_cast<W>(o) + W(0.5)) - W(0.5);
    if (mode == Mode::linear && source < 0) source = 0;
    int64_t* index = a.index.data() + o * a.taps;
    double* weight = a.weight.data() + o * a.taps;
    const int64_t first = a.element(source);
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
  return true;
}

// With antialias the filter is as wide as the step, and its weights sum to one.
template <class W>
bool smooth_taps(AxisTaps& a, Mode mode, bool align_corners, double scale) {
  const W step = step_of<W>(a.in, a.out, align_corners, scale);
  const W half = mode == Mode::cubic ? 2 : 1;
  const W support = step >= 1 ? half * step : half;
  const W inverse = step >= 1 ? W(1) / step : W(1);
  if (!a.make_tables(std::ceil(static_cast<double>(support)) * 2 + 1)) return false;
  for (int64_t o = 0; o < a.out; ++o) {
    const W centre = step * (static_cast<W>(o) + W(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + W(0.5)), 0);
    const int64_t count = std::clamp<int64_t>(
        std::min(static_cast<int64_t>(centre + support + W(0.5)), a.in) - first, 0, a.taps);
    a.used[o] = static_cast<int>(count);
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
  return true;
}

template <class W>
bool nearest_taps(AxisTaps& a, Mode mode, double scale) {
  const W step = step_of<W>(a.in, a.out, false, scale);
  if (!a.make_tables(1)) return false;
  std::fill(a.weight.begin(), a.weight.end(), 1);
  for (int64_t o = 0; o < a.out; ++o) {
    int64_t source;
    if (mode == Mode::nearest_exact)
      source = a.element((static_cast<W>(o) + W(0.5)) * step);
    else if (a.out == a.in)
      source = o;
    else if (a.out == 2 * a.in)
      source = o >> 1;
    else
      source = a.element(static_cast<W>(o) * step);
    a.index[o] = std::min(source, a.in - 1);
  }
  return true;
}

constexpr int64_t kBand = 32768;  // elements of y in the rows of one task, approximately

struct ResizeState {
  int64_t planes = 1;
  AxisTaps axes[3];
  int64_t repeat = 0;                // of each element along a row; 0: not a repetition
  int64_t band_rows = 1, bands = 1;  // rows of y in a task, tasks of a plane
  int64_t lanes = 1, slot_bytes = 0;
  int64_t rows() const { return axes[0].out * axes[1].out; }
  int64_t row_taps() const { return axes[0].taps * axes[1].taps; }
  int64_t in_count() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_count() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t work() const {
    return std::max(in_count(), out_count() * axes[0].taps * axes[1].taps * axes[2].taps);
  }
};

template <class W>
Status fill_taps(ResizeState& s, const KernelAttrs& attrs, int dims) {
  const Mode asked = mode_of(attrs.string("mode"));
  const std::span<const double> scales = attrs.reals("scales");
  for (int i = 0; i < dims; ++i) {
    AxisTaps& a = s.axes[3 - dims + i];
    // If the size stays the same, torch copies for any scale, except in the plain cubic mode.
    const bool copies = a.in == a.out && (asked == Mode::linear ||
                                          (asked == Mode::cubic && attrs.flag("antialias")));
    const Mode mode = copies ? Mode::nearest : asked;
    const double scale = scales.empty() ? 0 : scales[i];
    const bool made =
        mode == Mode::nearest || mode == Mode::nearest_exact ? nearest_taps<W>(a, mode, scale)
        : attrs.flag("antialias") ? smooth_taps<W>(a, mode, attrs.flag("align_corners"), scale)
                                  : plain_taps<W>(a, mode, attrs.flag("align_corners"), scale);
    if (!made)
      return out_of_memory("the weights of ", a.out, " elements of ", a.in, " are too many");
  }
  return {};
}

Result<ResizeState> resize_of(const PrepareContext& c, const Tensor& in, const Tensor& out) {
  ResizeState s;
  s.planes = in.shape[0] * in.shape[1];
  const int dims = s.planes == 0 ? 0 : in.rank() - 2;  // no planes: needs no tables
  for (int i = 0; i < dims; ++i) {
    s.axes[3 - dims + i].in = in.shape[i + 2];
    s.axes[3 - dims + i].out = out.shape[i + 2];
  }
  HG_TRY(in.dtype == f64 ? fill_taps<double>(s, c.attrs(), dims)
                         : fill_taps<float>(s, c.attrs(), dims));
  for (AxisTaps& a : s.axes) a.narrow.assign(a.weight.begin(), a.weight.end());
  return s;
}

Status resize_prepare(PrepareContext& c) {
  HG_TRY_ASSIGN(ResizeState s, resize_of(c, c.in(0), c.out(0)));
  const AxisTaps& w = s.axes[2];
  if (w.in > 0 && w.out % w.in == 0) {
    s.repeat = w.out / w.in;
    for (int64_t o = 0; o < w.out && s.repeat > 0; ++o)
      if (w.taps != 1 || w.index[o] != o / s.repeat) s.repeat = 0;
  }
  s.band_rows =
      std::clamp<int64_t>(kBand / std::max<int64_t>(1, w.out), 8, std::max<int64_t>(8, s.rows()));
  s.bands = (s.rows() + s.band_rows - 1) / s.band_rows;
  s.lanes = s.planes * s.work() < kBand ? 1 : tile_lanes(c, s.planes * s.bands);
  const int64_t wide = c.out(0).dtype == f64 ? 8 : 4;
  const bool is_half = c.out(0).dtype == f16 || c.out(0).dtype == bf16;
  s.slot_bytes = s.row_taps() * 8 + ((s.row_taps() + 1) * w.out + (is_half ? w.in : 0)) * wide;
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(std::move(s));
  return {};
}
Status resize_grad_prepare(PrepareContext& c) {
  if (c.out(0).dtype == f16 || c.out(0).dtype == bf16)
    c.set_workspace(c.out(0).count() * static_cast<int64_t>(sizeof(float)));
  HG_TRY_ASSIGN(ResizeState s, resize_of(c, c.out(0), c.in(0)));
  c.make_state(std::move(s));
  return {};
}

// Rows [begin, end) of a plane of y if each element is one element of x.
template <class T>
void copy_rows(const ResizeState& s, const T* x, int64_t begin, int64_t end, T* y) {
  const AxisTaps &d = s.axes[0], &h = s.axes[1], &w = s.axes[2];
  const T* before = nullptr;
  for (int64_t row = begin; row < end; ++row, y += w.out) {
    const auto od = static_cast<size_t>(row / h.out), oh = static_cast<size_t>(row % h.out);
    const T* from = x + (d.index[od] * h.in + h.index[oh]) * w.in;
    if (from == before) {
      std::copy_n(y - w.out, w.out, y);
    } else if (s.repeat == 1) {
      std::copy_n(from, w.out, y);
    } else if (s.repeat == 2) {
      for (int64_t j = 0; j < w.in; ++j) y[2 * j] = y[2 * j + 1] = from[j];
    } else {
      for (int64_t ow = 0; ow < w.out; ++ow) y[ow] = from[w.index[ow]];
    }
    before = from;
  }
}

template <class W>
void along_row(const AxisTaps& w, const W* x, W* to) {
  const int64_t* index = w.index.data();
  if (w.taps == 2) {
    for (int64_t o = 0; o < w.out; ++o, index += 2) {
      const auto first = static_cast<size_t>(2 * o);
      to[o] = w.weight_at<W>(first) * x[index[0]] + w.weight_at<W>(first + 1) * x[index[1]];
    }
    return;
  }
  for (int64_t o = 0; o < w.out; ++o, index += w.taps) {
    const size_t first = static_cast<size_t>(o * w.taps);
    W sum = 0;
    for (size_t k = 0; k < static_cast<size_t>(w.used[o]); ++k)
      sum += w.weight_at<W>(first + k) * x[index[k]];
    to[o] = sum;
  }
}

// The same if each element is a sum. The slot keeps the last resampled rows of x, and has memory
// for a row of halves in f32.
template <class T>
void weigh_rows(const ResizeState& s, const T* x, int64_t begin, int64_t end, T* y, void* slot) {
  using W = Wide<T>;
  const AxisTaps &d = s.axes[0], &h = s.axes[1], &w = s.axes[2];
  auto* const kept = static_cast<int64_t*>(slot);
  auto* const rows = reinterpret_cast<W*>(kept + s.row_taps());
  W* const sums = rows + s.row_taps() * w.out;
  W* const wide = sums + w.out;
  std::fill_n(kept, s.row_taps(), -1);
  for (int64_t row = begin; row < end; ++row, y += w.out) {
    const int64_t od = row / h.out, oh = row % h.out;
    W* const to = kIsHalf<T> ? sums : reinterpret_cast<W*>(y);
    std::fill_n(to, w.out, W(0));
    for (int kd = 0; kd < d.used[od]; ++kd)
      for (int kh = 0; kh < h.used[oh]; ++kh) {
        const auto td = static_cast<size_t>(od * d.taps + kd);
        const auto th = static_cast<size_t>(oh * h.taps + kh);
        const int64_t source = d.index[td] * h.in + h.index[th];
        const int64_t place = d.index[td] % d.taps * h.taps + h.index[th] % h.taps;
        W* const along = rows + place * w.out;
        if (kept[place] != source) {
          if constexpr (kIsHalf<T>) {
            half_table().widen(w.in, x + source * w.in, wide);
            along_row(w, wide, along);
          } else {
            along_row(w, x + source * w.in, along);
          }
        }
        kept[place] = source;
        const W outer = d.weight_at<W>(td) * h.weight_at<W>(th);
        for (int64_t j = 0; j < w.out; ++j) to[j] += outer * along[j];
      }
    if constexpr (kIsHalf<T>) half_table().narrow(w.out, to, y);
  }
}

void resize_run(const RunContext& c) noexcept {
  const ResizeState& s = c.state<ResizeState>();
  const bool copies = s.row_taps() * s.axes[2].taps == 1;
  const auto over = [&]<class T>(const auto& rows) {
    for_tiles(c, s.planes * s.bands, s.lanes, s.slot_bytes, [&](int64_t task, float* slot) {
      const int64_t plane = task / s.bands, begin = task % s.bands * s.band_rows;
      rows(c.in(0).as<T>() + plane * s.in_count(), begin, std::min(s.rows(), begin + s.band_rows),
           c.out(0).as<T>() + plane * s.out_count() + begin * s.axes[2].out, slot);
    });
  };
  const auto copy = [&]<class T>() {
    over.template operator()<T>([&](const T* x, int64_t begin, int64_t end, T* y, void*) {
      copy_rows(s, x, begin, end, y);
    });
  };
  if (copies) {  // elements are only moved
    switch (size_of(c.out(0).dtype)) {
      case 1:
        return copy.template operator()<uint8_t>();
      case 2:
        return copy.template operator()<int16_t>();
      case 4:
        return copy.template operator()<int32_t>();
      default:
        return copy.template operator()<int64_t>();
    }
  }
  for_float(c.out(0).dtype, [&]<class T>() {
    over.template operator()<T>([&](const T* x, int64_t begin, int64_t end, T* y, void* slot) {
      weigh_rows(s, x, begin, end, y, slot);
    });
  });
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

constexpr KernelDef kKernels[] = {
    {.op = "interpolate", .name = "taps", .prepare = resize_prepare, .run = resize_run},
    {.op = "interpolate_grad",
     .name = "taps",
     .prepare = resize_grad_prepare,
     .run = resize_grad_run},
};

}  // namespace

std::span<const KernelDef> image() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
