// SPDX-License-Identifier: Apache-2.0
// Softmax and normalizations for all float dtypes. Sums are kept in kLanes partial sums, which fit
// in vector registers and bound the rounding error.
#include <algorithm>
#include <cmath>

#include "hg/kernel.h"
#include "kernels/ceil_div.h"
#include "kernels/element.h"
#include "kernels/norm/norm_simd.h"
#include "kernels/norm/softmax_simd.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int kLanes = 16;
// Lines up to this length are copied: 16-bit floats to use the f32 loops, f64 if they have strides.
constexpr int64_t kWidened = 4096;

// The sum of f(i) over [0, count).
template <class W, class F>
W lane_sum(int64_t count, const F& f) {
  W lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += f(i + k);
  for (int k = 0; i < count; ++i, ++k) lanes[k] += f(i);
  for (int step = kLanes / 2; step > 0; step /= 2)
    for (int k = 0; k < step; ++k) lanes[k] += lanes[k + step];
  return lanes[0];
}

// Calls f(block, first, count) for blocks of x, widened to f32.
template <class T, class F>
void for_widened(const T* x, int64_t count, const F& f) {
  float block[kWidened];
  for (int64_t first = 0; first < count; first += kWidened) {
    const int64_t n = std::min(kWidened, count - first);
    half_table().widen(n, x + first, block);
    f(block, first, n);
  }
}

// The largest element; NaN if any element is NaN, so that the whole row becomes NaN.
template <class T>
Wide<T> largest(const T* x, int64_t count, int64_t stride) {
  Wide<T> m = -std::numeric_limits<Wide<T>>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    const Wide<T> v = load(x + i * stride);
    if (v > m || std::isnan(v)) m = v;
    if (std::isnan(m)) return m;
  }
  return m;
}

// x seen as [outer, count, inner], softmax over the middle.
struct Lines {
  int64_t outer = 1, count = 1, inner = 1;
  const SoftmaxTable* table = &softmax_table();
};
Lines lines_of(const Tensor& x, const KernelAttrs& attrs) {
  Lines l;
  if (x.rank() == 0) return l;
  const int axis = attrs.axis("dim", x.rank());
  for (int i = 0; i < x.rank(); ++i)
    (i < axis ? l.outer : i == axis ? l.count : l.inner) *= x.shape[i];
  return l;
}

Status softmax_prepare(PrepareContext& c) {
  c.make_state(lines_of(c.in(0), c.attrs()));
  return {};
}

template <class T, bool kLog>
void softmax_line(const T* x, T* y, int64_t count, int64_t stride) {
  using W = Wide<T>;
  W m = largest(x, count, stride);
  if (kLog && std::isinf(m) && m < 0) m = 0;  // exp(-inf) = 0; the log is -inf - (-inf) = NaN below
  W sum = 0;
  if constexpr (kLog) {
    sum = lane_sum<W>(count, [&](int64_t i) { return std::exp(load(x + i * stride) - m); });
    const W log_sum = std::log(sum);  // subtracted separately: added to m it would lose digits
    for (int64_t i = 0; i < count; ++i) store(y + i * stride, load(x + i * stride) - m - log_sum);
  } else if constexpr (std::is_same_v<T, W>) {
    sum =
        lane_sum<W>(count, [&](int64_t i) { return y[i * stride] = std::exp(x[i * stride] - m); });
    const W scale = W(1) / sum;
    for (int64_t i = 0; i < count; ++i) y[i * stride] *= scale;
  } else {
    sum = lane_sum<W>(count, [&](int64_t i) { return std::exp(load(x + i * stride) - m); });
    const W scale = W(1) / sum;
    for (int64_t i = 0; i < count; ++i)
      store(y + i * stride, std::exp(load(x + i * stride) - m) * scale);
  }
}

// f32 with inner > 1: computes several columns at once.
template <bool kLog>
void softmax_columns(const RunContext& c, const Lines& l) {
  constexpr int64_t kColumns = 256;  // of a task, or fewer
  const float* x = c.in(0).as<float>();
  float* y = c.out(0).as<float>();
  const int64_t tasks = ceil_div(l.inner, kColumns);
  c.parallel_for(l.outer * tasks, grain_of(l.count * std::min(l.inner, kColumns), 4096),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t first = i % tasks * kColumns;
                     const int64_t at = i / tasks * l.count * l.inner + first;
                     l.table->softmax_columns(kLog, x + at, y + at, l.count, l.inner,
                                              std::min(kColumns, l.inner - first));
                   }
                 });
}

