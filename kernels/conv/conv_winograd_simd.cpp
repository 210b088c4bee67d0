// SPDX-License-Identifier: Apache-2.0
// The transforms of conv_winograd.h, a vector of consecutive tiles at a time.

#include "kernels/conv/conv_winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/conv_winograd_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

void largest(const float* HWY_RESTRICT x, int64_t count, uint32_t* HWY_RESTRICT to) {
  const hn::RebindToSigned<D> d;  // ordered like the bits without their sign
  int32_t* const at = reinterpret_cast<int32_t*>(to);
#pragma GCC unroll 4
  for (int64_t j = 0; j < count; j += kLanes) {
    const auto bits = hn::BitCast(d, hn::Abs(hn::LoadU(D(), x + j)));
    hn::StoreU(hn::Max(hn::LoadU(d, at + j), bits), d, at + j);
  }
}

void pad_row(const float* from, int64_t left, int64_t count, int64_t width, float* to,
             uint32_t* largest_to) {
  if (from == nullptr) return clear_row(width, to);
  clear_row(left, to);
  copy_row(from, count, to + left);
  clear_row(width - left - count, to + left + count);
  largest(to, width, largest_to);
}

// to[j step + tile] = row[m tile + j] for kLanes tiles and the columns [0, m), or the other way.
template <int kM>
HWY_INLINE void load_columns(D d, const float* from, V (&x)[kM]) {
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < kM; ++j) x[j] = hn::LoadU(d, from + j);
#else
  if constexpr (kM == 2)
    hn::LoadInterleaved2(d, from, x[0], x[1]);
  else
    hn::LoadInterleaved4(d, from, x[0], x[1], x[2], x[3]);
#endif
}
template <int kM>
HWY_INLINE void store_columns(D d, const V (&x)[kM], float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < kM; ++j) hn::StoreU(x[j], d, to + j);
#else
  if constexpr (kM == 2)
    hn::StoreInterleaved2(x[0], x[1], d, to);
  else
    hn::StoreInterleaved4(x[0], x[1], x[2], x[3], d, to);
#endif
}

template <int kM>
void split(const float* row, int64_t tiles_x, float* to, int64_t plane_step) {
  const D d;
  for (int64_t t = 0; t < tiles_x; t += kLanes) {
    V x[kM], next[kM];
    load_columns<kM>(d, row + kM * t, x);
    load_columns<kM>(d, row + kM * t + kM, next);
#pragma GCC unroll 4
    for (int j = 0; j < kM; ++j) hn::StoreU(x[j], d, to + j * plane_step + t);
    hn::StoreU(next[0], d, to + kM * plane_step + t);
    hn::StoreU(next[1], d, to + (kM + 1) * plane_step + t);
  }
}

// B^T x. For m = 2: [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]. For m = 4 and the points a, b with
// a^2 = 1/2, b^2 = 2: [1 0 -5/2 0 1 0; 0 -+a b^2 -b^2 +-a 1 0; 0 -+b a^2 -a^2 +-b 1 0;
// 0 1 0 -5/2 0 1].
HWY_INLINE void input_line(D, const V (&x)[4], V (&y)[4]) {
  y[0] = hn::Sub(x[0], x[2]);
  y[1] = hn::Add(x[1], x[2]);
  y[2] = hn::Sub(x[2], x[1]);
  y[3] = hn::Sub(x[1], x[3]);
}
HWY_INLINE void input_line(D d, const V (&x)[6], V (&y)[6]) {
  const V a = hn::Set(d, 0.70710678118654752f), b = hn::Set(d, 1.41421356237309505f);
  const V half = hn::Set(d, 0.5f), two = hn::Set(d, 2.0f), five_halves = hn::Set(d, 2.5f);
  y[0] = hn::NegMulAdd(five_halves, x[2], hn::Add(x[0], x[4]));
  const V even_a = hn::NegMulAdd(two, x[2], x[4]);
  const V odd_a = hn::NegMulAdd(b, x[1], hn::Mul(a, x[3]));
  y[1] = hn::Add(even_a, odd_a);
  y[2] = hn::Sub(even_a, odd_a);
  const V even_b = hn::NegMulAdd(half, x[2], x[4]);
  const V odd_b = hn::NegMulAdd(a, x[1], hn::Mul(b, x[3]));
  y[3] = hn::Add(even_b, odd_b);
  y[4] = hn::Sub(even_b, odd_b);
  y[5] = hn::NegMulAdd(five_halves, x[3], hn::Add(x[1], x[5]));
}

