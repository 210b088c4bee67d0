// SPDX-License-Identifier: Apache-2.0
// Rows of softmax in f32 and f64, and columns in f32, for each instruction set.
#include "kernels/norm/softmax_simd.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/softmax_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/norm/sums-inl.h"
#include "kernels/simd/doubles-inl.h"
#include "kernels/simd/vector_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

float largest(const float* x, int64_t count) {
  const D d;
  const int64_t n = lanes();
  float top = -HUGE_VALF;
  int64_t i = 0;
  if (count >= n) {
    V a = hn::LoadU(d, x);
    for (i = n; i + n <= count; i += n) a = hn::Max(a, hn::LoadU(d, x + i));
    top = hn::GetLane(hn::MaxOfLanes(d, a));
  }
  for (; i < count; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

// largest() may miss a NaN, but the NaN then makes the sum, and therefore the whole row, NaN.
void softmax(const float* x, float* y, int64_t count) {
  const D d;
  const int64_t n = lanes();
  const float top = largest(x, count);
  const V shift = hn::Set(d, top);
  V total = hn::Zero(d);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    const V p = exp_of(hn::Sub(hn::LoadU(d, x + i), shift));
    hn::StoreU(p, d, y + i);
    total = hn::Add(total, p);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < count; ++i) {
    y[i] = std::exp(x[i] - top);
    sum += y[i];
  }
  const float scale = 1 / sum;
  const V factor = hn::Set(d, scale);
  for (i = 0; i + n <= count; i += n) hn::StoreU(hn::Mul(hn::LoadU(d, y + i), factor), d, y + i);
  for (; i < count; ++i) y[i] *= scale;
}

void log_softmax(const float* x, float* y, int64_t count) {
  const D d;
  const int64_t n = lanes();
  const float top = largest(x, count);
  const V shift = hn::Set(d, top);
  const float sum = sum_of(
      x, count, [&](V v, V s) HWY_ATTR { return hn::Add(s, exp_of(hn::Sub(v, shift))); },
      [&](float v) HWY_ATTR { return std::exp(v - top); });
  const float log_sum = std::log(sum);
  const V low = hn::Set(d, log_sum);
  int64_t i = 0;
  for (; i + n <= count; i += n)
    hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), shift), low), d, y + i);
  for (; i < count; ++i) y[i] = x[i] - top - log_sum;
}

double largest(const double* x, int64_t count) {
  double top = -HUGE_VAL;
  int64_t i = 0;
  if (count >= kDoubles) {
    Doubles a = load_doubles(x);
    for (i = kDoubles; i + kDoubles <= count; i += kDoubles) a = max_of(a, load_doubles(x + i));
    top = max_of_lanes(a);
  }
  for (; i < count; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

void softmax_double(const double* x, double* y, int64_t count) {
  const double top = largest(x, count);
  const Doubles shift = set_doubles(top);
  Doubles total = no_doubles();
  int64_t i = 0;
  for (; i + kDoubles <= count; i += kDoubles) {
    const Doubles p = exp_of_falling(sub(load_doubles(x + i), shift));
    store_doubles(p, y + i);
    total = add(total, p);
  }
  double sum = sum_of_lanes(total);
  for (; i < count; ++i) {
    y[i] = std::exp(x[i] - top);
    sum += y[i];
  }
  const double scale = 1 / sum;
  const Doubles factor = set_doubles(scale);
  for (i = 0; i + kDoubles <= count; i += kDoubles)
    store_doubles(mul(load_doubles(y + i), factor), y + i);
  for (; i < count; ++i) y[i] *= scale;
}

void log_softmax_double(const double* x, double* y, int64_t count) {
  const double top = largest(x, count);
  const Doubles shift = set_doubles(top);
  Doubles total = no_doubles();
  int64_t i = 0;
  for (; i + kDoubles <= count; i += kDoubles)
    total = add(total, exp_of_falling(sub(load_doubles(x + i), shift)));
  double sum = sum_of_lanes(total);
  for (; i < count; ++i) sum += std::exp(x[i] - top);
  const double log_sum = std::log(sum);  // subtracted separately: added to top it would lose digits
  const Doubles low = set_doubles(log_sum);
  for (i = 0; i + kDoubles <= count; i += kDoubles)
    store_doubles(sub(sub(load_doubles(x + i), shift), low), y + i);
  for (; i < count; ++i) y[i] = x[i] - top - log_sum;
}

// For several columns at once. Elements of a column are so far apart that they share few cache
// sets. A block of columns is therefore copied when it is first read, and written when it is
// finished.
void softmax_columns(bool log, const float* x, float* y, int64_t count, int64_t stride,
                     int64_t columns) {
  constexpr int64_t kFloats = 8192, kWidest = 256;
  const D d;
  const int64_t n = lanes();
  HWY_ALIGN float copy[kFloats], top[kWidest], factor[kWidest];
  const int64_t most = std::min(kWidest, kFloats / count / n * n);
  const bool copies = most > 0;
  const int64_t width = copies ? most : kWidest;
  // Vectors of `some` elements, if those are fewer than a whole vector.
  const auto load = [&](const float* from, int64_t some) HWY_ATTR {
    if (some >= n) return hn::LoadU(d, from);
    HWY_ALIGN float room[hn::MaxLanes(D())] = {};
    std::copy_n(from, some, room);
    return hn::Load(d, room);
  };
  const auto store = [&](V v, float* to, int64_t some) HWY_ATTR {
    if (some >= n) return hn::StoreU(v, d, to);
    HWY_ALIGN float room[hn::MaxLanes(D())];
    hn::Store(v, d, room);
    std::copy_n(room, some, to);
  };
  for (int64_t first = 0; first < columns; first += width) {
    const int64_t here = std::min(width, columns - first);
    const float* const from = copies ? copy : x + first;
    float* const powers = copies ? copy : y + first;
    const int64_t step = copies ? width : stride;
    for (int64_t k = 0; k < here; k += n) hn::Store(hn::Set(d, -HUGE_VALF), d, top + k);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < here; k += n) {
        const V v = load(x + first + i * stride + k, here - k);
        hn::Store(hn::Max(hn::Load(d, top + k), v), d, top + k);
        if (copies) hn::Store(v, d, copy + i * step + k);
      }
    for (int64_t k = 0; k < here; k += n) {
      const V shift = hn::Load(d, top + k);
      V total = hn::Zero(d);
      for (int64_t i = 0; i < count; ++i) {
        const V v = hn::Sub(load(from + i * step + k, copies ? n : here - k), shift);
        const V power = exp_of(v);
        total = hn::Add(total, power);
        if (copies || !log) store(log ? v : power, powers + i * step + k, copies ? n : here - k);
      }
      hn::Store(log ? log_of(total) : hn::Div(hn::Set(d, 1), total), d, factor + k);
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < here; k += n) {
        const V f = hn::Load(d, factor + k);
        V v = load((log ? from : powers) + i * step + k, copies ? n : here - k);
        if (log && !copies) v = hn::Sub(v, hn::Load(d, top + k));
        store(log ? hn::Sub(v, f) : hn::Mul(v, f), y + first + i * stride + k, here - k);
      }
  }
}

}  // namespace

constexpr SoftmaxTable kTable = {softmax, log_softmax, softmax_double, log_softmax_double,
                                 softmax_columns};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const SoftmaxTable& softmax_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
