// SPDX-License-Identifier: Apache-2.0
// Elementwise ops that mix dtypes: cast, where, clamp, lerp.
#include "kernels/pointwise/pointwise.h"

#include <cmath>
#include <limits>

#include "kernels/element.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Converts one element as torch does on x86: floats are rounded toward zero, a result that does not
// fit becomes the smallest integer, and integers wrap around.
template <class Y>
struct Cast {
  template <class X>
  Y operator()(X x) const {
    if constexpr (std::is_same_v<X, float> && std::is_integral_v<Y> && sizeof(Y) < 4) {
      // The smallest 32-bit integer leaves 0, and a float of 2^31 or more has no lower byte. In
      // this form, the compiler vectorizes the conversion without a branch.
      return static_cast<Y>(static_cast<int32_t>(std::abs(x) < 0x1p31F ? x : 0.0F));
    } else if constexpr (std::is_floating_point_v<X> && std::is_integral_v<Y>) {
      using Wide = std::conditional_t<sizeof(Y) == 8 || std::is_unsigned_v<Y>, int64_t, int32_t>;
      constexpr double kEnd = sizeof(Wide) == 8 ? 9223372036854775808.0 : 2147483648.0;
      // At its ends, the range of X is rounded, or that of Wide includes fractions.
      constexpr X kLow = static_cast<X>(sizeof(Wide) == 8 ? -kEnd : -kEnd - 1);
      const bool fits = x > kLow && x < static_cast<X>(kEnd);
      const auto whole = static_cast<Wide>(fits ? x : X(0));
      return static_cast<Y>(fits ? whole : std::numeric_limits<Wide>::min());
    } else {
      return static_cast<Y>(x);
    }
  }
};
struct IsTrue {
  template <class X>
  uint8_t operator()(X x) const {
    return x != X(0);
  }
};

template <class X, class Y>
constexpr Block cast_block = &MakeBlock<Y, Cast<Y>, X>::run;

// i8 and u8 have the same low byte, except from doubles, whose limits differ.
template <class X>
using LowByte = std::conditional_t<std::is_same_v<X, double>, uint8_t, int8_t>;
// From X to each dtype. The driver converts f32 results to 16-bit floats.
template <class X>
constexpr BlockTable cast_row = {
    .blocks = {cast_block<X, float>, cast_block<X, double>, cast_block<X, float>,
               cast_block<X, float>, cast_block<X, int64_t>, cast_block<X, int32_t>,
               cast_block<X, int16_t>, cast_block<X, int8_t>, cast_block<X, LowByte<X>>,
               &MakeBlock<uint8_t, IsTrue, X>::run}};

// Complex tensors are not cast.
constexpr const BlockTable* kCastRows[kDTypeCount] = {
    &cast_row<float>,   &cast_row<double>,  &cast_row<float>,   &cast_row<float>,
    &cast_row<int64_t>, &cast_row<int32_t>, &cast_row<int16_t>, &cast_row<int8_t>,
    &cast_row<uint8_t>, &cast_row<uint8_t>};

bool is_in_f32(DType dtype) { return dtype == f32 || dtype == f16 || dtype == bf16; }

Status prepare_cast(PrepareContext& c) {
  const BlockTable& row = *kCastRows[static_cast<int>(c.in(0).dtype)];
  PointwiseParams params;
  params.copies = is_in_f32(c.in(0).dtype) && is_in_f32(c.out(0).dtype);
  return prepare_block(c, row.blocks[static_cast<int>(c.out(0).dtype)], params);
}

struct Select {
  template <class T>
  T operator()(uint8_t condition, T a, T b) const {
    return condition != 0 ? a : b;
  }
};
template <class T>
constexpr Block where_block = &MakeBlock<T, Select, uint8_t, T, T>::run;
constexpr BlockTable kWhere = {
    .blocks = {where_block<float>, where_block<double>, nullptr, nullptr, where_block<int64_t>,
               where_block<int32_t>, where_block<int16_t>, where_block<int8_t>,
               where_block<uint8_t>, where_block<uint8_t>},
    .key = 1};

// a + w (b - a), from the nearer end, as at::native::lerp
struct Lerp {
  template <class T>
  T operator()(T a, T b, T w) const {
    return std::abs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w);
  }
};
constexpr BlockTable kLerp = {.blocks = {&MakeBlock<float, Lerp, float, float, float>::run,
                                         &MakeBlock<double, Lerp, double, double, double>::run}};

// min(max(x, low), high); NaN if any of them is NaN.
struct ClampLow {
  template <class T>
  T operator()(T x, T low) const {
    return x != x || x > low ? x : low;
  }
};
struct ClampHigh {
  template <class T>
  T operator()(T x, T high) const {
    return x != x || x < high ? x : high;
  }
};
struct Clamp {
  template <class T>
  T operator()(T x, T low, T high) const {
    return ClampHigh()(ClampLow()(x, low), high);
  }
};
template <class T>
constexpr Block clamp_block = &MakeBlock<T, Clamp, T, T, T>::run;
constexpr BlockTable kClamp = {.blocks = {clamp_block<float>, clamp_block<double>, nullptr, nullptr,
                                          clamp_block<int64_t>, clamp_block<int32_t>,
                                          clamp_block<int16_t>, clamp_block<int8_t>,
                                          clamp_block<uint8_t>}};

Status prepare_clamp(PrepareContext& c) {
  if (c.has(1) && c.has(2)) return prepare_pointwise(c, kClamp);
  return prepare_pointwise(c, c.has(1) ? number_binary<ClampLow> : number_binary<ClampHigh>);
}

void run_to_integer(const RunContext& c) noexcept {
  for_float(c.in(0).dtype, [&]<class T>() {
    constexpr double kEnd = 9223372036854775808.0;  // 2^63
    const T* x = c.in(0).as<const T>();
    int64_t* y = c.out(0).as<int64_t>();
    for (int64_t i = 0, n = c.out(0).count(); i < n; ++i) {
      const auto value = static_cast<double>(static_cast<Wide<T>>(x[i]));
      if (!(value >= -kEnd && value < kEnd)) return c.fail("a number is NaN or too large for i64");
      y[i] = static_cast<int64_t>(value);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "to_integer", .name = "loop", .run = run_to_integer},
    {.op = "cast",
     .name = "pointwise",
     .prepare = &prepare_cast,
     .run = &run_pointwise,
     .strided = kAllStrided,
     .in_programs = true},
    {.op = "clamp",
     .name = "pointwise",
     .prepare = &prepare_clamp,
     .run = &run_pointwise,
     .strided = kAllStrided,
     .in_programs = true},
    pointwise_kernel<kWhere>("where"),
    pointwise_kernel<kLerp>("lerp"),
};

}  // namespace

std::span<const KernelDef> pointwise() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
