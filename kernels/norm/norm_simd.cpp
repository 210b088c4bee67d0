// SPDX-License-Identifier: Apache-2.0
// Rows of softmax and of the norms in f32, for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_simd.cpp"
// clang-format off: the order matters
#include "kernels/norm/norm_simd.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/doubles-inl.h"
#include "kernels/simd/simd.h"
#include "kernels/simd/vector_math-inl.h"
// clang-format on
#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

// The sum of f(x[i]): two running vectors, then the rest one by one.
template <class Many, class One>
HWY_INLINE float sum_of(const float* x, int64_t count, const Many& many, const One& one) {
  const D d;
  const int64_t n = lanes();
  V a = hn::Zero(d), b = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) {
    a = many(hn::LoadU(d, x + i), a);
    b = many(hn::LoadU(d, x + i + n), b);
  }
  if (i + n <= count) {
    a = many(hn::LoadU(d, x + i), a);
    i += n;
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < count; ++i) sum += one(x[i]);
  return sum;
}

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

// A NaN may be missed by largest(), but then makes the sum, and so the whole row, NaN.
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

// Of columns side by side. Elements of a column lie so far apart that they share few sets of a
// cache: a block of columns is copied when it is read first, and written when it is finished.
void softmax_columns(bool log, const float* x, float* y, int64_t count, int64_t stride,
                     int64_t columns) {
  constexpr int64_t kFloats = 8192, kWidest = 256;
  const D d;
  const int64_t n = lanes();
  HWY_ALIGN float copy[kFloats], top[kWidest], factor[kWidest];
  const int64_t most = std::min(kWidest, kFloats / count / n * n);
  const bool copies = most > 0;
  const int64_t width = copies ? most : kWidest;
  // Vectors of `some` elements, if that is less than all.
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

void moments(const float* x, int64_t count, float& mean, float& var) {
  mean = sum_of(
             x, count, [](V v, V s) HWY_ATTR { return hn::Add(s, v); },
             [](float v) HWY_ATTR { return v; }) /
         static_cast<float>(count);
  const float m = mean;
  const V centre = hn::Set(D(), m);
  var = sum_of(
            x, count,
            [&](V v, V s) HWY_ATTR {
              const V c = hn::Sub(v, centre);
              return hn::MulAdd(c, c, s);
            },
            [&](float v) HWY_ATTR { return (v - m) * (v - m); }) /
        static_cast<float>(count);
}

float mean_square(const float* x, int64_t count) {
  return sum_of(
             x, count, [](V v, V s) HWY_ATTR { return hn::MulAdd(v, v, s); },
             [](float v) HWY_ATTR { return v * v; }) /
         static_cast<float>(count);
}

// y = (x - mean) scale weight + bias, weight and bias for each element or null
void affine_row(const float* x, float* y, int64_t count, float mean, float scale,
                const float* weight, const float* bias) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), s = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    V v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), s);
    if (weight) v = hn::Mul(v, hn::LoadU(d, weight + i));
    if (bias) v = hn::Add(v, hn::LoadU(d, bias + i));
    hn::StoreU(v, d, y + i);
  }
  for (; i < count; ++i) {
    float v = (x[i] - mean) * scale;
    if (weight) v *= weight[i];
    if (bias) v += bias[i];
    y[i] = v;
  }
}

// y = (x - mean) scale + shift
void affine_line(const float* x, float* y, int64_t count, float mean, float scale, float shift) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), s = hn::Set(d, scale), b = hn::Set(d, shift);
  int64_t i = 0;
  for (; i + n <= count; i += n)
    hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, x + i), m), s, b), d, y + i);
  for (; i < count; ++i) y[i] = (x[i] - mean) * scale + shift;
}

// Adds the lanes to those of a sum in double.
HWY_INLINE void add_lanes(V v, Doubles& sum) {
  HWY_ALIGN float terms[hn::MaxLanes(D())];
  hn::Store(v, D(), terms);
  for (int64_t i = 0; i < lanes(); i += kDoubles) sum = add(sum, widen(terms + i));
}
constexpr int64_t kTerms = 8;  // of a lane that are added up in float

