// SPDX-License-Identifier: Apache-2.0
// How long the text of a number is that sizes or data decide, as libtorch prints it. The graph has
// no text, so it computes the exact decimal digits as numbers.
#include <cmath>
#include <limits>

#include "converter/containers/texts.h"
#include "hg/ops/binary.h"
#include "hg/ops/compare.h"
#include "hg/ops/control_flow.h"
#include "hg/ops/copy.h"
#include "hg/ops/factory.h"
#include "hg/ops/index.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"

namespace hg::convert {
namespace {

Value integer(const Value& like, int64_t value) { return like.graph()->scalar(value, i64); }
Value real(const Value& like, double value) { return like.graph()->scalar(value, f64); }
Value as_integer(const Value& condition) { return hg::cast(condition, i64); }

// first, first * 10, ... as i64[count].
Value powers_of_ten(Graph& graph, int64_t first, int count) {
  std::vector<Value> all;
  for (int i = 0; i < count; ++i) {
    if (i > 0) first *= 10;
    all.push_back(reshape(graph.scalar(first, i64), {1}));
  }
  return concat(all);
}

// The letters of an integer.
Value length_of_integer(const Value& number) {
  constexpr int kPowers = 18;  // that i64 holds, from 10 on
  const Value powers = powers_of_ten(*number.graph(), 10, kPowers);
  const Value digits = sum(as_integer(ge(number, powers)) + as_integer(le(number, -powers)), {0});
  return digits + as_integer(lt(number, integer(number, 0))) + 1;
}

// A positive number is the sum of limbs of nine digits, from 10^306 down to 10^-1080.
constexpr int kDigits = 9, kLimbs = 155, kUnits = 34;  // the limb of 0 to 10^9 - 1
constexpr int64_t kLimb = 1000000000;
constexpr int kPrinted = 17;  // significant digits

// m and e of a finite x = m 2^e > 0 with 2^52 <= m < 2^53, so that m is whole.
std::vector<Value> parts_of(const Value& x) {
  const auto power = [](const Value& like, int exponent) {
    return real(like, std::ldexp(1, exponent));
  };
  return while_loop(
      {x, integer(x, 0)}, {},
      [=](Graph&, std::span<const Value> v) {
        return std::vector{logical_or(lt(v[0], power(v[0], 52)), ge(v[0], power(v[0], 53)))};
      },
      [=](Graph&, std::span<const Value> v) {
        const Value m = v[0], is_large = ge(m, power(m, 53));
        Value factor = where(is_large, power(m, -1), power(m, 1));
        Value step = where(is_large, integer(m, 1), integer(m, -1));
        for (const int by : {5, 30}) {
          const Value shrinks = ge(m, power(m, 52 + by)), grows = lt(m, power(m, 53 - by));
          factor = where(shrinks, power(m, -by), where(grows, power(m, by), factor));
          step = where(shrinks, integer(m, by), where(grows, integer(m, -by), step));
        }
        return std::vector{m * factor, v[1] + step};
      });
}

// The limbs of a finite x > 0: those of m, doubled or halved |e| times.
Value limbs_of(const Value& x) {
  const std::vector<Value> parts = parts_of(x);
  if (parts.size() != 2) return {};
  const Value whole = hg::cast(parts[0], i64), base = integer(x, kLimb);
  const auto zeros = [&](int count) { return full(*x.graph(), {count}, 0.0, i64); };
  const Value limbs = concat({zeros(kUnits - 1), reshape(floor_divide(whole, base), {1}),
                              reshape(remainder(whole, base), {1}), zeros(kLimbs - 1 - kUnits)});
  const std::vector<Value> done = while_loop(
      {limbs, parts[1]}, {},
      [](Graph&, std::span<const Value> v) { return std::vector{ne(v[1], integer(v[1], 0))}; },
      [](Graph& body, std::span<const Value> v) {
        const Value zero = full(body, {1}, 0.0, i64);
        const Value carry = as_integer(ge(v[0], integer(v[0], kLimb / 2)));
        const Value twice =
            v[0] * 2.0 - carry * integer(v[0], kLimb) + concat({slice(carry, 0, 1, kLimbs), zero});
        // 10^9 is a multiple of 2^9, so what is left of a limb is whole in the next one.
        const Value is_far = le(v[1], integer(v[1], -9));
        const Value divisor = where(is_far, integer(v[1], 512), integer(v[1], 2));
        const Value rest = remainder(v[0], divisor);
        const Value part =
            floor_divide(v[0], divisor) + concat({zero, slice(rest, 0, 0, kLimbs - 1)}) *
                                              floor_divide(integer(v[0], kLimb), divisor);
        const Value grows = gt(v[1], integer(v[1], 0));
        const Value step =
            where(grows, integer(v[1], -1), where(is_far, integer(v[1], 9), integer(v[1], 1)));
        return std::vector{where(grows, twice, part), v[1] + step};
      });
  return done.size() == 2 ? done[0] : Value();
}

// The letters of a finite x > 0 as "%.17g" prints it.
Value length_of_digits(const Value& x) {
  Graph& g = *x.graph();
  const Value limbs = limbs_of(x);
  if (!limbs) return {};
  const Value powers = flip(powers_of_ten(g, 1, kDigits), {0});
  constexpr int kAll = kLimbs * kDigits;
  const Value digits =
      reshape(remainder(floor_divide(reshape(limbs, {kLimbs, 1}), powers), integer(x, 10)), {kAll});
  const Value places = arange(g, 0, kAll);
  const Value first = amin(where(gt(digits, integer(x, 0)), places, integer(x, kAll)), {0});
  const auto from = [&](int start, int count) {
    return index_select(digits, first + arange(g, start, start + count), 0);
  };
  // Rounded half to even.
  Value number = sum(from(0, kPrinted) * flip(powers_of_ten(g, 1, kPrinted), {0}), {0});
  const Value next = reshape(from(kPrinted, 1), {});
  const Value is_after = gt(places, first + kPrinted);
  const Value has_more = gt(sum(digits * as_integer(is_after), {0}), integer(x, 0));
  const Value is_odd = eq(remainder(number, integer(x, 2)), integer(x, 1));
  const Value rounds_up = logical_or(
      gt(next, integer(x, 5)), logical_and(eq(next, integer(x, 5)), logical_or(has_more, is_odd)));
  number = number + as_integer(rounds_up);
  const Value trailing =
      sum(as_integer(eq(remainder(number, powers_of_ten(g, 10, kPrinted)), integer(x, 0))), {0});
  // 99...9 rounds up to 10^17, which has one digit.
  const Value overflows = eq(trailing, integer(x, kPrinted));
  const Value count = where(overflows, integer(x, 1), kPrinted - trailing);
  const Value exponent = (kUnits + 1) * kDigits - 1 - first + as_integer(overflows);
  const Value has_point = as_integer(gt(count, integer(x, 1)));
  const Value scientific =
      count + has_point + 4 + as_integer(ge(hg::abs(exponent), integer(x, 100)));
  const Value fixed = maximum(exponent + 1, count + as_integer(gt(count, exponent + 1)));
  const Value fraction = count - exponent + 1;  // 0.00123
  const Value is_scientific =
      logical_or(lt(exponent, integer(x, -4)), ge(exponent, integer(x, kPrinted)));
  return where(is_scientific, scientific, where(lt(exponent, integer(x, 0)), fraction, fixed));
}

// The letters of a float: inf, nan, 3. or up to 17 digits.
Value length_of_real(const Value& number) {
  const Value x = number + 0.0;  // not -0
  const auto fits_i64 = [](const Value& v) {
    return logical_and(ge(v, real(v, -kFirstBeyondI64)), lt(v, real(v, kFirstBeyondI64)));
  };
  const Value is_finite = lt(hg::abs(x), real(x, std::numeric_limits<double>::infinity()));
  const Value is_whole = logical_and(fits_i64(x), eq(hg::trunc(x), x));
  const std::vector<Value> length = cond(
      logical_and(is_finite, logical_not(is_whole)), {x},
      [](Graph&, std::span<const Value> v) {
        return std::vector{length_of_digits(hg::abs(v[0])) + as_integer(lt(v[0], real(v[0], 0)))};
      },
      [&](Graph&, std::span<const Value> v) {
        // inf and nan have one letter more than 10.
        const Value ten = where(signbit(v[0]), real(v[0], -10), real(v[0], 10));
        return std::vector{length_of_integer(hg::cast(where(fits_i64(v[0]), v[0], ten), i64)) + 1};
      });
  return length.size() == 1 ? length[0] : Value();
}

}  // namespace

Value length_of_number(Memory& memory, const Item& item) {
  const Value number = number_value(memory, item);
  if (number.dtype() == boolean)  // True or False
    return 5 - as_integer(number);
  if (is_float(number.dtype())) return length_of_real(hg::cast(number, f64));
  return length_of_integer(hg::cast(number, i64));
}

}  // namespace hg::convert
