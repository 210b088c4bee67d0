// SPDX-License-Identifier: Apache-2.0
// The passes of fft_simd.h. Vectors run along neighboring transforms, which have the same roots.
#include "kernels/linalg/fft_simd.h"

#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/fft_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/doubles-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// Single numbers are computed exactly as in vectors: results of a line do not depend on the number
// of lines.
HWY_INLINE double add(double a, double b) { return a + b; }
HWY_INLINE double sub(double a, double b) { return a - b; }
HWY_INLINE double mul(double a, double b) { return a * b; }
HWY_INLINE double mul_add(double a, double b, double c) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
template <class T>
HWY_INLINE T of(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return set_doubles(value);
}
template <class T>
HWY_INLINE T load(const double* from) {
  if constexpr (std::is_same_v<T, double>)
    return *from;
  else
    return load_doubles(from);
}
HWY_INLINE void put(double x, double* to) { *to = x; }
HWY_INLINE void put(Doubles x, double* to) { store_doubles(x, to); }

template <class T>
struct Number {
  T re, im;
};
template <class T>
HWY_INLINE Number<T> plus(Number<T> a, Number<T> b) {
  return {add(a.re, b.re), add(a.im, b.im)};
}
template <class T>
HWY_INLINE Number<T> minus(Number<T> a, Number<T> b) {
  return {sub(a.re, b.re), sub(a.im, b.im)};
}
// a + i b
template <class T>
HWY_INLINE Number<T> plus_turned(Number<T> a, Number<T> b) {
  return {sub(a.re, b.im), add(a.im, b.re)};
}
// a - i b
template <class T>
HWY_INLINE Number<T> minus_turned(Number<T> a, Number<T> b) {
  return {add(a.re, b.im), sub(a.im, b.re)};
}
// sum + x root
template <class T>
HWY_INLINE Number<T> plus_product(Number<T> sum, Number<T> x, const double* root) {
  const T re = of<T>(root[0]), im = of<T>(root[1]), less = of<T>(-root[1]);
  return {mul_add(x.re, re, mul_add(x.im, less, sum.re)),
          mul_add(x.re, im, mul_add(x.im, re, sum.im))};
}
template <class T>
HWY_INLINE Number<T> product(Number<T> x, const double* root) {
  const T re = of<T>(root[0]), im = of<T>(root[1]), less = of<T>(-root[1]);
  return {mul_add(x.re, re, mul(x.im, less)), mul_add(x.re, im, mul(x.im, re))};
}

// The step for transform p, q. kRadix: 2, 4, or 0 for any other radix.
template <int kRadix, class T>
HWY_INLINE void step_of(const FftPass& f, int64_t p, int64_t q) {
  using N = Number<T>;
  const int64_t width = f.stride * f.lines, step = f.rest * width;
  const int64_t radix = kRadix == 0 ? f.radix : kRadix;
  const auto in = [&](int64_t j) HWY_ATTR {
    const int64_t at = p * width + q + j * step;
    return N{load<T>(f.from.re + at), load<T>(f.from.im + at)};
  };
  const auto out = [&](int64_t k, N y) HWY_ATTR {
    if (k > 0 && p > 0) y = product(y, f.roots + 2 * k * p * f.stride);
    const int64_t at = (radix * p + k) * width + q;
    put(y.re, f.to.re + at);
    put(y.im, f.to.im + at);
  };
  if constexpr (kRadix == 2) {
    const N a = in(0), b = in(1);
    out(0, plus(a, b));
    out(1, minus(a, b));
  } else if constexpr (kRadix == 4) {
    const N x0 = in(0), x1 = in(1), x2 = in(2), x3 = in(3);
    const N a = plus(x0, x2), b = minus(x0, x2), c = plus(x1, x3), d = minus(x1, x3);
    out(0, plus(a, c));
    out(1, minus_turned(b, d));
    out(2, minus(a, c));
    out(3, plus_turned(b, d));
  } else {
    const int64_t turn = f.length / radix;  // distance of the roots of unity of order radix
    for (int64_t k = 0; k < radix; ++k) {
      N sum = in(0);
      for (int64_t j = 1; j < radix; ++j)
        sum = plus_product(sum, in(j), f.roots + 2 * (j * k % radix * turn));
      out(k, sum);
    }
  }
}

template <int kRadix>
void pass_of(const FftPass& f) {
  const int64_t width = f.stride * f.lines;
  for (int64_t p = 0; p < f.rest; ++p) {
    int64_t q = 0;
    for (; q + kDoubles <= width; q += kDoubles) step_of<kRadix, Doubles>(f, p, q);
    for (; q < width; ++q) step_of<kRadix, double>(f, p, q);
  }
}

void pass(const FftPass& f) {
  (f.radix == 4 ? pass_of<4> : f.radix == 2 ? pass_of<2> : pass_of<0>)(f);
}

constexpr FftTable kTable = {pass};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const FftTable& fft_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
