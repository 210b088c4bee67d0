// SPDX-License-Identifier: Apache-2.0
// Bounds of sizes. Each atom stores its own bounds. The bounds of a sum are tighter if its atoms
// are related: 8 floordiv(x, 8) never exceeds x.
#include <algorithm>
#include <limits>
#include <numeric>

#include "lib/graph/atom.h"

namespace hg {
namespace {

using Kind = Atom::Kind;

constexpr int kRounds = 5;  // of decomposing one summand; a min or max branches in two
constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
constexpr Interval kAll = {kLow, kHigh};

int64_t saturate(Wide value) {
  return value < kLow ? kLow : value > kHigh ? kHigh : static_cast<int64_t>(value);
}

Interval times(Interval x, Interval y) {
  const Wide p[] = {Wide{x.low} * y.low, Wide{x.low} * y.high, Wide{x.high} * y.low,
                    Wide{x.high} * y.high};
  return {saturate(*std::min_element(p, p + 4)), saturate(*std::max_element(p, p + 4))};
}

Interval minus(Interval x, Interval y) {
  return {x.low == kLow || y.high == kHigh ? kLow : saturate(Wide{x.low} - y.high),
          x.high == kHigh || y.low == kLow ? kHigh : saturate(Wide{x.high} - y.low)};
}

// The integers i for which k * i, with k > 0, lies in `range`.
Interval divided(Interval range, int64_t k) {
  return {range.low == kLow ? kLow : -floor_divide(-range.low, k),
          range.high == kHigh ? kHigh : floor_divide(range.high, k)};
}

// Bounds each summand separately.
Interval plain_bounds(const Dim& dim) {
  Wide low = DimAlgebra::constant(dim), high = low;
  for (const Summand& summand : DimAlgebra::sum(dim)) {
    Interval range{summand.coefficient, summand.coefficient};
    for (const AtomPtr& atom : summand.product) range = times(range, atom->bounds);
    low += range.low;
    high += range.high;
  }
  return {saturate(low), saturate(high)};
}

Interval close_bounds(const Dim& dim, int rounds);

// rest + c min(a, b) is the smaller of rest + c a and rest + c b if c > 0, else the larger.
Interval with_extremum(const Dim& rest, const Atom& atom, int64_t c, int rounds) {
  const auto with_a = scaled_sum(atom.a, c, rest), with_b = scaled_sum(atom.b, c, rest);
  if (!with_a || !with_b) return kAll;
  const Interval x = close_bounds(*with_a, rounds), y = close_bounds(*with_b, rounds);
  if ((atom.kind == Kind::min) == (c > 0))
    return {std::min(x.low, y.low), std::min(x.high, y.high)};
  return {std::max(x.low, y.low), std::max(x.high, y.high)};
}

// c floor(x / k) is c / k (x - r) with 0 <= r < k, after dividing c and k by their common factor g.
Interval with_quotient(const Dim& rest, const Atom& atom, int64_t c, int rounds) {
  const int64_t g = std::gcd(c, atom.b.constant()), k = atom.b.constant() / g;
  if (k > kSymbolLimit) return kAll;
  const auto scaled = scaled_sum(rest, k, 0);
  const auto sum = scaled ? scaled_sum(atom.a, c / g, *scaled) : std::nullopt;
  if (!sum) return kAll;
  const Interval rests = times({0, atom.b.constant() - 1}, {c / g, c / g});
  return divided(minus(close_bounds(*sum, rounds), rests), k);
}

// The same for the product of c, the quotient x / m, and m.
Interval with_product(const Dim& rest, const Summand& summand, int rounds) {
  for (const AtomPtr& atom : summand.product) {
    if (atom->kind != Kind::floordiv || atom->b.is_constant()) continue;
    const Dim whole = atom->b * of_atom(atom);
    const auto m = DimAlgebra::sum(whole);
    if (m.size() != 1 || compare(m[0].product, summand.product) != 0 || m[0].coefficient <= 0 ||
        summand.coefficient % m[0].coefficient != 0)
      continue;
    const int64_t c = summand.coefficient / m[0].coefficient;
    const Interval most = plain_bounds(atom->b);
    const auto sum = scaled_sum(atom->a, c, rest);
    if (!sum || most.low < 0) continue;
    const Interval rests = times({0, std::max<int64_t>(most.high - 1, 0)}, {c, c});
    return minus(close_bounds(*sum, rounds), rests);
  }
  return kAll;
}

bool is_extremum(const Atom& atom) { return atom.kind == Kind::min || atom.kind == Kind::max; }

bool can_rewrite(const Summand& summand) {
  const Atom& atom = *summand.product[0];
  if (summand.coefficient == kLow) return false;
  if (summand.product.size() > 1) return true;
  return is_extremum(atom) ||
         (atom.kind == Kind::floordiv && atom.b.is_constant() && atom.b.constant() > 0);
}

int depth_of(const Summand& summand) {
  int depth = 0;
  for (const AtomPtr& atom : summand.product) depth = std::max(depth, atom->depth);
  return depth;
}

// Decomposes the deepest summand, which may contain the others.
Interval close_bounds(const Dim& dim, int rounds) {
  const Interval range = plain_bounds(dim);
  const Summand* deepest = nullptr;
  for (const Summand& summand : DimAlgebra::sum(dim))
    if (can_rewrite(summand) && (!deepest || depth_of(summand) > depth_of(*deepest)))
      deepest = &summand;
  if (rounds == 0 || !deepest) return range;
  const int64_t c = deepest->coefficient;
  const Atom& atom = *deepest->product[0];
  const Dim rest = dim - of_product(deepest->product, c);
  const Interval closer = deepest->product.size() > 1 ? with_product(rest, *deepest, rounds - 1)
                          : is_extremum(atom)         ? with_extremum(rest, atom, c, rounds - 1)
                                                      : with_quotient(rest, atom, c, rounds - 1);
  return {std::max(range.low, closer.low), std::min(range.high, closer.high)};
}

}  // namespace

Interval bounds(const Dim& dim) { return close_bounds(dim, kRounds); }

Interval call_bounds(Kind kind, const Dim& a_dim, const Dim& b_dim) {
  const Interval a = bounds(a_dim), b = bounds(b_dim);
  switch (kind) {
    case Kind::min:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Kind::max:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Kind::floordiv:
      if (b.low >= 1)
        return {a.low == kLow ? kLow : floor_divide(a.low, a.low < 0 ? b.low : b.high),
                a.high == kHigh ? kHigh : floor_divide(a.high, a.high < 0 ? b.high : b.low)};
      if (a.low >= 0 && b.low >= 0) return {0, a.high};
      return kAll;
    case Kind::mod:
      if (b.low >= 0) return {0, std::max<int64_t>(b.high - 1, 0)};
      return kAll;
    case Kind::symbol:
    case Kind::sum:
      break;
  }
  return kAll;
}

int64_t Dim::lower_bound() const { return bounds(*this).low; }
int64_t Dim::upper_bound() const { return bounds(*this).high; }

}  // namespace hg
