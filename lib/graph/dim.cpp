// SPDX-License-Identifier: Apache-2.0
// The normal form of symbolic sizes: sums and products are multiplied out, and min and max have no
// redundant operands.
#include "hg/dim.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "lib/graph/atom.h"
#include "lib/graph/overflows.h"

namespace hg {
namespace {

using Kind = Atom::Kind;

constexpr size_t kMaxMultipliedOut = 128;  // summands of an expanded product of sums
constexpr size_t kMaxFactors = 32;         // atoms of one product
constexpr size_t kMaxOperands = 16;        // of a flattened min or max

thread_local bool overflowed = false;

// Numbers and coefficients wrap around on overflow, as in scripts.
int64_t wrapping_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) overflowed = true;
  return sum;
}
int64_t wrapping_multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) overflowed = true;
  return product;
}

Dim multiplied(const Dim& dim, int64_t factor) { return added(Dim(0), dim, factor); }

size_t most_factors(const Dim& dim) {
  size_t most = 0;
  for (const Summand& summand : sum_of(dim)) most = std::max(most, summand.product.size());
  return most;
}

// The operands of nested calls of this kind, flattened.
void collect_operands(const Dim& dim, Kind kind, std::vector<Dim>& out) {
  const Atom* atom = single_atom(dim);
  if (!atom || atom->kind != kind || out.size() >= kMaxOperands) {
    out.push_back(dim);
    return;
  }
  collect_operands(atom->a, kind, out);
  collect_operands(atom->b, kind, out);
}

// Whether y is redundant in a min or max with x.
bool decides(Kind kind, const Dim& x, const Dim& y) {
  const Interval difference = bounds(added(x, y, -1));
  return kind == Kind::max ? difference.low >= 0 : difference.high <= 0;
}

Dim extremum(Kind kind, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant())
    return kind == Kind::max ? std::max(a.constant(), b.constant())
                             : std::min(a.constant(), b.constant());
  std::vector<Dim> operands, added_operands;
  collect_operands(a, kind, operands);
  collect_operands(b, kind, added_operands);
  for (Dim& y : added_operands) {
    const auto no_need = [&](const Dim& x) { return decides(kind, x, y); };
    if (std::any_of(operands.begin(), operands.end(), no_need)) continue;
    std::erase_if(operands, [&](const Dim& x) { return decides(kind, y, x); });
    operands.push_back(std::move(y));
  }
  std::vector<std::pair<std::string, Dim>> sorted;
  for (Dim& operand : operands) sorted.emplace_back(key_of(operand), std::move(operand));
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& x, const auto& y) { return x.first < y.first; });
  Dim result = std::move(sorted[0].second);
  for (size_t i = 1; i < sorted.size(); ++i) result = call_of(kind, result, sorted[i].second);
  return result;
}

// A broadcast size as most * least, where least is 0 or 1, and 0 if most is 0. Sizes that broadcast
// are not negative, whatever their bounds.
struct BroadcastSize {
  Dim most, least;
};

BroadcastSize broadcast_size_of(const Dim& dim) {
  const auto sum = sum_of(dim);
  if (constant_of(dim) == 0 && !sum.empty())
    for (const AtomPtr& atom : sum[0].product) {
      if (atom->kind != Kind::min || atom->bounds.high != 1) continue;
      std::vector<Dim> parts;  // of dim over the atom
      for (const Summand& summand : sum) {
        Product rest = summand.product;
        const auto at = std::find_if(rest.begin(), rest.end(),
                                     [&](const AtomPtr& each) { return each->key == atom->key; });
        if (at == rest.end()) break;
        rest.erase(at);
        parts.push_back(of_product(rest, summand.coefficient));
      }
      if (parts.size() != sum.size()) continue;
      const Dim most = total_of(std::move(parts)), least = of_atom(atom);
      if (min(most, least) == least) return {most, least};
    }
  return {dim, min(dim, 1)};
}

}  // namespace

Overflows::Overflows() : outer_(overflowed) { overflowed = false; }
Overflows::~Overflows() { overflowed = outer_; }
bool Overflows::any() const { return overflowed; }

size_t length(const Dim& dim) { return sum_of(dim).size() + (constant_of(dim) != 0 ? 1 : 0); }

Product product_of(const Product& a, const Product& b) {
  Product product;
  product.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(product),
             [](const AtomPtr& x, const AtomPtr& y) { return x->key < y->key; });
  return product;
}

Dim added(const Dim& a, const Dim& b, int64_t factor) {
  const auto x = sum_of(a), y = sum_of(b);
  Sum sum;
  sum.reserve(x.size() + y.size());
  const auto give = [&](const Product& product, int64_t coefficient) {
    if (coefficient != 0) sum.push_back({product, coefficient});
  };
  size_t i = 0, k = 0;
  while (i < x.size() || k < y.size()) {
    const int order = i == x.size() ? 1 : k == y.size() ? -1 : compare(x[i].product, y[k].product);
    if (order < 0) {
      give(x[i].product, x[i].coefficient);
    } else if (order > 0) {
      give(y[k].product, wrapping_multiply(y[k].coefficient, factor));
    } else {
      give(x[i].product,
           wrapping_add(x[i].coefficient, wrapping_multiply(y[k].coefficient, factor)));
    }
    i += order <= 0;
    k += order >= 0;
  }
  return DimAlgebra::make(std::move(sum),
                          wrapping_add(constant_of(a), wrapping_multiply(constant_of(b), factor)));
}

// Adds in pairs, because adding to a long sum copies it.
Dim total_of(std::vector<Dim> parts) {
  if (parts.empty()) return 0;
  for (size_t step = 1; step < parts.size(); step *= 2)
    for (size_t i = 0; i + step < parts.size(); i += 2 * step)
      parts[i] = added(parts[i], parts[i + step], 1);
  return std::move(parts[0]);
}

