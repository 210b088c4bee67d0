// SPDX-License-Identifier: Apache-2.0
// Functions of a byte, looked up in tables of 256 results. Included once for every instruction set,
// as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_LOOK_UP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_LOOK_UP_INL_H_
#undef HG_KERNELS_LOOK_UP_INL_H_
#else
#define HG_KERNELS_LOOK_UP_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3

// The table is in registers.
struct ByteTable {
  using Result = uint8_t;
  static constexpr int64_t kStep = 64;
  HWY_INLINE explicit ByteTable(const void* table) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      pairs[i] = _mm512_loadu_si512(static_cast<const char*>(table) + 64 * i);
  }
  // The pair of bytes that holds the result of each x, in lanes of 16 bits.
  HWY_INLINE __m512i pair_of(__m512i x) const {
    const __m512i at = _mm512_srli_epi16(x, 1);
    return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(x, _mm512_set1_epi16(128)),
                                   _mm512_permutex2var_epi16(pairs[0], at, pairs[1]),
                                   _mm512_permutex2var_epi16(pairs[2], at, pairs[3]));
  }
  HWY_INLINE void look_up(const uint8_t* x, uint64_t mask, uint8_t* y) const {
    const __m512i all = _mm512_maskz_loadu_epi8(mask, x), one = _mm512_set1_epi16(1),
                  even = _mm512_and_si512(all, _mm512_set1_epi16(255)),
                  odd = _mm512_srli_epi16(all, 8);
    const __m512i of_even = pair_of(even), of_odd = pair_of(odd);
    const __m512i low =
        _mm512_mask_srli_epi16(of_even, _mm512_test_epi16_mask(even, one), of_even, 8);
    const __m512i high =
        _mm512_mask_slli_epi16(of_odd, _mm512_testn_epi16_mask(odd, one), of_odd, 8);
    const __m512i results = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, low, high);
    if (mask == ~uint64_t{0})
      _mm512_storeu_si512(y, results);
    else
      _mm512_mask_storeu_epi8(y, mask, results);
  }
  __m512i pairs[4];
};
struct WordTable {
  using Result = uint32_t;
  static constexpr int64_t kStep = 16;
  HWY_INLINE explicit WordTable(const void* table) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      words[i] = _mm512_loadu_si512(static_cast<const char*>(table) + 64 * i);
  }
  HWY_INLINE void look_up(const uint8_t* x, uint64_t mask, uint32_t* y) const {
    const auto valid = static_cast<__mmask16>(mask);
    const __m512i at = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(valid, x));
    __m512i found[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      found[i] = _mm512_permutex2var_epi32(words[2 * i], at, words[2 * i + 1]);
#pragma GCC unroll 3
    for (int bit = 5, count = 4; bit < 8; ++bit, count /= 2) {
      const __mmask16 is_second = _mm512_test_epi32_mask(at, _mm512_set1_epi32(1 << bit));
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i)
        found[i] = _mm512_mask_blend_epi32(is_second, found[2 * i], found[2 * i + 1]);
    }
    if (valid == 0xffff)
      _mm512_storeu_si512(y, found[0]);
    else
      _mm512_mask_storeu_epi32(y, valid, found[0]);
  }
  __m512i words[16];
};
template <class Table>
void look_up(const void* table, const uint8_t* x, int64_t n, void* y) {
  const Table t(table);
  auto* const to = static_cast<typename Table::Result*>(y);
  int64_t i = 0;
  for (; i + Table::kStep <= n; i += Table::kStep) t.look_up(x + i, ~uint64_t{0}, to + i);
  if (i < n) t.look_up(x + i, (uint64_t{1} << (n - i)) - 1, to + i);
}

#else

struct ByteTable {
  using Result = uint8_t;
};
struct WordTable {
  using Result = uint32_t;
};
template <class Table>
void look_up(const void* table, const uint8_t* x, int64_t n, void* y) {
  using T = typename Table::Result;
  const T* const results = static_cast<const T*>(table);
  T* const to = static_cast<T*>(y);
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i) to[i] = results[x[i]];
}

#endif

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
