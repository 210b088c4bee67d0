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

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;
constexpr int64_t kFloats = static_cast<int64_t>(hn::MaxLanes(FloatTag()));
using QuadTag = hn::CappedTag<float, 4>;
using Quad = hn::Vec<QuadTag>;

// Single numbers are computed exactly as in vectors: results of a line do not depend on the number
// of lines.
template <class T>
concept Single = std::is_floating_point_v<T>;
template <Single T>
HWY_INLINE T add(T a, T b) {
  return a + b;
}
template <Single T>
HWY_INLINE T sub(T a, T b) {
  return a - b;
}
template <Single T>
HWY_INLINE T mul(T a, T b) {
  return a * b;
}
template <Single T>
HWY_INLINE T mul_add(T a, T b, T c) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// Vectors of a number of lanes: of doubles as in doubles-inl.h, of floats as Highway has them.
template <class D>
struct FloatVector {
  hn::Vec<D> v;
};
template <class D>
HWY_INLINE FloatVector<D> add(FloatVector<D> a, FloatVector<D> b) {
  return {hn::Add(a.v, b.v)};
}
template <class D>
HWY_INLINE FloatVector<D> sub(FloatVector<D> a, FloatVector<D> b) {
  return {hn::Sub(a.v, b.v)};
}
template <class D>
HWY_INLINE FloatVector<D> mul(FloatVector<D> a, FloatVector<D> b) {
  return {hn::Mul(a.v, b.v)};
}
template <class D>
HWY_INLINE FloatVector<D> mul_add(FloatVector<D> a, FloatVector<D> b, FloatVector<D> c) {
  return {hn::MulAdd(a.v, b.v, c.v)};
}

// How many numbers a value of type T has, what they are, and how they are made, read and written.
template <class T>
struct Lanes;
template <Single T>
struct Lanes<T> {
  using Number = T;
  static constexpr int64_t kCount = 1;
  static HWY_INLINE T of(T value) { return value; }
  static HWY_INLINE T load(const T* from) { return *from; }
  static HWY_INLINE void store(T x, T* to) { *to = x; }
};
template <>
struct Lanes<Doubles> {
  using Number = double;
  static constexpr int64_t kCount = kDoubles;
  static HWY_INLINE Doubles of(double value) { return set_doubles(value); }
  static HWY_INLINE Doubles load(const double* from) { return load_doubles(from); }
  static HWY_INLINE void store(Doubles x, double* to) { store_doubles(x, to); }
};
template <class D>
struct Lanes<FloatVector<D>> {
  using Number = float;
  static constexpr int64_t kCount = static_cast<int64_t>(hn::MaxLanes(D()));
  static HWY_INLINE FloatVector<D> of(float value) { return {hn::Set(D(), value)}; }
  static HWY_INLINE FloatVector<D> load(const float* from) { return {hn::LoadU(D(), from)}; }
  static HWY_INLINE void store(FloatVector<D> x, float* to) { hn::StoreU(x.v, D(), to); }
};

// Calls f.operator()<T>(i) for parts of [0, count): vectors as wide as possible, then less wide
// ones, then single numbers.
template <class Number, class F>
HWY_INLINE void for_lanes(int64_t count, const F& f) {
  int64_t i = 0;
  const auto part = [&]<class T>() HWY_ATTR {
    for (; i + Lanes<T>::kCount <= count; i += Lanes<T>::kCount) f.template operator()<T>(i);
  };
  if constexpr (std::is_same_v<Number, double>) {
    part.template operator()<Doubles>();
  } else {
    part.template operator()<FloatVector<FloatTag>>();
    if constexpr (kFloats > 4) part.template operator()<FloatVector<QuadTag>>();
  }
  part.template operator()<Number>();
}

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
HWY_INLINE Number<T> plus_product(Number<T> sum, Number<T> x,
                                  const typename Lanes<T>::Number* root) {
  using L = Lanes<T>;
  const T re = L::of(root[0]), im = L::of(root[1]), less = L::of(-root[1]);
  return {mul_add(x.re, re, mul_add(x.im, less, sum.re)),
          mul_add(x.re, im, mul_add(x.im, re, sum.im))};
}
template <class T>
HWY_INLINE Number<T> product(Number<T> x, const typename Lanes<T>::Number* root) {
  using L = Lanes<T>;
  const T re = L::of(root[0]), im = L::of(root[1]), less = L::of(-root[1]);
  return {mul_add(x.re, re, mul(x.im, less)), mul_add(x.re, im, mul(x.im, re))};
}