// 16-bit floats: widens a block of columns, or a line if inner is 1.
template <class T, bool kLog>
void softmax_halves(const RunContext& c, const Lines& l) {
  const T* x = c.in(0).as<T>();
  T* y = c.out(0).as<T>();
  const HalfTable& half = half_table();
  const int64_t width = std::min(l.inner, kWidened / l.count), tasks = ceil_div(l.inner, width);
  c.parallel_for(l.outer * tasks, grain_of(l.count * width, 4096), [&](int64_t begin, int64_t end) {
    float block[kWidened];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % tasks * width, columns = std::min(width, l.inner - first);
      const int64_t at = task / tasks * l.count * l.inner + first;
      if (l.inner == 1) {
        half.widen(l.count, x + at, block);
        (kLog ? l.table->log_softmax : l.table->softmax)(block, block, l.count);
        half.narrow(l.count, block, y + at);
        continue;
      }
      for (int64_t i = 0; i < l.count; ++i)
        half.widen(columns, x + at + i * l.inner, block + i * columns);
      l.table->softmax_columns(kLog, block, block, l.count, columns, columns);
      for (int64_t i = 0; i < l.count; ++i)
        half.narrow(columns, block + i * columns, y + at + i * l.inner);
    }
  });
}

// f64 with inner > 1: gathers the lines of a few adjacent columns.
template <bool kLog>
void softmax_doubles(const RunContext& c, const Lines& l) {
  const double* x = c.in(0).as<double>();
  double* y = c.out(0).as<double>();
  const auto softmax = kLog ? l.table->log_softmax_double : l.table->softmax_double;
  constexpr int64_t kColumns = 8;  // a cache line
  const int64_t width = std::min({l.inner, kColumns, kWidened / l.count});
  const int64_t tasks = ceil_div(l.inner, width);
  c.parallel_for(l.outer * tasks, grain_of(l.count * width, 4096), [&](int64_t begin, int64_t end) {
    double block[kWidened];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % tasks * width, columns = std::min(width, l.inner - first);
      const int64_t at = task / tasks * l.count * l.inner + first;
      for (int64_t i = 0; i < l.count; ++i)
        for (int64_t j = 0; j < columns; ++j) block[j * l.count + i] = x[at + i * l.inner + j];
      for (int64_t j = 0; j < columns; ++j)
        softmax(block + j * l.count, block + j * l.count, l.count);
      for (int64_t i = 0; i < l.count; ++i)
        for (int64_t j = 0; j < columns; ++j) y[at + i * l.inner + j] = block[j * l.count + i];
    }
  });
}

template <bool kLog>
void softmax_run(const RunContext& c) noexcept {
  const Lines l = c.state<Lines>();
  if (c.out(0).count() == 0) return;
  if (c.out(0).dtype == DType::f32 && l.inner > 1) return softmax_columns<kLog>(c, l);
  if (c.out(0).dtype == DType::f64 && l.inner > 1 && l.count <= kWidened)
    return softmax_doubles<kLog>(c, l);
  for_float(c.out(0).dtype, [&]<class T>() {
    if constexpr (kIsHalf<T>)
      if (l.count <= kWidened) return softmax_halves<T, kLog>(c, l);
    const T* x = c.in(0).as<T>();
    T* y = c.out(0).as<T>();
    c.parallel_for(l.outer * l.inner, grain_of(l.count, 4096), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / l.inner * l.count * l.inner + i % l.inner;
        if constexpr (std::is_same_v<T, float>)
          (kLog ? l.table->log_softmax : l.table->softmax)(x + at, y + at, l.count);
        else if (std::is_same_v<T, double> && l.inner == 1)
          (kLog ? l.table->log_softmax_double : l.table->softmax_double)(
              c.in(0).as<double>() + at, c.out(0).as<double>() + at, l.count);
        else
          softmax_line<T, kLog>(x + at, y + at, l.count, l.inner);
      }
    });
  });
}

struct NormState {
  int64_t rows = 0, count = 0;              // x seen as [rows, count]
  int64_t groups = 1, each = 1, space = 1;  // group_norm: channels of a group, positions
  double eps = 0, momentum = 0;
  bool training = false;
  const NormTable* table = &norm_table();
};