// The sums of what terms(i, a, b) adds to a and b for the vectors at i; returns how many elements
// those are.
template <class Terms>
HWY_INLINE int64_t long_sums(int64_t count, double& first, double& second, const Terms& terms) {
  const D d;
  const int64_t n = lanes(), all = count / n * n;
  Doubles as = no_doubles(), bs = no_doubles();
  for (int64_t i = 0; i < all;) {
    V a = hn::Zero(d), b = hn::Zero(d);
    const int64_t end = i + kTerms * n < all ? i + kTerms * n : all;
    for (; i < end; i += n) terms(i, a, b);
    add_lanes(a, as);
    add_lanes(b, bs);
  }
  first = sum_of_lanes(as);
  second = sum_of_lanes(bs);
  return all;
}

void deviations(const float* x, int64_t count, float shift, double& sum, double& square) {
  const D d;
  const V m = hn::Set(d, shift);
  int64_t i = long_sums(count, sum, square, [&](int64_t at, V& a, V& b) HWY_ATTR {
    const V v = hn::Sub(hn::LoadU(d, x + at), m);
    a = hn::Add(a, v);
    b = hn::MulAdd(v, v, b);
  });
  for (; i < count; ++i) {
    const double v = static_cast<double>(x[i]) - static_cast<double>(shift);
    sum += v;
    square += v * v;
  }
}

void grad_sums(const float* x, const float* dy, const float* weight, int64_t count, float mean,
               double& sum, double& product) {
  const D d;
  const V m = hn::Set(d, mean);
  int64_t i = long_sums(count, sum, product, [&](int64_t at, V& a, V& b) HWY_ATTR {
    V g = hn::LoadU(d, dy + at);
    if (weight) g = hn::Mul(g, hn::LoadU(d, weight + at));
    a = hn::Add(a, g);
    b = hn::MulAdd(g, hn::Sub(hn::LoadU(d, x + at), m), b);
  });
  for (; i < count; ++i) {
    const auto g = static_cast<double>(weight ? dy[i] * weight[i] : dy[i]);
    sum += g;
    product += g * (static_cast<double>(x[i]) - static_cast<double>(mean));
  }
}

void grad_line(const float* x, const float* dy, const float* weight, float* dx, int64_t count,
               float mean, float g_mean, float a, float b) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), gm = hn::Set(d, g_mean), va = hn::Set(d, a), vb = hn::Set(d, b);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    V g = hn::LoadU(d, dy + i);
    if (weight) g = hn::Mul(g, hn::LoadU(d, weight + i));
    const V v = hn::Sub(hn::LoadU(d, x + i), m);
    hn::StoreU(hn::Mul(hn::MulAdd(v, vb, hn::Sub(g, gm)), va), d, dx + i);
  }
  for (; i < count; ++i) {
    const float g = weight ? dy[i] * weight[i] : dy[i];
    dx[i] = ((g - g_mean) + (x[i] - mean) * b) * a;
  }
}

void grad_affine(const float* x, const float* dy, int64_t count, float mean, float scale,
                 float* dweight, float* dbias) {
  const D d;
  const int64_t n = lanes();
  const V m = hn::Set(d, mean), s = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    const V g = hn::LoadU(d, dy + i);
    const V z = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), s);
    hn::StoreU(hn::MulAdd(g, z, hn::LoadU(d, dweight + i)), d, dweight + i);
    hn::StoreU(hn::Add(g, hn::LoadU(d, dbias + i)), d, dbias + i);
  }
  for (; i < count; ++i) {
    dweight[i] += dy[i] * ((x[i] - mean) * scale);
    dbias[i] += dy[i];
  }
}

}  // namespace

constexpr NormTable kTable = {softmax,     log_softmax, softmax_columns, moments,
                              mean_square, affine_row,  affine_line,     deviations,
                              grad_sums,   grad_line,   grad_affine};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const NormTable& norm_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
