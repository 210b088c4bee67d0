// SPDX-License-Identifier: Apache-2.0
// 128-bit integers: the compiler's, or two words on compilers without them (32-bit machines).
// Overflow wraps around, except in functions that report it.
#pragma once

#include <compare>
#include <cstdint>

namespace hg {

class Int128 {
 public:
  constexpr Int128() = default;
  constexpr Int128(int64_t value)  // NOLINT: implicit, as for smaller integers
      : high_(value < 0 ? ~uint64_t{0} : 0), low_(static_cast<uint64_t>(value)) {}
  constexpr Int128(uint64_t high, uint64_t low) : high_(high), low_(low) {}
  explicit constexpr operator int64_t() const { return static_cast<int64_t>(low_); }

  constexpr bool is_negative() const { return high_ >> 63 != 0; }
  constexpr Int128 operator-() const { return {~high_ + (low_ == 0), ~low_ + 1}; }

  friend constexpr Int128 operator+(Int128 a, Int128 b) {
    const uint64_t low = a.low_ + b.low_;
    return {a.high_ + b.high_ + (low < a.low_), low};
  }
  friend constexpr Int128 operator-(Int128 a, Int128 b) { return a + -b; }
  friend constexpr Int128 operator*(Int128 a, Int128 b) {
    constexpr uint64_t kHalf = 0xffffffff;
    const uint64_t a0 = a.low_ & kHalf, a1 = a.low_ >> 32, b0 = b.low_ & kHalf, b1 = b.low_ >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    const uint64_t other = a0 * b1 + (middle & kHalf);
    const uint64_t high = a1 * b1 + (middle >> 32) + (other >> 32);
    return {high + a.high_ * b.low_ + a.low_ * b.high_, a.low_ * b.low_};
  }
  // Truncates toward zero, as in C++.
  friend constexpr Int128 operator/(Int128 a, Int128 b) {
    const Int128 quotient = divide(a.magnitude(), b.magnitude());
    return a.is_negative() != b.is_negative() ? -quotient : quotient;
  }
  friend constexpr Int128 operator%(Int128 a, Int128 b) { return a - a / b * b; }
  constexpr Int128& operator+=(Int128 b) { return *this = *this + b; }

  friend constexpr bool operator==(Int128 a, Int128 b) = default;
  friend constexpr std::strong_ordering operator<=>(Int128 a, Int128 b) {
    if (a.high_ != b.high_) return static_cast<int64_t>(a.high_) <=> static_cast<int64_t>(b.high_);
    return a.low_ <=> b.low_;
  }

 private:
  // Unsigned division, bit by bit; b must not be 0.
  static constexpr Int128 divide(Int128 a, Int128 b) {
    Int128 quotient, rest;
    for (int bit = 127; bit >= 0; --bit) {
      const uint64_t word = bit < 64 ? a.low_ : a.high_;
      rest = {rest.high_ << 1 | rest.low_ >> 63, rest.low_ << 1 | (word >> (bit & 63) & 1)};
      if (rest.high_ < b.high_ || (rest.high_ == b.high_ && rest.low_ < b.low_)) continue;
      rest = rest - b;
      (bit < 64 ? quotient.low_ : quotient.high_) |= uint64_t{1} << (bit & 63);
    }
    return quotient;
  }
  constexpr Int128 magnitude() const { return is_negative() ? -*this : *this; }

  uint64_t high_ = 0, low_ = 0;
};

// Whether the sum or product overflows.
constexpr bool add_overflows(Int128 a, Int128 b, Int128* sum) {
  *sum = a + b;
  return a.is_negative() == b.is_negative() && sum->is_negative() != a.is_negative();
}
constexpr bool mul_overflows(Int128 a, Int128 b, Int128* product) {
  constexpr Int128 kLeast(uint64_t{1} << 63, 0);
  *product = a * b;
  if (a == 0 || b == 0) return false;
  if ((a == -1 && b == kLeast) || (b == -1 && a == kLeast)) return true;
  return *product / a != b;
}

#ifdef __SIZEOF_INT128__
__extension__ using Wide = __int128;
constexpr bool add_overflows(Wide a, Wide b, Wide* sum) {
  return __builtin_add_overflow(a, b, sum);
}
constexpr bool mul_overflows(Wide a, Wide b, Wide* product) {
  return __builtin_mul_overflow(a, b, product);
}
#else
using Wide = Int128;
#endif

}  // namespace hg