// Adds the sums of x - shift and of its squares.
template <class T>
void add_deviations(const NormState& s, const T* x, int64_t count, Wide<T> shift, double& sum,
                    double& square) {
  if constexpr (kIsHalf<T>) {
    for_widened(x, count, [&](const float* block, int64_t, int64_t n) {
      add_deviations(s, block, n, shift, sum, square);
    });
  } else if constexpr (std::is_same_v<T, float>) {
    double a = 0, b = 0;
    s.table->deviations(x, count, shift, a, b);
    sum += a;
    square += b;
  } else {
    sum += lane_sum<double>(count, [&](int64_t i) { return x[i] - shift; });
    square += lane_sum<double>(count, [&](int64_t i) { return (x[i] - shift) * (x[i] - shift); });
  }
}

// The mean and the mean squared distance from it.
template <class T>
struct Moments {
  Wide<T> mean, var;
};
template <class T>
Moments<T> moments(const NormState& s, const T* x, int64_t count) {
  using W = Wide<T>;
  if constexpr (std::is_same_v<T, float>) {
    Moments<T> m;
    s.table->moments(x, count, m.mean, m.var);
    return m;
  }
  if constexpr (kIsHalf<T>) {
    const auto n = static_cast<double>(count);
    double sum = 0, square = 0;
    add_deviations(s, x, count, W(0), sum, square);
    const W mean = static_cast<W>(sum / n);
    sum = square = 0;
    add_deviations(s, x, count, mean, sum, square);
    return {mean, static_cast<W>(std::max(square - sum * sum / n, 0.0) / n)};
  }
  const W n = static_cast<W>(count);
  const W mean = lane_sum<W>(count, [&](int64_t i) { return load(x + i); }) / n;
  const W var = lane_sum<W>(count,
                            [&](int64_t i) {
                              const W d = load(x + i) - mean;
                              return d * d;
                            }) /
                n;
  return {mean, var};
}

Status trailing_prepare(PrepareContext& c) {
  NormState s;
  s.count = c.attrs().integers("normalized_shape").count();
  s.rows = s.count == 0 ? 0 : c.in(0).count() / s.count;
  s.eps = c.attrs().real("eps");
  c.make_state(s);
  return {};
}

// y = (x - mean) * scale * weight + bias; weight and bias may be null.
template <class T>
void affine_row(const NormState& s, const T* x, T* y, int64_t count, Wide<T> mean, Wide<T> scale,
                const T* weight, const T* bias) {
  if constexpr (std::is_same_v<T, float>)
    return s.table->affine_row(x, y, count, mean, scale, weight, bias);
  for (int64_t i = 0; i < count; ++i) {
    Wide<T> v = (load(x + i) - mean) * scale;
    if (weight) v *= load(weight + i);
    if (bias) v += load(bias + i);
    store(y + i, v);
  }
}

template <class T>
const T* data_or_null(const RunContext& c, int i) {
  return c.has(i) ? c.in(i).as<T>() : nullptr;
}

// Rows of 16-bit floats with the f32 loops; norm(row) returns the arguments of affine_row().
template <class T, class Norm>
void norm_halves(const NormState& s, const T* x, T* y, const T* weight, const T* bias,
                 int64_t begin, int64_t end, const Norm& norm) {
  const HalfTable& half = half_table();
  float row[kWidened], w[kWidened], b[kWidened];
  if (weight) half.widen(s.count, weight, w);
  if (bias) half.widen(s.count, bias, b);
  for (int64_t r = begin; r < end; ++r) {
    half.widen(s.count, x + r * s.count, row);
    const auto [mean, scale] = norm(row);
    affine_row<float>(s, row, row, s.count, mean, scale, weight ? w : nullptr, bias ? b : nullptr);
    half.narrow(s.count, row, y + r * s.count);
  }
}

void layer_norm_run(const RunContext& c) noexcept {
  const NormState& s = c.state<NormState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    const T* x = c.in(0).as<T>();
    T* y = c.out(0).as<T>();
    const T* weight = data_or_null<T>(c, 1);
    const T* bias = data_or_null<T>(c, 2);
    c.parallel_for(s.rows, grain_of(s.count), [&](int64_t begin, int64_t end) {
      if constexpr (kIsHalf<T>)
        if (s.count <= kWidened)
          return norm_halves(s, x, y, weight, bias, begin, end, [&](const float* row) {
            const Moments<float> m = moments(s, row, s.count);
            return std::pair(m.mean, 1 / std::sqrt(m.var + static_cast<float>(s.eps)));
          });
      for (int64_t r = begin; r < end; ++r) {
        const T* row = x + r * s.count;
        const Moments<T> m = moments(s, row, s.count);
        affine_row(s, row, y + r * s.count, s.count, m.mean,
                   W(1) / std::sqrt(m.var + static_cast<W>(s.eps)), weight, bias);
      }
    });
  });
}

