// SPDX-License-Identifier: Apache-2.0
// Sampling of planes in f32, for each instruction set.
#include "kernels/image/grid_sample_simd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/grid_sample_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, PlaneTaps::kPoints>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

// Two neighbors along an axis. Positions are whole numbers in floats, which represent all sizes
// exactly.
struct Pair {
  V first, second_weight;
};

Pair pair_of(V coordinate, int32_t size, const GridPlane& plane) {
  const D d;
  const V one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const V extent = hn::Set(d, static_cast<float>(size)), last = hn::Sub(extent, one);
  const V shifted = hn::Add(coordinate, one);
  V at = plane.align_corners ? hn::Mul(hn::Mul(shifted, half), last)
                             : hn::Mul(hn::Sub(hn::Mul(shifted, extent), one), half);
  const auto is_number = hn::Eq(at, at);
  if (plane.border) at = hn::Min(hn::Max(at, hn::Zero(d)), last);
  const auto is_near = hn::And(is_number, hn::Lt(hn::Abs(at), hn::Set(d, 2147483520.0f)));
  at = hn::IfThenElse(is_near, at, hn::Set(d, -100.0f));
  if (plane.nearest) return {hn::Round(at), hn::Zero(d)};
  const V first = hn::Floor(at);
  return {first, hn::Sub(at, first)};
}

hn::Mask<D> is_within(V place, int32_t size) {
  const D d;
  return hn::And(hn::Ge(place, hn::Zero(d)), hn::Lt(place, hn::Set(d, static_cast<float>(size))));
}

void taps(const GridPlane& plane, const float* grid, int64_t count, PlaneTaps& taps) {
  const D d;
  const DI di;
  const V one = hn::Set(d, 1.0f);
  const VI width = hn::Set(di, plane.width), outside = hn::Set(di, -1);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  alignas(64) float coordinates[2 * PlaneTaps::kPoints];
  std::copy_n(grid, 2 * count, coordinates);
  // Unused points at the end are placed at the center.
  std::fill(coordinates + 2 * count, coordinates + 2 * PlaneTaps::kPoints, 0.0f);
  taps.count = plane.nearest ? 1 : 4;
  taps.all_inside = true;
  for (int64_t i = 0; i < count; i += lanes) {
    V gx, gy;
    hn::LoadInterleaved2(d, coordinates + 2 * i, gx, gy);
    const Pair x = pair_of(gx, plane.width, plane), y = pair_of(gy, plane.height, plane);
    for (int t = 0; t < taps.count; ++t) {
      const V px = t % 2 == 0 ? x.first : hn::Add(x.first, one);
      const V py = t / 2 == 0 ? y.first : hn::Add(y.first, one);
      const auto inside = hn::And(is_within(px, plane.width), is_within(py, plane.height));
      taps.all_inside = taps.all_inside && hn::AllTrue(d, inside);
      const VI place = hn::Add(hn::Mul(hn::ConvertTo(di, py), width), hn::ConvertTo(di, px));
      hn::Store(hn::IfThenElse(hn::RebindMask(di, inside), place, outside), di, taps.at[t] + i);
      const V wx = t % 2 == 0 ? hn::Sub(one, x.second_weight) : x.second_weight;
      const V wy = t / 2 == 0 ? hn::Sub(one, y.second_weight) : y.second_weight;
      hn::Store(hn::Mul(wy, wx), d, taps.weight[t] + i);
    }
  }
}

// The pixels of one tap.
template <bool kAllInside>
HWY_INLINE V read(const float* x, const int32_t* at) {
  const D d;
  const DI di;
  const VI place = hn::Load(di, at);
  if (kAllInside) return hn::GatherIndex(d, x, place);
  const auto inside = hn::Gt(place, hn::Set(di, -1));
  const V pixels = hn::GatherIndex(d, x, hn::IfThenElseZero(inside, place));
  return hn::IfThenElseZero(hn::RebindMask(d, inside), pixels);
}

template <bool kAllInside>
HWY_INLINE void sample_block(const PlaneTaps& taps, const float* x, float* y, int64_t count) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    V sum = read<kAllInside>(x, taps.at[0] + i);
    if (taps.count == 4) {
      sum = hn::Mul(sum, hn::Load(d, taps.weight[0] + i));
      for (int t = 1; t < 4; ++t)
        sum = hn::MulAdd(read<kAllInside>(x, taps.at[t] + i), hn::Load(d, taps.weight[t] + i), sum);
    }
    if (i + lanes <= count) {
      hn::StoreU(sum, d, y + i);
    } else {
      HWY_ALIGN float rest[hn::MaxLanes(D())];
      hn::Store(sum, d, rest);
      std::copy_n(rest, count - i, y + i);
    }
  }
}

void sample(const PlaneTaps& taps, const float* x, float* y, int64_t count) {
  if (taps.all_inside)
    sample_block<true>(taps, x, y, count);
  else
    sample_block<false>(taps, x, y, count);
}

}  // namespace

constexpr GridSampleTable kTable = {taps, sample};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const GridSampleTable& grid_sample_table() { return *HG_SIMD_CHOOSE(kTable); }

}  // namespace hg::kernels
#endif
