// SPDX-License-Identifier: Apache-2.0
// The transforms of conv_winograd.h, a vector of neighbouring tiles at a time.
#include <algorithm>

#include "kernels/conv_winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_winograd_simd.cpp"
// clang-format off
#include "kernels/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/conv_rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// Even and odd elements of 2 kLanes floats.
HWY_INLINE void load_pairs(D d, const float* from, V& even, V& odd) {
#if HWY_TARGET == HWY_SCALAR
  even = hn::LoadU(d, from);
  odd = hn::LoadU(d, from + 1);
#else
  hn::LoadInterleaved2(d, from, even, odd);
#endif
}
HWY_INLINE void store_pairs(D d, V even, V odd, float* to) {
#if HWY_TARGET == HWY_SCALAR
  hn::StoreU(even, d, to);
  hn::StoreU(odd, d, to + 1);
#else
  hn::StoreInterleaved2(even, odd, d, to);
#endif
}

void pad_row(const float* from, int64_t left, int64_t count, int64_t width, float* to) {
  if (from == nullptr) return clear_row(width, to);
  clear_row(left, to);
  copy_row(from, count, to + left);
  clear_row(width - left - count, to + left + count);
}

// B^T = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]
void input(int64_t tiles_y, int64_t tiles_x, const float* x, int64_t x_row, float* v,
           int64_t v_step) {
  const D d;
  for (int64_t ty = 0; ty < tiles_y; ++ty)
    for (int64_t tx = 0; tx < tiles_x; tx += kLanes) {
      const float* from = x + 2 * ty * x_row + 2 * tx;
      float* to = v + ty * tiles_x + tx;
      V a[4][4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        load_pairs(d, from + i * x_row, a[i][0], a[i][1]);
        load_pairs(d, from + i * x_row + 2, a[i][2], a[i][3]);
      }
      V b[4][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        b[0][j] = hn::Sub(a[0][j], a[2][j]);
        b[1][j] = hn::Add(a[1][j], a[2][j]);
        b[2][j] = hn::Sub(a[2][j], a[1][j]);
        b[3][j] = hn::Sub(a[1][j], a[3][j]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        hn::StoreU(hn::Sub(b[i][0], b[i][2]), d, to + (4 * i + 0) * v_step);
        hn::StoreU(hn::Add(b[i][1], b[i][2]), d, to + (4 * i + 1) * v_step);
        hn::StoreU(hn::Sub(b[i][2], b[i][1]), d, to + (4 * i + 2) * v_step);
        hn::StoreU(hn::Sub(b[i][1], b[i][3]), d, to + (4 * i + 3) * v_step);
      }
    }
}

// A^T = [1 1 1 0; 0 1 -1 -1]
void output(int64_t tiles_y, int64_t tiles_x, const float* m, int64_t m_step, float* y,
            int64_t height, int64_t width, float* rows) {
  const D d;
  float* second = rows + 2 * (tiles_x + kWinogradSlack);
  for (int64_t ty = 0; ty < tiles_y; ++ty) {
    for (int64_t tx = 0; tx < tiles_x; tx += kLanes) {
      const float* from = m + ty * tiles_x + tx;
      V b[2][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const V m0 = hn::LoadU(d, from + j * m_step), m1 = hn::LoadU(d, from + (4 + j) * m_step);
        const V m2 = hn::LoadU(d, from + (8 + j) * m_step);
        const V m3 = hn::LoadU(d, from + (12 + j) * m_step);
        b[0][j] = hn::Add(hn::Add(m0, m1), m2);
        b[1][j] = hn::Sub(hn::Sub(m1, m2), m3);
      }
      store_pairs(d, hn::Add(hn::Add(b[0][0], b[0][1]), b[0][2]),
                  hn::Sub(hn::Sub(b[0][1], b[0][2]), b[0][3]), rows + 2 * tx);
      store_pairs(d, hn::Add(hn::Add(b[1][0], b[1][1]), b[1][2]),
                  hn::Sub(hn::Sub(b[1][1], b[1][2]), b[1][3]), second + 2 * tx);
    }
    copy_row(rows, width, y + 2 * ty * width);
    if (2 * ty + 1 < height) copy_row(second, width, y + (2 * ty + 1) * width);
  }
}

constexpr WinogradTable kTable = {pad_row, input, output};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const WinogradTable& winograd_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