void rms_norm_run(const RunContext& c) noexcept {
  const NormState& s = c.state<NormState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    const T* x = c.in(0).as<T>();
    T* y = c.out(0).as<T>();
    const T* weight = data_or_null<T>(c, 1);
    c.parallel_for(s.rows, grain_of(s.count), [&](int64_t begin, int64_t end) {
      if constexpr (kIsHalf<T>)
        if (s.count <= kWidened)
          return norm_halves<T>(s, x, y, weight, nullptr, begin, end, [&](const float* row) {
            const float square = s.table->mean_square(row, s.count);
            return std::pair(0.0f, 1 / std::sqrt(square + static_cast<float>(s.eps)));
          });
      for (int64_t r = begin; r < end; ++r) {
        const T* row = x + r * s.count;
        W square;
        if constexpr (std::is_same_v<T, float>)
          square = s.table->mean_square(row, s.count);
        else
          square = lane_sum<W>(s.count, [&](int64_t i) { return load(row + i) * load(row + i); }) /
                   static_cast<W>(s.count);
        affine_row<T>(s, row, y + r * s.count, s.count, W(0),
                      W(1) / std::sqrt(square + static_cast<W>(s.eps)), weight, nullptr);
      }
    });
  });
}

// y = (x - mean) scale + shift for the positions of one channel.
template <class T>
void affine_line(const NormState& s, const T* x, T* y, int64_t count, Wide<T> mean, Wide<T> scale,
                 Wide<T> shift) {
  if constexpr (std::is_same_v<T, float>)
    return s.table->affine_line(x, y, count, mean, scale, shift);
  if constexpr (kIsHalf<T>)
    return for_widened(x, count, [&](float* block, int64_t first, int64_t n) {
      s.table->affine_line(block, block, n, mean, scale, shift);
      half_table().narrow(n, block, y + first);
    });
  for (int64_t i = 0; i < count; ++i) store(y + i, (load(x + i) - mean) * scale + shift);
}

Status group_norm_prepare(PrepareContext& c) {
  NormState s;
  const Sizes& shape = c.in(0).shape;
  s.groups = c.attrs().integer("groups");
  s.each = shape[1] / s.groups;
  for (int i = 2; i < shape.rank(); ++i) s.space *= shape[i];
  s.rows = shape[0] * s.groups;
  s.count = s.each * s.space;
  s.eps = c.attrs().real("eps");
  c.make_state(s);
  return {};
}

void group_norm_run(const RunContext& c) noexcept {
  const NormState& s = c.state<NormState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    const T* x = c.in(0).as<T>();
    T* y = c.out(0).as<T>();
    const T* weight = data_or_null<T>(c, 1);
    const T* bias = data_or_null<T>(c, 2);
    c.parallel_for(s.rows, grain_of(s.count), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const Moments<T> m = moments(s, x + r * s.count, s.count);
        const W rstd = W(1) / std::sqrt(m.var + static_cast<W>(s.eps));
        for (int64_t k = 0; k < s.each; ++k) {
          const int64_t channel = r % s.groups * s.each + k;
          const W scale = weight ? rstd * load(weight + channel) : rstd;
          const W shift = bias ? load(bias + channel) : W(0);
          const int64_t at = r * s.count + k * s.space;
          affine_line(s, x + at, y + at, s.space, m.mean, scale, shift);
        }
      }
    });
  });
}

Status batch_norm_prepare(PrepareContext& c) {
  NormState s;
  const Sizes& shape = c.in(0).shape;
  s.rows = shape[0];
  s.groups = shape[1];
  for (int i = 2; i < shape.rank(); ++i) s.space *= shape[i];
  s.eps = c.attrs().real("eps");
  s.momentum = c.attrs().real("momentum");
  s.training = c.attrs().flag("training");
  // The unbiased variance of one value is 0 / 0.
  if (s.training && s.rows * s.space == 1)
    return invalid_argument(c.label(), ": training needs more than one value per channel, x is ",
                            shape);
  c.make_state(s);
  return {};
}

constexpr int64_t kChannels = 128;  // adjacent channels that are computed together