// A^T x. For m = 2: [1 1 1 0; 0 1 -1 -1]. For m = 4: row i holds the points to the power of i.
HWY_INLINE void output_line(D, const V (&x)[4], V (&y)[2]) {
  y[0] = hn::Add(hn::Add(x[0], x[1]), x[2]);
  y[1] = hn::Sub(hn::Sub(x[1], x[2]), x[3]);
}
HWY_INLINE void output_line(D d, const V (&x)[6], V (&y)[4]) {
  const V a = hn::Set(d, 0.70710678118654752f), b = hn::Set(d, 1.41421356237309505f);
  const V a3 = hn::Set(d, 0.35355339059327376f), b3 = hn::Set(d, 2.8284271247461901f);
  const V half = hn::Set(d, 0.5f), two = hn::Set(d, 2.0f);
  const V sum_a = hn::Add(x[1], x[2]), difference_a = hn::Sub(x[1], x[2]);
  const V sum_b = hn::Add(x[3], x[4]), difference_b = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(hn::Add(x[0], sum_a), sum_b);
  y[1] = hn::MulAdd(a, difference_a, hn::Mul(b, difference_b));
  y[2] = hn::MulAdd(half, sum_a, hn::Mul(two, sum_b));
  y[3] = hn::MulAdd(a3, difference_a, hn::MulAdd(b3, difference_b, x[5]));
}

template <int kM>
void input(int64_t tiles, int64_t tiles_x, const float* planes, int64_t plane_step, float* to,
           int64_t e_step, int64_t panel_step) {
  constexpr int kSide = kM + 2;
  const D d;
  for (int64_t t = 0; t < tiles; t += kLanes) {
    V lines[kSide][kSide];  // B^T d, transposed
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) {
      V x[kSide];
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i)
        x[i] =
            hn::LoadU(d, planes + (i % kM * kSide + j) * plane_step + (i >= kM ? tiles_x : 0) + t);
      input_line(d, x, lines[j]);
    }
    float* panel = to + t / (2 * kLanes) * panel_step + t % (2 * kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) {
      V x[kSide], y[kSide];
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) x[j] = lines[j][i];
      input_line(d, x, y);
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) hn::StoreU(y[j], d, panel + (i * kSide + j) * e_step);
    }
  }
}

template <int kM>
void output(int64_t tiles_y, int64_t tiles_x, const float* products, int64_t product_step,
            float* planes, int64_t plane_step, float* y, int64_t y_step, int64_t height,
            int64_t width) {
  constexpr int kSide = kM + 2;
  const D d;
  for (int64_t t = 0; t < tiles_y * tiles_x; t += kLanes) {
    V lines[kSide][kM];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) {
      V x[kSide];
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i)
        x[i] = hn::LoadU(d, products + (i * kSide + j) * product_step + t);
      output_line(d, x, lines[j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kM; ++i) {
      V x[kSide], sums[kM];
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) x[j] = lines[j][i];
      output_line(d, x, sums);
#pragma GCC unroll 4
      for (int j = 0; j < kM; ++j) hn::StoreU(sums[j], d, planes + (i * kM + j) * plane_step + t);
    }
  }
  float* row = planes + kM * kM * plane_step;
  for (int64_t line = 0; line < height; ++line, y += y_step) {
    const float* from = planes + line % kM * kM * plane_step + line / kM * tiles_x;
    for (int64_t t = 0; t < tiles_x; t += kLanes) {
      V x[kM];
#pragma GCC unroll 4
      for (int j = 0; j < kM; ++j) x[j] = hn::LoadU(d, from + j * plane_step + t);
      store_columns<kM>(d, x, row + kM * t);
    }
    copy_row(row, width, y);
  }
}

template <int kM>
constexpr WinogradTable kTable = {largest, pad_row, split<kM>, input<kM>, output<kM>};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const WinogradTable& winograd_table(int m) {
  return m == 2 ? *HG_SIMD_CHOOSE(kTable<2>) : *HG_SIMD_CHOOSE(kTable<4>);
}

}  // namespace hg::kernels
#endif
