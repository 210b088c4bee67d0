// SPDX-License-Identifier: Apache-2.0
#include "kernels/program/byte_sums.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/program/byte_sums.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/pointwise/vectors-inl.h"
// clang-format on

#if HWY_TARGET == HWY_AVX3 && !defined(HG_SMALL)

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

constexpr int kStep = 4 * kLanes;

// The quotient of 16 sums as a_factor a + b_factor b + start: rounded fewer times than the sums
// that it replaces, which decides some halves otherwise.
struct Combined {
  V a_factor, b_factor, start;

  HWY_INLINE explicit Combined(const float (&number)[8]) {
    const double divisor = number[6], a = number[2] / divisor, b = number[5] / divisor;
    a_factor = hn::Set(D(), static_cast<float>(a));
    b_factor = hn::Set(D(), static_cast<float>(b));
    start = hn::Set(D(), static_cast<float>(-a * number[1] - b * number[4]));
  }
  HWY_INLINE V of(V a, V b) const {
    return hn::MulAdd(a, a_factor, hn::MulAdd(b, b_factor, start));
  }
};

// The quotient with the roundings of the sums. A product with the reciprocal is corrected by its
// error (Markstein, Computation of elementary functions on the IBM RISC System/6000 processor,
// IBM Journal of Research and Development 34, 1990).
struct InOrder {
  V a_zero, a_scale, b_zero, b_scale, scale, reciprocal, one;

  HWY_INLINE explicit InOrder(const float (&number)[8]) {
    a_zero = hn::Set(D(), number[1]);
    a_scale = hn::Set(D(), number[2]);
    b_zero = hn::Set(D(), number[4]);
    b_scale = hn::Set(D(), number[5]);
    scale = hn::Set(D(), number[6]);
    reciprocal = hn::Set(D(), 1 / number[6]);
    one = hn::Set(D(), 1.0f);
  }
  HWY_INLINE V of(V a, V b) const {
    // The compiler would round a product and a sum of it at once; it leaves those of MulAdd.
    const V sum =
        hn::MulAdd(hn::Mul(hn::Sub(a, a_zero), a_scale), one, hn::Mul(hn::Sub(b, b_zero), b_scale));
    const V near = hn::Mul(sum, reciprocal);
    return hn::MulAdd(hn::NegMulAdd(near, scale, sum), reciprocal, near);
  }
};

// 64 bytes at a time.
template <class A, class B, bool kSigned, class Quotient>
struct QuickSum {
  Quotient quotient;
  __m512i zero, order;

  HWY_INLINE explicit QuickSum(const float (&number)[8]) : quotient(number) {
    zero = _mm512_set1_epi16(static_cast<int16_t>(number[7]));
    // Packing leaves the four bytes of lane i of vector v at 4 i + v, in words of 32 bits.
    alignas(64) int32_t words[kLanes];
    for (int i = 0; i < kLanes; ++i) words[i] = i % 4 * 4 + i / 4;
    order = _mm512_load_si512(words);
  }

  HWY_INLINE __m512i rounded(const A* a, const B* b) const {
    return _mm512_cvtps_epi32(quotient.of(floats_of(a, kLanes), floats_of(b, kLanes)).raw);
  }
  HWY_INLINE __m512i of(const A* a, const B* b) const {
    const auto pair = [&](int at) HWY_ATTR {
      const __m512i both =
          _mm512_packs_epi32(rounded(a + at, b + at), rounded(a + at + kLanes, b + at + kLanes));
      return _mm512_adds_epi16(both, zero);
    };
    const __m512i low = pair(0), high = pair(2 * kLanes);
    return _mm512_permutexvar_epi32(
        order, kSigned ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high));
  }
};

template <class A, class B, bool kSigned, class Quotient>
void quick_sum(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  float number[8] = {};
  for (const int k : {1, 2, 4, 5, 6, 7}) number[k] = *static_cast<const float*>(x[k]);
  const QuickSum<A, B, kSigned, Quotient> sum(number);
  const A* a = static_cast<const A*>(x[0]);
  const B* b = static_cast<const B*>(x[3]);
  auto* to = static_cast<uint8_t*>(y);
  for (; n >= kStep; n -= kStep, a += kStep, b += kStep, to += kStep)
    _mm512_storeu_si512(to, sum.of(a, b));
  if (n == 0) return;
  A rest_of_a[kStep] = {};
  B rest_of_b[kStep] = {};
  std::memcpy(rest_of_a, a, static_cast<size_t>(n));
  std::memcpy(rest_of_b, b, static_cast<size_t>(n));
  uint8_t rest[kStep];
  _mm512_storeu_si512(rest, sum.of(rest_of_a, rest_of_b));
  std::memcpy(to, rest, static_cast<size_t>(n));
}

}  // namespace

template <bool kSigned, class Quotient>
constexpr Block kOfTypes[4] = {
    quick_sum<uint8_t, uint8_t, kSigned, Quotient>, quick_sum<uint8_t, int8_t, kSigned, Quotient>,
    quick_sum<int8_t, uint8_t, kSigned, Quotient>, quick_sum<int8_t, int8_t, kSigned, Quotient>};
constexpr const Block* kQuickSums[2][2] = {{kOfTypes<false, Combined>, kOfTypes<true, Combined>},
                                           {kOfTypes<false, InOrder>, kOfTypes<true, InOrder>}};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE
namespace hg::kernels {

std::span<const Block> quick_byte_sums([[maybe_unused]] bool is_signed_a,
                                       [[maybe_unused]] bool is_signed_b,
                                       [[maybe_unused]] bool is_signed_y,
                                       [[maybe_unused]] Block (&to)[2]) {
#if (HWY_TARGETS & HWY_AVX3) && !defined(HG_SMALL)
  if (chosen_isa() >= Isa::avx512) {
    for (int i = 0; i < 2; ++i)
      to[i] = N_AVX3::kQuickSums[i][is_signed_y][2 * is_signed_a + is_signed_b];
    return to;
  }
#endif
  return {};
}

bool agree_on_bytes(Block one, Block other, const void* const* x, const PointwiseParams& params) {
  constexpr int kBytes = 256, kOperands = 8;
  uint8_t a[kBytes], b[kBytes], results[2][kBytes];
  const void* operands[kOperands];
  std::copy_n(x, kOperands, operands);
  operands[0] = a;
  operands[3] = b;
  for (int i = 0; i < kBytes; ++i) b[i] = static_cast<uint8_t>(i);
  for (int i = 0; i < kBytes; ++i) {
    std::memset(a, i, kBytes);
    one(results[0], operands, kBytes, params);
    other(results[1], operands, kBytes, params);
    if (std::memcmp(results[0], results[1], kBytes) != 0) return false;
  }
  return true;
}

}  // namespace hg::kernels
#endif
