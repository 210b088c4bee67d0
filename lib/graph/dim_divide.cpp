// SPDX-License-Identifier: Apache-2.0
// Division of sizes: cancels common factors, and merges nested quotients into one.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "lib/graph/atom.h"

namespace hg {
namespace {

using Kind = Atom::Kind;

// Returns `product` without the atoms of `divisor`, if it contains all of them.
std::optional<Product> without(const Product& product, const Product& divisor) {
  Product left;
  size_t k = 0;
  for (const AtomPtr& atom : product) {
    if (k < divisor.size() && atom->key == divisor[k]->key)
      ++k;
    else
      left.push_back(atom);
  }
  if (k < divisor.size()) return std::nullopt;
  return left;
}

Product common_atoms(const Product& a, const Product& b) {
  Product common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common),
                        [](const AtomPtr& x, const AtomPtr& y) { return x->key < y->key; });
  return common;
}

// The common factor of all summands: a positive number and atoms.
Summand content(const Dim& dim) {
  Summand common{{}, constant_of(dim)};
  const auto sum = sum_of(dim);
  if (constant_of(dim) == 0 && !sum.empty()) common.product = sum[0].product;
  for (const Summand& summand : sum) {
    common.coefficient = common.coefficient == kLeastInteger || summand.coefficient == kLeastInteger
                             ? 1
                             : std::gcd(common.coefficient, summand.coefficient);
    if (!common.product.empty()) common.product = common_atoms(common.product, summand.product);
  }
  if (common.coefficient < 0)
    common.coefficient = common.coefficient == kLeastInteger ? 1 : -common.coefficient;
  return common;
}

// dim / (coefficient * product), which must divide every summand.
Dim divided(const Dim& dim, const Summand& divisor) {
  std::vector<Dim> parts = {constant_of(dim) / divisor.coefficient};
  for (const Summand& summand : sum_of(dim))
    parts.push_back(of_product(*without(summand.product, divisor.product),
                               summand.coefficient / divisor.coefficient));
  return total_of(std::move(parts));
}

bool is_one_summand(const Dim& dim) {
  return !dim.is_constant() && length(dim) == 1 && sum_of(dim)[0].coefficient != kLeastInteger;
}

// The quotient if b divides a exactly as polynomials.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  if (a == b) return Dim(1);
  const auto divisor = sum_of(b);
  if (divisor.empty()) return std::nullopt;
  const Summand& lead = divisor.back();
  Dim rest = a, quotient(0);
  for (int step = 0; step < 64; ++step) {
    if (rest == Dim(0)) return quotient;
    const auto sum = sum_of(rest);
    std::optional<Dim> factor;
    for (auto it = sum.rbegin(); it != sum.rend() && !factor; ++it) {
      if (lead.coefficient == -1 ? it->coefficient == kLeastInteger
                                 : it->coefficient % lead.coefficient != 0)
        continue;
      if (const auto left = without(it->product, lead.product))
        factor = of_product(*left, it->coefficient / lead.coefficient);
    }
    if (!factor) break;
    quotient = quotient + *factor;
    rest = rest - *factor * b;
  }
  // A factor that is not multiplied out.
  if (length(b) < 2) return std::nullopt;
  return exact_quotient(a, kept_sum(b));
}

bool has_symbols_only(const Product& product) {
  return std::all_of(product.begin(), product.end(),
                     [](const AtomPtr& atom) { return atom->kind == Kind::symbol; });
}

// floor(x / d) for a number d > 0; the result is `whole` + `sign` * this.
struct Division {
  Dim x;
  int64_t d;
  Dim whole = 0;
  int64_t sign = 1;

  // Moves the multiples of d out of the quotient. Coefficients of symbols are reduced modulo d, and
  // d - 1 becomes -1: mod((d - 1) n, d) is mod(-n, d). For calls, this would make sums longer layer
  // by layer.
  void take_whole() {
    Sum quotients, rests;
    for (const auto& [product, coefficient] : sum_of(x)) {
      int64_t quotient = coefficient / d, rest = coefficient % d;
      if (rest != 0 && !has_symbols_only(product)) {
        quotient = 0;
        rest = coefficient;
      } else if (d > 2 && (rest == d - 1 || rest == 1 - d)) {
        quotient += rest > 0 ? 1 : -1;
        rest = rest > 0 ? -1 : 1;
      }
      if (quotient != 0) quotients.push_back({product, quotient});
      if (rest != 0) rests.push_back({product, rest});
    }
    const int64_t constant = constant_of(x), quotient = floor_divide(constant, d);
    whole = added(whole, DimAlgebra::make(std::move(quotients), quotient), sign);
    x = DimAlgebra::make(std::move(rests), constant - quotient * d);
  }

  // floor((g y + c) / (g e)) is floor((y + floor(c / g)) / e).
  bool cancel() {
    int64_t g = d;
    for (const Summand& summand : sum_of(x)) g = std::gcd(g, summand.coefficient);
    if (g == 1) return false;
    Sum sum(sum_of(x).begin(), sum_of(x).end());
    for (Summand& summand : sum) summand.coefficient /= g;
    x = DimAlgebra::make(std::move(sum), floor_divide(constant_of(x), g));
    d /= g;
    return true;
  }

