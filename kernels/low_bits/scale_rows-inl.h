// SPDX-License-Identifier: Apache-2.0
// The scales of rows of levels, which are read in order. Included once for every instruction set,
// as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_SCALE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_SCALE_ROWS_INL_H_
#undef HG_KERNELS_SCALE_ROWS_INL_H_
#else
#define HG_KERNELS_SCALE_ROWS_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "kernels/low_bits/low_bits_simd.h"
#include "kernels/saves_code.h"
#include "kernels/simd/halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr int32_t kScaleRoom = 64;  // groups of a row that are widened at a time
static_assert(kScaleRoom % kLanes == 0);

// The scales of row `first`; null if they are f16. Also prefetches the scales of as many rows,
// `ahead` numbers later.
inline HWY_NOINLINE const float* stored_scales(const LevelRows& w, int64_t first, int64_t rows,
                                               int64_t ahead) {
  const bool is_half = w.half_scales != nullptr;
  const int64_t size = is_half ? 2 : 4, at = first * w.groups;
  const char* const from = is_half ? reinterpret_cast<const char*>(w.half_scales)
                                   : reinterpret_cast<const char*>(w.scales);
  for (int64_t i = 0; i < rows * w.groups * size; i += kCacheLine)
    hwy::Prefetch(from + (at + ahead) * size + i);
  return is_half ? nullptr : w.scales + at;
}

// Widens the scales of `rows` rows from `first` on, for the groups from `group` to `end`, at most
// kScaleRoom. Returns the end of these groups.
inline HWY_NOINLINE int32_t widen_scales(const LevelRows& w, int64_t first, int64_t rows,
                                         int32_t group, int32_t end, float* room) {
  const D d;
  const int64_t count = std::min(kScaleRoom, end - group), all = w.n * w.groups;
  const int64_t whole = (count + kLanes - 1) / kLanes * kLanes;  // vectors
  for (int64_t j = 0; j < rows; ++j, room += kScaleRoom) {
    const int64_t at = (first + j) * w.groups + group;
    const Half* const from = w.half_scales + at;
    if (at + whole > all) [[unlikely]] {
      for (int64_t i = 0; i < count; ++i) room[i] = static_cast<float>(from[i]);
      continue;
    }
    for (int64_t i = 0; i < whole; i += kLanes) hn::Store(load_floats(d, from + i), d, room + i);
  }
  return group + static_cast<int32_t>(count);
}

// The scales of kRows rows of the weight from `first` on, read in the order of the groups up to
// `groups`: f32 where it lies, f16 widened into `room`, kRows * kScaleRoom floats. With HG_SMALL,
// all are f32.
template <int kRows>
class ScaleRows {
 public:
  HWY_INLINE ScaleRows(const LevelRows& w, int64_t first, int64_t groups, int64_t ahead,
                       float* room)
      : w_(w), first_(first), room_(room), groups_(static_cast<int32_t>(groups)) {
    if constexpr (kRows > 0) from_ = stored_scales(w, first, kRows, ahead);
    if (kSavesCode || from_ != nullptr) {
      row_ = w.groups;
      end_ = std::numeric_limits<int32_t>::max();
    }
  }
  // The scale of a group in the first row. Those of later rows follow row() numbers apart.
  HWY_INLINE const float* of(int32_t group) {
    if constexpr (kSavesCode) return from_ + group;
    if (group >= end_) [[unlikely]] {
      from_ = room_;
      begin_ = group;
      end_ = widen_scales(w_, first_, kRows, group, groups_, room_);
    }
    return from_ + (group - begin_);
  }
  HWY_INLINE int64_t row() const { return row_; }

 private:
  const LevelRows& w_;
  int64_t first_;
  float* room_;
  int32_t groups_;
  const float* from_ = nullptr;
  int64_t row_ = kScaleRoom;
  int32_t begin_ = 0, end_ = 0;
};

// The scales of kColumns rows of bytes from `column` on: of the low stream and, if kHigh, of the
// high one. `room`: 2 * kColumns * kScaleRoom floats.
template <bool kHigh, int kColumns>
class BlockScales {
 public:
  HWY_INLINE BlockScales(const LevelRows& w, int64_t column, float* room)
      : shares_(kHigh && w.half > 0),
        low_(w, column, w.groups, scales_ahead<kColumns>(w), room),
        high_(w, shares_ ? std::min(column + w.half, w.n - 1) : column, w.groups,
              scales_ahead<kColumns>(w), room + kColumns * kScaleRoom) {}
  // Makes low() and high() of a segment readable, and only these.
  HWY_INLINE void reach(const Segment& segment) {
    low_from_ = low_.of(segment.low_group);
    if constexpr (kHigh)
      high_from_ = has_one_group(segment) ? low_from_ : high_.of(segment.high_group);
  }
  // Whether both streams of the segment have the same scales.
  HWY_INLINE bool has_one_group(const Segment& segment) const {
    return !shares_ && segment.low_group == segment.high_group;
  }
  HWY_INLINE float low(int j) const { return low_from_[j * low_.row()]; }
  HWY_INLINE float high(int j) const { return high_from_[j * high_.row()]; }

 private:
  bool shares_;
  ScaleRows<kColumns> low_;
  ScaleRows<kHigh ? kColumns : 0> high_;
  const float *low_from_ = nullptr, *high_from_ = nullptr;
};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
