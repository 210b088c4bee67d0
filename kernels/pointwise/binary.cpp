// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two tensors. Integers wrap around; integer division by zero fails the run.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/two_floats.h"
#include "lib/platform/instruction_set.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>)
      return a + b;
    else
      return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>)
      return a - b;
    else
      return static_cast<T>(Wrapping<T>(a) - Wrapping<T>(b));
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>)
      return a * b;
    else
      return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};

template <class T>
bool is_zero_divisor(T b, const PointwiseParams& p) {
  if (b != 0) return false;
  *p.divided_by_zero = true;
  return true;
}
// The quotient rounded toward zero; the smallest integer divided by -1 wraps around.
template <class T>
T quotient(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(Wrapping<T>(0) - Wrapping<T>(a));
  return static_cast<T>(a / b);
}
template <class T>
T modulo(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}

struct FloorDivide {
  template <class T>
  T operator()(T a, T b, [[maybe_unused]] const PointwiseParams& p) const {
    if constexpr (kIsFloat<T>) {
      return floor_divide(a, b);
    } else {
      if (is_zero_divisor(b, p)) return 0;
      const T result = quotient(a, b);
      if constexpr (std::is_signed_v<T>)
        if ((a < 0) != (b < 0) && modulo(a, b) != 0) return static_cast<T>(result - 1);
      return result;
    }
  }
};
struct TruncDivide {
  template <class T>
  T operator()(T a, T b, [[maybe_unused]] const PointwiseParams& p) const {
    if constexpr (kIsFloat<T>)
      return std::trunc(a / b);
    else
      return is_zero_divisor(b, p) ? T(0) : quotient(a, b);
  }
};
struct Remainder {  // sign of the divisor
  template <class T>
  T operator()(T a, T b, [[maybe_unused]] const PointwiseParams& p) const {
    if constexpr (kIsFloat<T>) {
      return remainder(a, b);
    } else {
      if (is_zero_divisor(b, p)) return 0;
      const T rest = modulo(a, b);
      if constexpr (std::is_signed_v<T>)
        if (rest != 0 && (b < 0) != (rest < 0)) return static_cast<T>(rest + b);
      return rest;
    }
  }
};
struct Fmod {  // sign of the dividend
  template <class T>
  T operator()(T a, T b, [[maybe_unused]] const PointwiseParams& p) const {
    if constexpr (kIsFloat<T>)
      return std::fmod(a, b);
    else
      return is_zero_divisor(b, p) ? T(0) : modulo(a, b);
  }
};
struct Pow {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) {
      return b == 2 ? a * a : std::pow(a, b);  // as torch
    } else {
      if constexpr (std::is_signed_v<T>) {
        if (b < 0) {
          if (a == 1) return 1;
          if (a == -1) return b % 2 == 0 ? T(1) : T(-1);
          return 0;
        }
      }
      Wrapping<T> result = 1, base = static_cast<Wrapping<T>>(a);
      for (auto rest = static_cast<Wrapping<T>>(b); rest != 0; rest >>= 1) {
        if (rest & 1) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    }
  }
};
struct Maximum {  // NaN if one is NaN
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};
struct Fmax {  // the number if the other is NaN
  template <class T>
  T operator()(T a, T b) const {
    return b != b || a > b ? a : b;
  }
};
struct Fmin {
  template <class T>
  T operator()(T a, T b) const {
    return b != b || a < b ? a : b;
  }
};
struct Atan2 {
  template <class T>
  T operator()(T a, T b) const {
    return std::atan2(a, b);
  }
};
struct Hypot {
  template <class T>
  T operator()(T a, T b) const {
    return std::hypot(a, b);
  }
};
struct Nextafter {
  template <class T>
  T operator()(T a, T b) const {
    // The bits of a positive number, as an integer, are in the order of the numbers.
    using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    const Bits bits = std::bit_cast<Bits>(a), step = (a < b) == (a > T(0)) ? 1 : -1;
    const T near = std::bit_cast<T>(static_cast<Bits>(bits + step));
    const T moved = a == T(0) ? std::copysign(std::numeric_limits<T>::denorm_min(), b) : near;
    const T y = a == b ? b : moved;
    return a != a || b != b ? a + b : y;
  }
};
// For a 16-bit float: without the sign, the order of the bits is the order of the magnitudes.
template <class T16>
struct Nextafter16 {
  float operator()(float a, float b) const {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (a == b) return b;
    T16 next(a);
    if (a == 0) {
      next.bits = 1;
      return std::copysign(static_cast<float>(next), b);
    }
    next.bits = static_cast<uint16_t>((a < b) == (a > 0) ? next.bits + 1 : next.bits - 1);
    return static_cast<float>(next);
  }
};
constexpr BlockTable kNextafter = {
    .blocks = {binary_block<Nextafter, float>, binary_block<Nextafter, double>,
               binary_block<Nextafter16<Half>, float>, binary_block<Nextafter16<BFloat16>, float>}};