// The step for transform p, q. kRadix: 2, 3, 4, or 0 for any radix.
template <int kRadix, class T>
HWY_INLINE void step_of(const FftPass<typename Lanes<T>::Number>& f, int64_t p, int64_t q) {
  using L = Lanes<T>;
  using N = Number<T>;
  const int64_t width = f.stride * f.lines, step = f.rest * width;
  const int64_t radix = kRadix == 0 ? f.radix : kRadix;
  const auto in = [&](int64_t j) HWY_ATTR {
    const int64_t at = p * width + q + j * step;
    return N{L::load(f.from.re + at), L::load(f.from.im + at)};
  };
  const auto out = [&](int64_t k, N y) HWY_ATTR {
    if (k > 0 && p > 0) y = product(y, f.roots + 2 * k * p * f.stride);
    const int64_t at = (radix * p + k) * width + q;
    L::store(y.re, f.to.re + at);
    L::store(y.im, f.to.im + at);
  };
  if constexpr (kRadix == 2) {
    const N a = in(0), b = in(1);
    out(0, plus(a, b));
    out(1, minus(a, b));
  } else if constexpr (kRadix == 3) {
    const N x0 = in(0), x1 = in(1), x2 = in(2), sum = plus(x1, x2), rest = minus(x1, x2);
    const T half = L::of(-0.5),
            sine = L::of(static_cast<typename L::Number>(0.8660254037844386468));
    const N a = {mul_add(half, sum.re, x0.re), mul_add(half, sum.im, x0.im)};
    const N b = {mul(sine, rest.re), mul(sine, rest.im)};
    out(0, plus(x0, sum));
    out(1, minus_turned(a, b));
    out(2, plus_turned(a, b));
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

template <int kRadix, class T>
void pass_of(const FftPass<T>& f) {
  for (int64_t p = 0; p < f.rest; ++p)
    for_lanes<T>(f.stride * f.lines,
                 [&]<class V>(int64_t q) HWY_ATTR { step_of<kRadix, V>(f, p, q); });
}

template <class T>
void pass(const FftPass<T>& f) {
#if !defined(HG_SMALL)
  if (f.radix == 3) return pass_of<3, T>(f);
#endif
  (f.radix == 4 ? pass_of<4, T> : f.radix == 2 ? pass_of<2, T> : pass_of<0, T>)(f);
}

// The spectra of the even and the odd numbers are (z_k + z*_{n-k}) / 2 and (z_k - z*_{n-k}) / 2i.
template <class T>
void halves(const FftHalves<T>& f) {
  for (int64_t k = 0; k <= f.n; ++k) {
    const int64_t at = (k < f.n ? k : 0) * f.lines, mirrored = (k > 0 ? f.n - k : 0) * f.lines;
    for_lanes<T>(f.lines, [&]<class V>(int64_t l) HWY_ATTR {
      using L = Lanes<V>;
      const V a = L::load(f.from.re + at + l), b = L::load(f.from.im + at + l);
      const V c = L::load(f.from.re + mirrored + l), d = L::load(f.from.im + mirrored + l);
      const Number<V> odd = product(Number<V>{add(b, d), sub(c, a)}, f.turns + 2 * k);
      const V half = L::of(T{0.5});
      L::store(mul(half, add(add(a, c), odd.re)), f.to.re + k * f.lines + l);
      L::store(mul(half, add(sub(b, d), odd.im)), f.to.im + k * f.lines + l);
    });
  }
}

// z_k = x_k + x*_{n-k} + i (x_k - x*_{n-k}) / turn_k. Exchanging its parts makes it i z*.
template <class T>
void join(const FftJoin<T>& f) {
  for (int64_t k = 0; k < f.n; ++k) {
    const int64_t at = k * f.lines, mirrored = (f.n - k) * f.lines;
    for_lanes<T>(f.lines, [&]<class V>(int64_t l) HWY_ATTR {
      using L = Lanes<V>;
      const V sign = L::of(f.sign), less = L::of(-f.sign);
      const V a = L::load(f.from.re + at + l), b = L::load(f.from.im + at + l);
      const V c = L::load(f.from.re + mirrored + l), d = L::load(f.from.im + mirrored + l);
      const Number<V> odd = product(Number<V>{sub(a, c), mul(less, add(b, d))}, f.turns + 2 * k);
      L::store(add(mul(sign, sub(b, d)), odd.re), f.to.re + at + l);
      L::store(add(add(a, c), odd.im), f.to.im + at + l);
    });
  }
}

template <class T>
void multiply(const FftProduct<T>& f) {
  for (int64_t k = 0; k < f.count; ++k)
    for_lanes<T>(f.lines, [&]<class V>(int64_t l) HWY_ATTR {
      using L = Lanes<V>;
      T *const re = f.numbers.re + k * f.lines + l, *const im = f.numbers.im + k * f.lines + l;
      const Number<V> x{L::load(re), mul(L::of(f.sign), L::load(im))};
      const Number<V> y = product(x, f.factors + 2 * k);
      L::store(y.re, re);
      L::store(y.im, im);
    });
}

// ---- Between lines in memory and lines side by side ----

void load_one(const FftCopy& f, int64_t i, int64_t l) {
  const float* const from = f.line[l] + 2 * i * f.stride;
  f.numbers.re[i * f.lines + l] = from[0];
  f.numbers.im[i * f.lines + l] = from[1];
}
void store_one(const FftCopy& f, int64_t i, int64_t l) {
  float* const to = f.line[l] + 2 * i * f.stride;
  to[0] = f.scale_re * f.numbers.re[i * f.lines + l];
  to[1] = f.scale_im * f.numbers.im[i * f.lines + l];
}

#if HWY_TARGET == HWY_SCALAR

template <void (*one)(const FftCopy& f, int64_t i, int64_t l)>
void copy(const FftCopy& f) {
  for (int64_t l = 0; l < f.lines; ++l)
    for (int64_t i = 0; i < f.count; ++i) one(f, i, l);
}
constexpr FftCopyTable kCopyTable = {copy<load_one>, copy<store_one>};

#else

// Numbers of four lines.
struct Four {
  Quad re, im;
  HWY_INLINE Four() {}  // an implicit constructor would not be compiled for the instruction set
  HWY_INLINE Four(Quad real, Quad imaginary) : re(real), im(imaginary) {}
};
HWY_INLINE Four four_at(const FftCopy& f, int64_t i, int64_t l) {
  const QuadTag d;
  const int64_t at = i * f.lines + l;
  return {hn::LoadU(d, f.numbers.re + at), hn::LoadU(d, f.numbers.im + at)};
}
HWY_INLINE void put_four(const FftCopy& f, int64_t i, int64_t l, Four x) {
  const QuadTag d;
  const int64_t at = i * f.lines + l;
  hn::StoreU(x.re, d, f.numbers.re + at);
  hn::StoreU(x.im, d, f.numbers.im + at);
}
HWY_INLINE Four loaded(const float* from) {
  Four x;
  hn::LoadInterleaved2(QuadTag(), from, x.re, x.im);
  return x;
}
HWY_INLINE Four scaled(const FftCopy& f, Four x) {
  const QuadTag d;
  return {hn::Mul(hn::Set(d, f.scale_re), x.re), hn::Mul(hn::Set(d, f.scale_im), x.im)};
}

// Exchanges the rows and columns of four vectors of four numbers.
HWY_INLINE void exchange(Quad& a, Quad& b, Quad& c, Quad& e) {
  const QuadTag d;
  const Quad even_low = hn::InterleaveLower(d, a, c), odd_low = hn::InterleaveLower(d, b, e);
  const Quad even_high = hn::InterleaveUpper(d, a, c), odd_high = hn::InterleaveUpper(d, b, e);
  a = hn::InterleaveLower(d, even_low, odd_low);
  b = hn::InterleaveUpper(d, even_low, odd_low);
  c = hn::InterleaveLower(d, even_high, odd_high);
  e = hn::InterleaveUpper(d, even_high, odd_high);
}
HWY_INLINE void exchange(Four (&x)[4]) {
  exchange(x[0].re, x[1].re, x[2].re, x[3].re);
  exchange(x[0].im, x[1].im, x[2].im, x[3].im);
}

// Four elements of four lines, which are contiguous.
void load_block(const FftCopy& f, int64_t i, int64_t l) {
  Four x[4];
  for (int64_t j = 0; j < 4; ++j) x[j] = loaded(f.line[l + j] + 2 * i);
  exchange(x);
  for (int64_t j = 0; j < 4; ++j) put_four(f, i + j, l, x[j]);
}
// The same; lines may also run backwards.
void store_block(const FftCopy& f, int64_t i, int64_t l) {
  const QuadTag d;
  Four x[4];
  for (int64_t j = 0; j < 4; ++j) x[j] = scaled(f, four_at(f, i + j, l));
  exchange(x);
  for (int64_t j = 0; j < 4; ++j)
    if (f.stride > 0)
      hn::StoreInterleaved2(x[j].re, x[j].im, d, f.line[l + j] + 2 * i);
    else
      hn::StoreInterleaved2(hn::Reverse(d, x[j].re), hn::Reverse(d, x[j].im), d,
                            f.line[l + j] - 2 * (i + 3));
}

// An element of four lines that are neighbors in memory.
void load_beside(const FftCopy& f, int64_t i, int64_t l) {
  put_four(f, i, l, loaded(f.line[l] + 2 * i * f.stride));
}
void store_beside(const FftCopy& f, int64_t i, int64_t l) {
  const Four x = scaled(f, four_at(f, i, l));
  hn::StoreInterleaved2(x.re, x.im, QuadTag(), f.line[l] + 2 * i * f.stride);
}

using CopyPart = void (*)(const FftCopy& f, int64_t i, int64_t l);
template <CopyPart one, CopyPart block, CopyPart beside>
void copy(const FftCopy& f) {
  for (int64_t l = 0; l < f.lines;) {
    const bool is_four = l + 4 <= f.lines;
    bool are_neighbors = is_four;
    for (int64_t j = 0; are_neighbors && j < 3; ++j)
      are_neighbors = f.line[l + j + 1] == f.line[l + j] + 2;
    int64_t i = 0;
    if (are_neighbors)
      for (; i < f.count; ++i) beside(f, i, l);
    else if (is_four && (f.stride == 1 || f.stride == -1))
      for (; i + 4 <= f.count; i += 4) block(f, i, l);
    const int64_t end = is_four ? l + 4 : l + 1;
    for (; i < f.count; ++i)
      for (int64_t j = l; j < end; ++j) one(f, i, j);
    l = end;
  }
}
constexpr FftCopyTable kCopyTable = {copy<load_one, load_block, load_beside>,
                                     copy<store_one, store_block, store_beside>};

#endif

constexpr FftTable<float> kFloatTable = {pass, halves, join};
constexpr FftTable<double> kDoubleTable = {pass, halves, join, multiply};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

template <>
const FftTable<float>& fft_table<float>() {
  return *HG_SIMD_CHOOSE(kFloatTable);
}
template <>
const FftTable<double>& fft_table<double>() {
  return *HG_SIMD_CHOOSE(kDoubleTable);
}
const FftCopyTable& fft_copy_table() { return *HG_SIMD_CHOOSE(kCopyTable); }

}  // namespace hg::kernels
#endif
