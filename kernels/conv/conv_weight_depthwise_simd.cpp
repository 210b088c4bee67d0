// SPDX-License-Identifier: Apache-2.0
// The inner loop of conv_weight_depthwise.h.
#include <algorithm>

#include "kernels/conv/conv_weight_depthwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/conv_weight_depthwise_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// kKernel elements of one row of the kernel, from kx on: reads dy once for all of them.
template <int kKernel>
HWY_INLINE void grad_row(const DepthwiseGrad& p, int64_t ky, int64_t kx) {
  const D d;
  const int64_t whole = p.columns / kLanes * kLanes;
  const int rest = static_cast<int>(p.columns - whole);
  const auto inside = hn::FirstN(d, static_cast<size_t>(rest));
  V sums[kKernel];
#pragma GCC unroll 5
  for (int k = 0; k < kKernel; ++k) sums[k] = hn::Zero(d);
  for (int64_t row = 0; row < p.rows; ++row) {
    const float* x = p.x + (row * p.row_stride + ky * p.row_dilation) * p.x_row;
    const float* dy = p.dy + row * p.columns;
    for (int64_t j = 0; j < whole; j += kLanes) {
      const V g = hn::LoadU(d, dy + j);
#pragma GCC unroll 5
      for (int k = 0; k < kKernel; ++k)
        sums[k] = hn::MulAdd(g, hn::LoadU(d, x + j + p.offset[kx + k]), sums[k]);
    }
    if (rest == 0) continue;
    const V g = load_part(d, dy + whole, rest);
#pragma GCC unroll 5
    for (int k = 0; k < kKernel; ++k) {
      const V met = hn::IfThenElseZero(inside, hn::LoadU(d, x + whole + p.offset[kx + k]));
      sums[k] = hn::MulAdd(g, met, sums[k]);
    }
  }
#pragma GCC unroll 5
  for (int k = 0; k < kKernel; ++k)
    p.sums[ky * p.kernel_x + kx + k] +=
        static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums[k])));
}

void grad_rows(const DepthwiseGrad& p) {
  for (int64_t ky = 0; ky < p.kernel_y; ++ky) {
    int64_t kx = 0;
    for (; p.kernel_x - kx == 5; kx += 5) grad_row<5>(p, ky, kx);
    for (; p.kernel_x - kx >= 3; kx += 3) grad_row<3>(p, ky, kx);
    for (; kx < p.kernel_x; ++kx) grad_row<1>(p, ky, kx);
  }
}

void grad(const DepthwiseGrad& all) {
  constexpr int64_t kTerms = 128;  // that one lane adds up: more would lose too much precision
  DepthwiseGrad p = all;
  const int64_t most = std::max<int64_t>(1, kTerms * kLanes / all.columns);
  for (int64_t row = 0; row < all.rows; row += most) {
    p.rows = std::min(most, all.rows - row);
    p.x = all.x + row * all.row_stride * all.x_row;
    p.dy = all.dy + row * all.columns;
    grad_rows(p);
  }
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

DepthwiseGradLoop depthwise_grad_loop() { return HG_SIMD_CHOOSE(grad); }

}  // namespace hg::kernels
#endif
