// SPDX-License-Identifier: Apache-2.0
// The loops of half_simd.h.
#include "kernels/simd/half_simd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/half_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/halves-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// Calls step(from, to) for each vector of the numbers. The last one begins earlier, as numbers that
// are converted again in place stay the same, or is copied if all are fewer than a vector.
template <class From, class To, class Step>
HWY_INLINE void by_vectors(int64_t count, const From* from, To* to, const Step& step) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) step(from + i, to + i);
  if (i == count) return;
  if (i > 0) return step(from + count - kLanes, to + count - kLanes);
  From part[kLanes] = {};
  To converted[kLanes];
  std::copy_n(from, count, part);
  step(part, converted);
  std::copy_n(converted, count, to);
}

template <class T>
void widen(int64_t count, const T* from, float* to) {
  by_vectors(count, from, to, [](const T* x, float* y) HWY_ATTR {
    const D d;
    hn::StoreU(load_floats(d, x), d, y);
  });
}

// to = T(Half(from)). store(halves, at) writes a vector of them.
template <class T, class Store>
HWY_INLINE void through_f16(int64_t count, const float* from, T* to,
                            [[maybe_unused]] const Store& store) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const D d;
  const hn::Rebind<hwy::float16_t, D> narrow;
#if !defined(HG_SMALL)
  constexpr int64_t kTogether = 4 * kLanes;
  while (count >= kTogether) {  // one test for NaN
    const V a = hn::LoadU(d, from), b = hn::LoadU(d, from + kLanes),
            e = hn::LoadU(d, from + 2 * kLanes), f = hn::LoadU(d, from + 3 * kLanes);
    const auto is_nan =
        hn::Or(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Or(hn::IsNaN(e), hn::IsNaN(f)));
    if (!hn::AllFalse(d, is_nan)) break;
    store(hn::DemoteTo(narrow, a), to);
    store(hn::DemoteTo(narrow, b), to + kLanes);
    store(hn::DemoteTo(narrow, e), to + 2 * kLanes);
    store(hn::DemoteTo(narrow, f), to + 3 * kLanes);
    count -= kTogether;
    from += kTogether;
    to += kTogether;
  }
#endif
  by_vectors(count, from, to, [&](const float* x, T* y) HWY_ATTR {
    const V v = hn::LoadU(d, x);
    if (hn::AllFalse(d, hn::IsNaN(v))) return store(hn::DemoteTo(narrow, v), y);
    // The instruction preserves NaN bits that Half does not.
    for (int k = 0; k < kLanes; ++k) y[k] = static_cast<T>(Half(x[k]));
  });
#else
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(Half(from[i]));
#endif
}

void narrow_f16(int64_t count, const float* from, Half* to) {
  through_f16(count, from, to, [](auto halves, Half* at) HWY_ATTR {
    const hn::Rebind<hwy::float16_t, D> narrow;
    hn::StoreU(halves, narrow, reinterpret_cast<hwy::float16_t*>(at));
  });
}

void round_f16(int64_t count, const float* from, float* to) {
  through_f16(count, from, to, [](auto halves, float* at) HWY_ATTR {
    const D d;
    hn::StoreU(hn::PromoteTo(d, halves), d, at);
  });
}

using Bits = hn::Vec<hn::RebindToUnsigned<D>>;

// The bits of v with a bf16 in the upper half, and others below.
HWY_INLINE Bits bf16_above(V v) {
  const hn::RebindToUnsigned<D> bits;
  const Bits x = hn::BitCast(bits, v), odd = hn::And(hn::ShiftRight<16>(x), hn::Set(bits, 1));
  const Bits rounded = hn::Add(hn::Add(x, hn::Set(bits, 0x7fff)), odd);
  const auto is_nan = hn::RebindMask(bits, hn::IsNaN(v));
  return hn::IfThenElse(is_nan, hn::Or(x, hn::Set(bits, 0x400000)), rounded);
}

// to = T(BFloat16(from)). store(bits, at) writes a vector of them, which bf16_above() returns.
template <class T, class Store>
HWY_INLINE void through_bf16(int64_t count, const float* from, T* to, const Store& store) {
  by_vectors(count, from, to,
             [&](const float* x, T* y) HWY_ATTR { store(bf16_above(hn::LoadU(D(), x)), y); });
}

void narrow_bf16(int64_t count, const float* from, BFloat16* to) {
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const hn::Repartition<uint16_t, D> halves;
  for (; count >= 2 * kLanes; count -= 2 * kLanes, from += 2 * kLanes, to += 2 * kLanes) {
    const auto low = hn::BitCast(halves, bf16_above(hn::LoadU(d, from)));
    const auto high = hn::BitCast(halves, bf16_above(hn::LoadU(d, from + kLanes)));
    hn::StoreU(hn::ConcatOdd(halves, high, low), halves, reinterpret_cast<uint16_t*>(to));
  }
#endif
  through_bf16(count, from, to, [](Bits above, BFloat16* at) HWY_ATTR {
    const hn::RebindToSigned<D> bits;
    const hn::Rebind<uint16_t, D> narrow;
    const auto kept = hn::BitCast(bits, hn::ShiftRight<16>(above));
    hn::StoreU(hn::DemoteTo(narrow, kept), narrow, reinterpret_cast<uint16_t*>(at));
  });
}

void round_bf16(int64_t count, const float* from, float* to) {
  through_bf16(count, from, to, [](Bits above, float* at) HWY_ATTR {
    const D d;
    const hn::RebindToUnsigned<D> bits;
    hn::StoreU(hn::BitCast(d, hn::And(above, hn::Set(bits, 0xffff0000))), d, at);
  });
}

constexpr HalfTable kTable = {widen<Half>, widen<BFloat16>, narrow_f16,
                              narrow_bf16, round_f16,       round_bf16};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const HalfTable& half_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
