// SPDX-License-Identifier: Apache-2.0
// The inner loops of padded_rows.h.
#include <algorithm>

#include "kernels/conv/padded_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/padded_rows_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

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
      j = std::min<int64_t>(j, last - kLanes);  // the last vector again, shifted
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

void copy_rows(int64_t rows, int64_t columns, const float* from, int64_t from_row, float* to,
               int64_t to_row) {
  const D d;
  const int64_t whole = columns / kLanes * kLanes;
  const int rest = static_cast<int>(columns - whole);
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
    for (int64_t j = 0; j < whole; j += kLanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    if (rest > 0) hn::StoreU(load_part(d, from + whole, rest), d, to + whole);
  }
}

constexpr PaddedRowsTable kTable = {pad_row, clear, copy_rows};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const PaddedRowsTable& padded_rows_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