Dim call_of(Kind kind, const Dim& a, const Dim& b) {
  return of_atom(
      std::make_shared<const Atom>(kind, key_of(kind, a, b), call_bounds(kind, a, b), a, b));
}

std::span<const Summand> DimAlgebra::sum(const Dim& dim) {
  return dim.terms_ ? std::span<const Summand>(dim.terms_->sum) : std::span<const Summand>();
}

Dim DimAlgebra::make(Sum sum, int64_t constant) {
  Dim dim(constant);
  if (!sum.empty()) dim.terms_ = std::make_shared<Dim::Terms>(Dim::Terms{std::move(sum)});
  return dim;
}

int compare(const Product& a, const Product& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (const int order = a[i]->key.compare(b[i]->key); order != 0) return order;
  }
  return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
}

Dim of_atom(AtomPtr atom) {
  Sum sum;
  sum.push_back({{std::move(atom)}, 1});
  return DimAlgebra::make(std::move(sum), 0);
}

Dim of_product(const Product& product, int64_t coefficient) {
  if (product.empty() || coefficient == 0) return coefficient;
  if (product.size() == 1 && product[0]->kind == Kind::sum)
    return multiplied(product[0]->a, coefficient);
  Sum sum;
  sum.push_back({product, coefficient});
  return DimAlgebra::make(std::move(sum), 0);
}

const Atom* single_atom(const Dim& dim) {
  const auto sum = sum_of(dim);
  if (constant_of(dim) != 0 || sum.size() != 1) return nullptr;
  return sum[0].coefficient == 1 && sum[0].product.size() == 1 ? sum[0].product[0].get() : nullptr;
}

Dim sum_atom(const Dim& dim) {
  return of_atom(
      std::make_shared<const Atom>(Kind::sum, key_of(Kind::sum, dim, 0), bounds(dim), dim));
}

std::optional<Dim> scaled_sum(const Dim& dim, int64_t factor, const Dim& other) {
  constexpr int64_t kSafe = int64_t{1} << 61;
  const auto fits = [&](int64_t value, int64_t times) {
    return value != kLeastInteger && (value < 0 ? -value : value) < kSafe / times;
  };
  const auto all_fit = [&](const Dim& of, int64_t times) {
    return fits(constant_of(of), times) &&
           std::all_of(sum_of(of).begin(), sum_of(of).end(),
                       [&](const Summand& summand) { return fits(summand.coefficient, times); });
  };
  const bool safe = factor != kLeastInteger && factor != 0 && all_fit(other, 1) &&
                    all_fit(dim, factor < 0 ? -factor : factor);
  return safe ? std::optional(added(other, dim, factor)) : std::nullopt;
}

Dim::Dim(const char* symbol) : Dim(std::string_view(symbol)) {}

Dim::Dim(std::string_view symbol) {
  *this = of_atom(
      std::make_shared<const Atom>(Kind::symbol, std::string(symbol), Interval{0, kSymbolLimit}));
}

std::string_view Dim::symbol() const {
  const Atom* atom = single_atom(*this);
  return atom && atom->kind == Kind::symbol ? std::string_view(atom->key) : std::string_view();
}

Dim operator+(const Dim& a, const Dim& b) {
  if (b.is_constant() && b.constant_ == 0) return a;
  return added(a, b, 1);
}

Dim operator-(const Dim& a, const Dim& b) {
  if (b.is_constant() && b.constant_ == 0) return a;
  return added(a, b, -1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant()) return a.constant_ == 1 ? b : multiplied(b, a.constant_);
  if (b.is_constant()) return b.constant_ == 1 ? a : multiplied(a, b.constant_);
  if (length(a) > 1 && length(b) > 1 && length(a) * length(b) > kMaxMultipliedOut)
    return kept_sum(a) * kept_sum(b);
  if (most_factors(a) + most_factors(b) > kMaxFactors)
    return most_factors(a) < 2 ? a * sum_atom(b) : sum_atom(a) * b;
  std::vector<Dim> parts;
  for (const Summand& x : sum_of(a)) {
    Sum sum;
    for (const Summand& y : sum_of(b))
      sum.push_back(
          {product_of(x.product, y.product), wrapping_multiply(x.coefficient, y.coefficient)});
    std::sort(sum.begin(), sum.end(),
              [](const Summand& s, const Summand& t) { return compare(s.product, t.product) < 0; });
    std::erase_if(sum, [](const Summand& summand) { return summand.coefficient == 0; });
    parts.push_back(DimAlgebra::make(std::move(sum), 0));
    parts.push_back(of_product(x.product, wrapping_multiply(x.coefficient, constant_of(b))));
  }
  parts.push_back(multiplied(b, constant_of(a)));
  return total_of(std::move(parts));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.constant_ != b.constant_) return false;
  if (a.terms_ == b.terms_) return true;
  const auto x = sum_of(a), y = sum_of(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Summand& s, const Summand& t) {
    return s.coefficient == t.coefficient && compare(s.product, t.product) == 0;
  });
}

Dim min(const Dim& a, const Dim& b) { return extremum(Kind::min, a, b); }
Dim max(const Dim& a, const Dim& b) { return extremum(Kind::max, a, b); }

Dim broadcast_size(const Dim& a, const Dim& b) {
  const BroadcastSize x = broadcast_size_of(a), y = broadcast_size_of(b);
  return max(x.most, y.most) * min(x.least, y.least);
}

Dim count(const Shape& shape) {
  Dim product = 1;
  for (const Dim& dim : shape) product = product * dim;
  return product;
}

Shape to_shape(const Sizes& sizes) { return Shape(sizes.begin(), sizes.end()); }

bool is_constant(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(); });
}

}  // namespace hg