// Of `count` channels, the first of which begins at x: the mean and mean squared distance over n
// and the positions. Several channels must have one position each.
template <class T>
void channel_moments(const T* x, const NormState& s, int64_t count, Moments<T>* moments) {
  using W = Wide<T>;
  const int64_t step = s.groups * s.space;
  const auto n = static_cast<double>(s.rows * s.space);
  double sum[kChannels], square[kChannels];
  W shift[kChannels] = {};
  const auto add_rows = [&] {
    std::fill_n(sum, count, 0.0);
    std::fill_n(square, count, 0.0);
    for (int64_t i = 0; i < s.rows; ++i) {
      const T* row = x + i * step;
      if (s.space == 1) {
        HG_INDEPENDENT_LOOP
        for (int64_t k = 0; k < count; ++k) {
          const double d = load(row + k) - shift[k];
          sum[k] += d;
          square[k] += d * d;
        }
        continue;
      }
      add_deviations(s, row, s.space, shift[0], sum[0], square[0]);
    }
  };
  add_rows();
  for (int64_t k = 0; k < count; ++k) shift[k] = static_cast<W>(sum[k] / n);
  add_rows();
  for (int64_t k = 0; k < count; ++k)
    moments[k] = {shift[k], static_cast<W>(std::max(square[k] - sum[k] * sum[k] / n, 0.0) / n)};
}

void batch_norm_run(const RunContext& c) noexcept {
  const NormState& s = c.state<NormState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    const T* x = c.in(0).as<T>();
    T* y = c.out(0).as<T>();
    const T* weight = data_or_null<T>(c, 1);
    const T* bias = data_or_null<T>(c, 2);
    const T* old_mean = data_or_null<T>(c, 3);
    const T* old_var = data_or_null<T>(c, 4);
    T* new_mean = c.out(1).as<T>();
    T* new_var = c.out(2).as<T>();
    const int64_t each = s.rows * s.space;
    // The scale and shift of channel k in (x - mean) scale + shift.
    const bool measures = s.training && (each > 0 || !old_mean);
    const auto read_channel = [&](int64_t k, Moments<T> m, W& mean, W& scale, W& shift) {
      if (measures) {
        const W momentum = old_mean ? static_cast<W>(s.momentum) : W(1);
        const W unbiased = m.var * static_cast<W>(each) / static_cast<W>(each - 1);
        const W keep = old_mean ? W(1) - momentum : W(0);
        store(new_mean + k, m.mean * momentum + (old_mean ? load(old_mean + k) * keep : W(0)));
        store(new_var + k, unbiased * momentum + (old_mean ? load(old_var + k) * keep : W(0)));
      } else {
        m = {load(old_mean + k), load(old_var + k)};
        new_mean[k] = old_mean[k];
        new_var[k] = old_var[k];
      }
      mean = m.mean;
      scale = W(1) / std::sqrt(m.var + static_cast<W>(s.eps));
      if (weight) scale *= load(weight + k);
      shift = bias ? load(bias + k) : W(0);
    };
    c.parallel_for(s.groups, grain_of(each), [&](int64_t begin, int64_t end) {
      // One channel at a time, unless channels are adjacent.
      const int64_t part = s.space == 1 ? kChannels : 1;
      W mean[kChannels], scale[kChannels], shift[kChannels];
      Moments<T> found[kChannels] = {};
      for (int64_t first = begin; first < end; first += part) {
        const int64_t count = std::min(part, end - first);
        if (measures) channel_moments(x + first * s.space, s, count, found);
        for (int64_t k = 0; k < count; ++k)
          read_channel(first + k, found[k], mean[k], scale[k], shift[k]);
        for (int64_t i = 0; i < s.rows; ++i) {
          const int64_t at = (i * s.groups + first) * s.space;
          if (s.space != 1) {
            affine_line(s, x + at, y + at, s.space, mean[0], scale[0], shift[0]);
            continue;
          }
          HG_INDEPENDENT_LOOP
          for (int64_t k = 0; k < count; ++k)
            store(y + at + k, (load(x + at + k) - mean[k]) * scale[k] + shift[k]);
        }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "softmax", .name = "lines", .prepare = softmax_prepare, .run = softmax_run<false>},
    {.op = "log_softmax", .name = "lines", .prepare = softmax_prepare, .run = softmax_run<true>},
    {.op = "layer_norm", .name = "rows", .prepare = trailing_prepare, .run = layer_norm_run},
    {.op = "rms_norm", .name = "rows", .prepare = trailing_prepare, .run = rms_norm_run},
    {.op = "group_norm", .name = "groups", .prepare = group_norm_prepare, .run = group_norm_run},
    {.op = "batch_norm", .name = "channels", .prepare = batch_norm_prepare, .run = batch_norm_run},
};

}  // namespace

std::span<const KernelDef> norm() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