struct Copysign {
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(a, b);
  }
};
struct Logaddexp {
  template <class T>
  T operator()(T a, T b) const {
    return logaddexp(a, b);
  }
};
struct Xlogy {  // x log y, 0 where x is 0 and y is a number
  template <class T>
  T operator()(T x, T y) const {
    if (y != y) return y;
    return x == 0 ? T(0) : x * std::log(y);
  }
};
struct BitAnd {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct ShiftLeft {  // 0 if all bits are shifted out
  template <class T>
  T operator()(T a, T b) const {
    if (b < T(0) || b >= T(sizeof(T) * 8)) return 0;
    return static_cast<T>(static_cast<Wrapping<T>>(a) << b);
  }
};
struct ShiftRight {  // arithmetic; larger shifts count as the number of bits
  template <class T>
  T operator()(T a, T b) const {
    constexpr T kMost = static_cast<T>(sizeof(T) * 8 - (std::is_signed_v<T> ? 1 : 0));
    return static_cast<T>(a >> (b < T(0) || b >= kMost ? kMost : b));
  }
};

// gcd(a, b) >= 0, by Euclid
template <class T>
T greatest_divisor(T a, T b) {
  while (b != 0) {
    const T rest = modulo(a, b);
    a = b;
    b = rest;
  }
  return a < 0 ? static_cast<T>(Wrapping<T>(0) - Wrapping<T>(a)) : a;
}
struct Gcd {
  template <class T>
  T operator()(T a, T b) const {
    return greatest_divisor(a, b);
  }
};
struct Lcm {
  template <class T>
  T operator()(T a, T b) const {
    const T divisor = greatest_divisor(a, b);
    if (divisor == 0) return 0;
    using Wide = std::conditional_t<sizeof(T) < 4, int32_t, T>;  // as C promotes integers
    const Wide result = Mul()(static_cast<Wide>(a / divisor), static_cast<Wide>(b));
    return static_cast<T>(result < 0 ? Wrapping<Wide>(0) - Wrapping<Wide>(result)
                                     : Wrapping<Wide>(result));
  }
};

#if defined(__x86_64__) && !defined(HG_SMALL) && !defined(HG_WITHOUT_AVX2)
// The baseline of x86 has no vectors for comparisons of i64, nor for products and comparisons of
// i32.
template <class F, class T>
[[gnu::target("avx2")]] void run_avx2(void* y, const void* const* x, int64_t n,
                                      const PointwiseParams&) {
  const T *const a = static_cast<const T*>(x[0]), *const b = static_cast<const T*>(x[1]);
  T* const out = static_cast<T*>(y);
  HG_INDEPENDENT_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(F()(a[i], b[i]));
}
template <const BlockTable& table, class F>
Status prepare_with_avx2(PrepareContext& c) {
  if (chosen_isa() < Isa::avx2) return prepare_pointwise(c, table);
  BlockTable chosen = table;
  const auto set = [&chosen]<class T>(DType dtype, T) {
    chosen.blocks[static_cast<size_t>(dtype)] = run_avx2<F, T>;
  };
  set(DType::f64, double());
  set(DType::i64, int64_t());
  set(DType::i32, int32_t());
  return prepare_pointwise(c, chosen);
}
template <const BlockTable& table, class F>
constexpr KernelDef with_avx2(std::string_view op) {
  KernelDef row = pointwise_kernel<table>(op);
  row.prepare = prepare_with_avx2<table, F>;
  return row;
}
#else
template <const BlockTable& table, class F>
constexpr KernelDef with_avx2(std::string_view op) {
  return pointwise_kernel<table>(op);
}
#endif

constexpr KernelDef kKernels[] = {
    with_avx2<any_binary<Add, BitOr>, Add>("add"),
    with_avx2<number_binary<Sub>, Sub>("sub"),
    with_avx2<any_binary<Mul, BitAnd>, Mul>("mul"),
    pointwise_kernel<float_binary<Div>>("div"),
    pointwise_kernel<number_binary<FloorDivide>>("floor_divide"),
    pointwise_kernel<number_binary<TruncDivide>>("trunc_divide"),
    pointwise_kernel<number_binary<Remainder>>("remainder"),
    pointwise_kernel<number_binary<Fmod>>("fmod"),
    pointwise_kernel<number_binary<Pow>>("pow"),
    with_avx2<any_binary<Maximum, BitOr>, Maximum>("maximum"),
    with_avx2<any_binary<Minimum, BitAnd>, Minimum>("minimum"),
    pointwise_kernel<any_binary<Fmax, BitOr>>("fmax"),
    pointwise_kernel<any_binary<Fmin, BitAnd>>("fmin"),
    pointwise_kernel<float_binary<Atan2>>("atan2"),
    pointwise_kernel<float_binary<Hypot>>("hypot"),
    pointwise_kernel<kNextafter>("nextafter"),
    pointwise_kernel<float_binary<Copysign>>("copysign"),
    pointwise_kernel<float_binary<Logaddexp>>("logaddexp"),
    pointwise_kernel<float_binary<Xlogy>>("xlogy"),
    pointwise_kernel<integer_binary<BitAnd>>("bitwise_and"),
    pointwise_kernel<integer_binary<BitOr>>("bitwise_or"),
    pointwise_kernel<integer_binary<BitXor>>("bitwise_xor"),
    pointwise_kernel<integer_binary<ShiftLeft>>("bitwise_left_shift"),
    pointwise_kernel<integer_binary<ShiftRight>>("bitwise_right_shift"),
    pointwise_kernel<integer_binary<Gcd>>("gcd"),
    pointwise_kernel<integer_binary<Lcm>>("lcm"),
};

}  // namespace

std::span<const KernelDef> binary() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
