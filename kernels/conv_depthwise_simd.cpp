// SPDX-License-Identifier: Apache-2.0
// The inner loop of conv_depthwise.h: four vectors of y at a time, from one row or several, so that
// narrow planes keep the processor as busy as wide ones.
#include <algorithm>

#include "kernels/conv_depthwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_depthwise_simd.cpp"
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
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

void clear(int64_t count, float* to) { clear_row(count, to); }

void pad_row(const float* from, int64_t count, int64_t padding, int64_t stride, int64_t remainders,
             int64_t width, float* to) {
  if (stride == 1) {
    const int64_t low = std::min(padding, width);
    const int64_t high = std::clamp(padding + count, low, width);
    clear_row(low, to);
    copy_row(from, high - low, to + low);
    clear_row(width - high, to + high);
    return;
  }
  // Columns [first, last) of the remainders 0 and 1 are whole in x.
  int64_t first = 0, last = 0;
#if HWY_TARGET != HWY_SCALAR
  if (stride == 2) {
    first = std::min((padding + 1) / 2, width);
    last = std::clamp((count + padding) / 2, first, width);
    if (last - first < kLanes) last = first;
    const D d;
    for (int64_t j = first; j < last; j += kLanes) {
      j = std::min(j, last - kLanes);  // the last vector again, shifted
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, from + 2 * j - padding, even, odd);
      hn::StoreU(even, d, to + j);
      if (remainders > 1) hn::StoreU(odd, d, to + width + j);
    }
  }
#endif
  const auto edge = [&](int64_t remainder, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const int64_t at = j * stride + remainder - padding;
      to[j] = at >= 0 && at < count ? from[at] : 0;
    }
  };
  for (int64_t remainder = 0; remainder < remainders; ++remainder, to += width) {
    edge(remainder, 0, first);
    edge(remainder, last, width);
  }
}

template <int kSites>
HWY_INLINE void sites(int64_t taps, const float* const* from, const float* HWY_RESTRICT weight,
                      const int64_t* HWY_RESTRICT offset, float bias, float* const* to,
                      const int64_t* valid) {
  const D d;
  hn::Vec<D> sums[kSites];
#pragma GCC unroll 4
  for (int i = 0; i < kSites; ++i) sums[i] = hn::Set(d, bias);
  for (int64_t t = 0; t < taps; ++t) {
    const auto w = hn::Set(d, weight[t]);
    const int64_t o = offset[t];
#pragma GCC unroll 4
    for (int i = 0; i < kSites; ++i) sums[i] = hn::MulAdd(w, hn::LoadU(d, from[i] + o), sums[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kSites; ++i) {
    if (valid[i] >= kLanes) {
      hn::StoreU(sums[i], d, to[i]);
    } else {
      HWY_ALIGN float edge[static_cast<size_t>(kLanes)];
      hn::Store(sums[i], d, edge);
      for (int64_t j = 0; j < valid[i]; ++j) to[i][j] = edge[j];
    }
  }
}

void plane(int64_t rows, int64_t columns, int64_t taps, const float* x, int64_t row_step,
           const float* weight, const int64_t* offset, float bias, float* y) {
  const float* from[4] = {};
  float* to[4] = {};
  int64_t valid[4] = {};
  int count = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += kLanes) {
      from[count] = x + i * row_step + j;
      to[count] = y + i * columns + j;
      valid[count] = std::min(kLanes, columns - j);
      if (++count < 4) continue;
      sites<4>(taps, from, weight, offset, bias, to, valid);
      count = 0;
    }
  for (int i = 0; i < count; ++i) sites<1>(taps, from + i, weight, offset, bias, to + i, valid + i);
}

constexpr DepthwiseTable kTable = {pad_row, clear, plane};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const DepthwiseTable& depthwise_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
