// SPDX-License-Identifier: Apache-2.0
// The inner loop of conv_depthwise.h.
#include <algorithm>
#include <limits>

#include "kernels/conv/conv_depthwise.h"
#include "kernels/saves_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/conv_depthwise_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// The fields that finish sums, copied from the plane: the compiler assumes that stores to y could
// change the originals.
struct Finish {
  explicit Finish(const DepthwisePlane& p)
      : residual(p.residual),
        y(p.y),
        end(p.rows * p.columns),
        columns(p.columns),
        clamps(p.activation == Activation::relu || p.activation == Activation::relu6),
        high(p.activation == Activation::relu6 ? 6.0f : std::numeric_limits<float>::infinity()) {}

  const float* residual;
  float* y;
  int64_t end, columns;
  bool clamps;
  float high;
};

HWY_INLINE V clamped(const Finish& f, V sum) {
  if (!f.clamps) return sum;
  const D d;
  const V high = hn::Set(d, f.high);
  sum = hn::IfThenElse(hn::Lt(sum, hn::Zero(d)), hn::Zero(d), sum);  // NaN stays NaN
  return hn::IfThenElse(hn::Gt(sum, high), high, sum);
}

// For the end of y. A separate function, which makes programs smaller.
HWY_NOINLINE void store_last_sums(const Finish& f, int64_t at, V sum) {
  const D d;
  const int valid = static_cast<int>(std::min<int64_t>(f.columns, kLanes));
  if (f.residual != nullptr) sum = hn::Add(sum, load_part(d, f.residual + at, valid));
  store_part(d, clamped(f, sum), valid, f.y + at);
}

// The last vector of a row starts early, so that it is whole. Rows shorter than a vector overwrite
// the start of the next row, which is computed later. The last row stops at its end.
HWY_INLINE void store_sums(const Finish& f, int64_t row, int64_t column, V sum) {
  const D d;
  const int64_t at = row * f.columns + column;
  if (kLanes > 1 && at + kLanes > f.end) return store_last_sums(f, at, sum);
  if (f.residual != nullptr) sum = hn::Add(sum, hn::LoadU(d, f.residual + at));
  hn::StoreU(clamped(f, sum), d, f.y + at);
}

HWY_INLINE void load_pairs(const float* from, V& even, V& odd) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  even = hn::LoadU(d, from);
  odd = hn::LoadU(d, from + 1);
#else
  hn::LoadInterleaved2(d, from, even, odd);
#endif
}

// kRows rows of y at a time: reads a row of x that several of them need once.
template <int kKernel, int kStride, int kRows>
HWY_INLINE void square_rows(const DepthwisePlane& p, const V* weight, int64_t row) {
  const D d;
  const Finish finish(p);
  const float* x = p.x + row * kStride * p.x_row;
  const int64_t last = std::max<int64_t>(0, p.columns - kLanes);
  for (int64_t j = 0; j < p.columns; j += kLanes) {
    j = p.columns < kLanes ? 0 : std::min(j, last);
    V sums[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sums[r] = hn::Set(d, p.bias);
#pragma GCC unroll 16
    for (int i = 0; i < (kRows - 1) * kStride + kKernel; ++i) {
      V values[kKernel + 1];  // read by the kernel's columns
      if constexpr (kStride == 1) {
#pragma GCC unroll 5
        for (int kx = 0; kx < kKernel; ++kx)
          values[kx] = hn::LoadU(d, x + i * p.x_row + j + p.offset[kx]);
      } else {
#pragma GCC unroll 5
        for (int kx = 0; kx < kKernel; kx += 2)
          load_pairs(x + i * p.x_row + 2 * j + kx, values[kx], values[kx + 1]);
      }
#pragma GCC unroll 5
      for (int kx = 0; kx < kKernel; ++kx) {
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const int ky = i - r * kStride;
          if (ky >= 0 && ky < kKernel)
            sums[r] = hn::MulAdd(weight[ky * kKernel + kx], values[kx], sums[r]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) store_sums(finish, row + r, j, sums[r]);
  }
}

template <int kKernel, int kStride>
void square(const DepthwisePlane& p) {
  const D d;
  V weight[kKernel * kKernel];
  for (int t = 0; t < kKernel * kKernel; ++t) weight[t] = hn::Set(d, p.weight[t]);
  int64_t row = 0;
  for (; row + 4 <= p.rows; row += 4) square_rows<kKernel, kStride, 4>(p, weight, row);
  if constexpr (!kSavesCode) {
    if (p.rows - row == 3) return square_rows<kKernel, kStride, 3>(p, weight, row);
    if (p.rows - row == 2) return square_rows<kKernel, kStride, 2>(p, weight, row);
  }
  for (; row < p.rows; ++row) square_rows<kKernel, kStride, 1>(p, weight, row);
}

// kVectors vectors of kRows rows of y at a time, whose sums are independent.
template <int kRows, int kVectors>
HWY_INLINE void any_part(const DepthwisePlane& p, int64_t row, int64_t j) {
  const D d;
  const Finish finish(p);
  const int64_t step = p.row_stride * p.x_row, x_step = kLanes == 1 && p.steps_by_two ? 2 : 1;
  V sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Set(d, p.bias);
  const float* weight = p.weight;
  const float* x = p.x + row * step + j * x_step;
  for (int64_t ky = 0; ky < p.kernel_y; ++ky, x += p.row_dilation * p.x_row)
    for (int64_t kx = 0; kx < p.kernel_x; ++kx) {
      const V factor = hn::Set(d, *weight++);
      const float* const from = x + p.offset[kx];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v)
          sums[r][v] =
              hn::MulAdd(factor, hn::LoadU(d, from + r * step + v * kLanes * x_step), sums[r][v]);
    }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store_sums(finish, row + r, j + v * kLanes, sums[r][v]);
}

template <int kRows>
HWY_INLINE void any_rows(const DepthwisePlane& p, int64_t row) {
  constexpr int kVectors = 8 / kRows;
  int64_t j = 0;
  if (kVectors > 1)
    for (; j + kVectors * kLanes <= p.columns; j += kVectors * kLanes)
      any_part<kRows, kVectors>(p, row, j);
  const int64_t last = std::max<int64_t>(0, p.columns - kLanes);
  for (; j < p.columns; j += kLanes) {
    j = p.columns < kLanes ? 0 : std::min(j, last);
    any_part<kRows, 1>(p, row, j);
  }
}

void any_shape(const DepthwisePlane& p) {
  int64_t row = 0;
  if constexpr (!kSavesCode)
    for (; row + 8 <= p.rows; row += 8) any_rows<8>(p, row);
  for (; row + 4 <= p.rows; row += 4) any_rows<4>(p, row);
  if constexpr (!kSavesCode)
    for (; row + 2 <= p.rows; row += 2) any_rows<2>(p, row);
  for (; row < p.rows; ++row) any_rows<1>(p, row);
}

void plane(const DepthwisePlane& p) {
  if (p.kernel_y == p.kernel_x && p.row_dilation == 1) {
#if HWY_TARGET != HWY_SCALAR  // scalar code reads no row at once, and has few registers
    if (p.kernel_x == 3 && p.row_stride == 1) return square<3, 1>(p);
    if (p.kernel_x == 5 && p.row_stride == 1) return square<5, 1>(p);
    if (p.kernel_x == 5 && p.steps_by_two) return square<5, 2>(p);
#endif
    if (p.kernel_x == 3 && p.steps_by_two) return square<3, 2>(p);
  }
  any_shape(p);
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

DepthwiseLoop depthwise_loop() { return HG_SIMD_CHOOSE(plane); }

}  // namespace hg::kernels
#endif