  // floor((floor(y / k) + r) / d) is floor((y + k r) / (k d)), and -floor(y / k) is
  // floor((k - 1 - y) / k).
  bool flatten() {
    for (const Summand& summand : sum_of(x)) {
      const Atom* atom = summand.product.size() == 1 ? summand.product[0].get() : nullptr;
      if (!atom || atom->kind != Kind::floordiv || !atom->b.is_constant() ||
          atom->b.constant() <= 0 || (summand.coefficient != 1 && summand.coefficient != -1))
        continue;
      const int64_t k = atom->b.constant();
      if (k > kSymbolLimit / d) continue;
      const Dim rest = added(x, of_product(summand.product, summand.coefficient), -1);
      const Dim top = summand.coefficient == 1 ? atom->a : added(Dim(k - 1), atom->a, -1);
      const auto flat = scaled_sum(rest, k, top);
      if (!flat) continue;
      x = *flat;
      d *= k;
      return true;
    }
    return false;
  }

  // floor(-x / d) is -floor((x + d - 1) / d).
  bool turn() {
    if (sum_of(x)[0].coefficient > 0) return false;
    x = added(Dim(d - 1), x, -1);
    sign = -sign;
    return true;
  }

  Dim result() {
    for (;;) {
      take_whole();
      if (x.is_constant()) return whole;
      if (cancel() || flatten() || turn()) continue;
      const Interval range = bounds(x);
      const int64_t low = floor_divide(range.low, d);
      const Dim quotient =
          low == floor_divide(range.high, d) ? Dim(low) : call_of(Kind::floordiv, x, d);
      return added(whole, quotient, sign);
    }
  }
};

// Divides the summands of a that b, a single summand, divides. Leaves the others in a.
Dim whole_part(Dim& a, const Summand& b) {
  Sum rests;
  std::vector<Dim> quotients;
  for (const Summand& summand : sum_of(a)) {
    const auto left = without(summand.product, b.product);
    const bool divides =
        left && summand.coefficient != kLeastInteger && summand.coefficient % b.coefficient == 0;
    if (divides)
      quotients.push_back(of_product(*left, summand.coefficient / b.coefficient));
    else
      rests.push_back(summand);
  }
  a = DimAlgebra::make(std::move(rests), constant_of(a));
  return total_of(std::move(quotients));
}

}  // namespace

// As one summand: the common factor of all summands, times the rest of the sum as an atom.
Dim kept_sum(const Dim& dim) {
  if (length(dim) == 1) return dim;
  Summand common = content(dim);
  if (sum_of(dim)[0].coefficient < 0) common.coefficient = -common.coefficient;
  const Dim atom = sum_atom(divided(dim, common));
  return DimAlgebra::make(
      {{product_of(common.product, sum_of(atom)[0].product), common.coefficient}}, 0);
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (b == Dim(1)) return a;
  if (b == Dim(0)) return call_of(Kind::floordiv, a, b);
  if (b.is_constant()) {
    if (b.constant() == -1) return -a;
    if (b.constant() < 0 && b.constant() != kLeastInteger) return floordiv(-a, -b);
    if (a.is_constant()) return floor_divide(a.constant(), b.constant());
    if (b.constant() == kLeastInteger) return call_of(Kind::floordiv, a, b);
    return Division{a, b.constant()}.result();
  }
  if (const auto quotient = exact_quotient(a, b)) return *quotient;
  Dim top = a, bottom = b, whole = 0;
  if (is_one_summand(b)) whole = whole_part(top, sum_of(b)[0]);
  if (sum_of(bottom)[0].coefficient < 0) {
    top = -top;
    bottom = -bottom;
  }
  if (top == Dim(0)) return whole;
  Summand common = content(bottom);
  const Summand other = content(top);
  common.coefficient = std::gcd(common.coefficient, other.coefficient);
  common.product = common_atoms(common.product, other.product);
  if (common.coefficient != 1 || !common.product.empty())
    return whole + floordiv(divided(top, common), divided(bottom, common));
  // The floor of a floor.
  if (const Atom* atom = single_atom(top);
      atom && atom->kind == Kind::floordiv && bounds(atom->b).low > 0 && bounds(bottom).low >= 0)
    return whole + floordiv(atom->a, atom->b * bottom);
  if (bounds(top).low >= 0 && bounds(bottom).low > 0 && bounds(bottom - top).low > 0) return whole;
  return whole + call_of(Kind::floordiv, top, bottom);
}

Dim mod(const Dim& a, const Dim& b) {
  if (b == Dim(1) || b == Dim(-1)) return 0;
  if (b == Dim(0)) return call_of(Kind::mod, a, b);
  if (b.is_constant() || is_one_summand(b)) return a - floordiv(a, b) * b;
  if (exact_quotient(a, b)) return 0;
  return call_of(Kind::mod, a, b);
}

Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - Dim(1), b); }

}  // namespace hg
