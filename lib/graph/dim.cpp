// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes. The normal form is constant + sum of coefficient * product of atoms; an atom is a
// symbol or a floordiv, mod, min or max that did not simplify, or a product too long to multiply
// out. Products and sums are sorted by the text of their atoms, which makes equality structural.
#include "hg/dim.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>

namespace hg {
namespace {

constexpr int64_t kSymbolLimit = int64_t{1} << 40;
constexpr size_t kMaxMultipliedOut = 2048;  // characters
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

int64_t floor_modulo(int64_t a, int64_t b) { return a - floor_divide(a, b) * b; }

__extension__ using Wide = __int128;

// Coefficients wrap around on overflow; evaluate() checks.
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrapping_multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

struct Atom {
  enum class Kind : uint8_t { symbol, floordiv, mod, min, max, mul };
  Kind kind = Kind::symbol;
  std::string text;  // the symbol, or the printed call; the sorting key
  Dim a, b;
};

using AtomPtr = std::shared_ptr<const Atom>;
using Product = std::vector<AtomPtr>;  // sorted by text

bool atom_less(const AtomPtr& x, const AtomPtr& y) { return x->text < y->text; }

struct ProductLess {
  bool operator()(const Product& a, const Product& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), atom_less);
  }
};
using Sum = std::map<Product, int64_t, ProductLess>;  // the empty product is the constant

}  // namespace

struct Dim::Terms {
  Sum sum;  // without the empty product; never empty
};

// What needs to look inside a Dim.
struct DimAlgebra {
  static Sum terms(const Dim& dim) { return dim.terms_ ? dim.terms_->sum : Sum(); }

  static Sum with_constant(const Dim& dim) {
    Sum sum = terms(dim);
    if (dim.constant_ != 0) sum[{}] = dim.constant_;
    return sum;
  }

  static Dim make(Sum sum, int64_t constant) {
    std::erase_if(sum, [](const auto& term) { return term.second == 0; });
    Dim dim(constant);
    if (!sum.empty()) dim.terms_ = std::make_shared<Dim::Terms>(Dim::Terms{std::move(sum)});
    return dim;
  }

  static Dim of_product(const Product& product, int64_t coefficient) {
    if (product.empty()) return Dim(coefficient);
    Sum sum;
    sum[product] = coefficient;
    return make(std::move(sum), 0);
  }

  static Dim of_atom(Atom atom) {
    return of_product({std::make_shared<const Atom>(std::move(atom))}, 1);
  }

  static Dim call(Atom::Kind kind, std::string_view name, const Dim& a, const Dim& b) {
    return of_atom({kind, text(name, "(", a, ", ", b, ")"), a, b});
  }

  static const Atom* single_atom(const Dim& dim) {
    if (dim.constant_ != 0 || !dim.terms_ || dim.terms_->sum.size() != 1) return nullptr;
    const auto& [product, coefficient] = *dim.terms_->sum.begin();
    return coefficient == 1 && product.size() == 1 ? product[0].get() : nullptr;
  }

  // The quotient when b divides a exactly as polynomials.
  static std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
    const Sum divisor = with_constant(b);
    if (divisor.empty()) return std::nullopt;
    const auto& [lead, lead_coefficient] = *divisor.rbegin();
    Dim rest = a, quotient(0);
    for (int step = 0; step < 64; ++step) {
      const Sum sum = with_constant(rest);
      if (sum.empty()) return quotient;
      bool divided = false;
      for (auto it = sum.rbegin(); it != sum.rend() && !divided; ++it) {
        const auto& [product, coefficient] = *it;
        if (coefficient % lead_coefficient != 0) continue;
        Product left;
        std::set_difference(product.begin(), product.end(), lead.begin(), lead.end(),
                            std::back_inserter(left), atom_less);
        if (left.size() + lead.size() != product.size()) continue;
        const Dim factor = of_product(left, coefficient / lead_coefficient);
        quotient = quotient + factor;
        rest = rest - factor * b;
        divided = true;
      }
      if (!divided) return std::nullopt;
    }
    return std::nullopt;
  }

  struct Interval {
    int64_t low, high;
  };
  static int64_t saturate(Wide value) {
    return value < kMin ? kMin : value > kMax ? kMax : static_cast<int64_t>(value);
  }
  static Interval times(Interval x, Interval y) {
    const Wide p[] = {Wide{x.low} * y.low, Wide{x.low} * y.high, Wide{x.high} * y.low,
                      Wide{x.high} * y.high};
    return {saturate(*std::min_element(p, p + 4)), saturate(*std::max_element(p, p + 4))};
  }
  static Interval bounds(const Atom& atom) {
    if (atom.kind == Atom::Kind::symbol) return {0, kSymbolLimit};
    const Interval a = bounds(atom.a), b = bounds(atom.b);
    switch (atom.kind) {
      case Atom::Kind::min:
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      case Atom::Kind::max:
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      case Atom::Kind::floordiv:
        if (b.low >= 1)
          return {floor_divide(a.low, a.low < 0 ? b.low : b.high),
                  floor_divide(a.high, a.high < 0 ? b.high : b.low)};
        if (a.low >= 0 && b.low >= 0) return {0, a.high};
        return {kMin, kMax};
      case Atom::Kind::mod:
        if (b.low >= 0) return {0, std::max<int64_t>(b.high - 1, 0)};
        return {kMin, kMax};
      case Atom::Kind::mul:
        return times(a, b);
      case Atom::Kind::symbol:
        break;
    }
    return {kMin, kMax};
  }
  static Interval bounds(const Dim& dim) {
    Wide low = dim.constant_, high = dim.constant_;
    for (const auto& [product, coefficient] : terms(dim)) {
      Interval range{coefficient, coefficient};
      for (const AtomPtr& atom : product) range = times(range, bounds(*atom));
      low += range.low;
      high += range.high;
    }
    return {saturate(low), saturate(high)};
  }

  // The same with c floordiv(x, k) taken as c / g (y - r), where g divides c and k, y is
  // floordiv(x, k / g) and 0 <= r < g: so 8 floordiv(x, 8) is never above x.
  static Interval tight_bounds(const Dim& dim, int rounds = 3) {
    const Interval plain = bounds(dim);
    Dim rest(dim.constant_);
    Wide low = 0, high = 0;  // of what the rests r add
    for (const auto& [product, coefficient] : terms(dim)) {
      const Atom* atom = product.size() == 1 ? product[0].get() : nullptr;
      const bool divides = atom && atom->kind == Atom::Kind::floordiv && atom->b.is_constant() &&
                           atom->b.constant() > 0 && coefficient != kMin;
      const int64_t g = divides ? std::gcd(coefficient, atom->b.constant()) : 1;
      if (g == 1) {
        rest = rest + of_product(product, coefficient);
        continue;
      }
      const int64_t times = coefficient / g;
      rest = rest + floordiv(atom->a, Dim(atom->b.constant() / g)) * Dim(times);
      (times > 0 ? low : high) -= Wide{times} * (g - 1);
    }
    if (rounds == 0 || rest == dim) return plain;
    const Interval other = tight_bounds(rest, rounds - 1);
    return {std::max(plain.low, saturate(other.low + low)),
            std::min(plain.high, saturate(other.high + high))};
  }

  static Dim added(const Dim& a, const Dim& b) {
    Sum sum = terms(a);
    for (const auto& [product, coefficient] : terms(b))
      sum[product] = wrapping_add(sum[product], coefficient);
    return make(std::move(sum), wrapping_add(a.constant_, b.constant_));
  }

  // x + mod(-x, b) is x rounded up to a multiple of b, and x - mod(x, b) rounded down.
  static Dim rounded(const Dim& dim) {
    for (const auto& [product, coefficient] : terms(dim)) {
      const Atom* atom = product.size() == 1 ? product[0].get() : nullptr;
      if (!atom || atom->kind != Atom::Kind::mod || !atom->b.is_constant() ||
          atom->b.constant() <= 0 || (coefficient != 1 && coefficient != -1))
        continue;
      const Dim rest = added(dim, of_product(product, -coefficient));
      if (!(mod(added(rest, atom->a * Dim(coefficient)), atom->b) == Dim(0))) continue;
      const Dim most = coefficient == 1 ? rest + atom->b - Dim(1) : rest;
      return floordiv(most, atom->b) * atom->b;
    }
    return dim;
  }

  // Multiplied out, a product of sums may grow without measure: about this many characters.
  static bool too_long(const Sum& a, const Sum& b) {
    const auto length = [](const Sum& sum) {
      size_t characters = 0;
      for (const auto& [product, coefficient] : sum)
        for (const AtomPtr& atom : product) characters += atom->text.size() + 1;
      return characters;
    };
    return length(a) * b.size() + length(b) * a.size() > kMaxMultipliedOut;
  }

  static Result<int64_t> evaluate(const Atom& atom, const Bindings& bindings) {
    if (atom.kind == Atom::Kind::symbol) {
      if (const auto value = bindings.find(atom.text)) return *value;
      return invalid_argument("the size '", atom.text, "' is not known");
    }
    HG_TRY_ASSIGN(const int64_t a, atom.a.evaluate(bindings));
    HG_TRY_ASSIGN(const int64_t b, atom.b.evaluate(bindings));
    if (atom.kind == Atom::Kind::mul) {
      int64_t product = 0;
      HG_CHECK(!__builtin_mul_overflow(a, b, &product), "the size ", atom.text, " overflows");
      return product;
    }
    if (atom.kind == Atom::Kind::min) return std::min(a, b);
    if (atom.kind == Atom::Kind::max) return std::max(a, b);
    if (b == 0) return invalid_argument("the size ", atom.text, " divides ", a, " by zero");
    HG_CHECK(b != -1 || a != kMin, "the size ", atom.text, " overflows");
    return atom.kind == Atom::Kind::floordiv ? floor_divide(a, b) : floor_modulo(a, b);
  }

  static Dim substitute(const Atom& atom, const Bindings& bindings) {
    if (atom.kind == Atom::Kind::symbol) {
      const auto value = bindings.find(atom.text);
      return value ? Dim(*value) : Dim(std::string_view(atom.text));
    }
    const Dim a = atom.a.substitute(bindings), b = atom.b.substitute(bindings);
    switch (atom.kind) {
      case Atom::Kind::floordiv:
        return floordiv(a, b);
      case Atom::Kind::mod:
        return mod(a, b);
      case Atom::Kind::mul:
        return a * b;
      case Atom::Kind::min:
        return min(a, b);
      default:
        return max(a, b);
    }
  }

  static void collect(const Dim& dim, std::vector<std::string>& out) {
    for (const auto& [product, coefficient] : terms(dim))
      for (const AtomPtr& atom : product) {
        if (atom->kind == Atom::Kind::symbol) {
          if (std::find(out.begin(), out.end(), atom->text) == out.end()) out.push_back(atom->text);
        } else {
          collect(atom->a, out);
          collect(atom->b, out);
        }
      }
  }

  // Whether `dim` is an atom of this kind with `x` among its operands.
  static bool holds(const Dim& dim, Atom::Kind kind, const Dim& x) {
    const Atom* atom = single_atom(dim);
    return atom && atom->kind == kind && (atom->a == x || atom->b == x);
  }

  static Dim extremum(Atom::Kind kind, std::string_view name, const Dim& a, const Dim& b) {
    const bool is_max = kind == Atom::Kind::max;
    const Atom::Kind other = is_max ? Atom::Kind::min : Atom::Kind::max;
    const Interval difference = tight_bounds(a - b);
    if (difference.low >= 0) return is_max ? a : b;
    if (difference.high <= 0) return is_max ? b : a;
    if (holds(b, kind, a) || holds(a, other, b)) return b;  // max(a, max(a, c)), max(min(b, c), b)
    if (holds(a, kind, b) || holds(b, other, a)) return a;
    return text(a) < text(b) ? call(kind, name, a, b) : call(kind, name, b, a);
  }
};

std::optional<int64_t> Bindings::find(std::string_view symbol) const {
  for (const auto& [name, value] : values_)
    if (name == symbol) return value;
  return std::nullopt;
}

Status Bindings::bind(std::string_view symbol, int64_t value) {
  if (const auto known = find(symbol)) {
    HG_CHECK(*known == value, "the size '", symbol, "' is ", *known, " in one place and ", value,
             " in another");
    return {};
  }
  values_.emplace_back(std::string(symbol), value);
  return {};
}

Dim::Dim(const char* symbol) : Dim(std::string_view(symbol)) {}

Dim::Dim(std::string_view symbol) {
  *this = DimAlgebra::of_atom({Atom::Kind::symbol, std::string(symbol), {}, {}});
}

std::string_view Dim::symbol() const {
  const Atom* atom = DimAlgebra::single_atom(*this);
  return atom && atom->kind == Atom::Kind::symbol ? std::string_view(atom->text)
                                                  : std::string_view();
}

void Dim::collect_symbols(std::vector<std::string>& out) const { DimAlgebra::collect(*this, out); }

Result<int64_t> Dim::evaluate(const Bindings& bindings) const {
  int64_t total = constant_;
  for (const auto& [product, coefficient] : DimAlgebra::terms(*this)) {
    int64_t term = coefficient;
    for (const AtomPtr& atom : product) {
      HG_TRY_ASSIGN(const int64_t factor, DimAlgebra::evaluate(*atom, bindings));
      HG_CHECK(!__builtin_mul_overflow(term, factor, &term), "the size ", *this, " overflows");
    }
    HG_CHECK(!__builtin_add_overflow(total, term, &total), "the size ", *this, " overflows");
  }
  return total;
}

Dim Dim::substitute(const Bindings& bindings) const {
  Dim total(constant_);
  for (const auto& [product, coefficient] : DimAlgebra::terms(*this)) {
    Dim term(coefficient);
    for (const AtomPtr& atom : product) term = term * DimAlgebra::substitute(*atom, bindings);
    total = total + term;
  }
  return total;
}

int64_t Dim::lower_bound() const { return DimAlgebra::tight_bounds(*this).low; }
int64_t Dim::upper_bound() const { return DimAlgebra::tight_bounds(*this).high; }

Dim operator+(const Dim& a, const Dim& b) {
  if (!a.terms_ && !b.terms_) return wrapping_add(a.constant_, b.constant_);
  return DimAlgebra::rounded(DimAlgebra::added(a, b));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.terms_ && !b.terms_) return wrapping_multiply(a.constant_, b.constant_);
  const Sum left = DimAlgebra::with_constant(a), right = DimAlgebra::with_constant(b);
  if (a.terms_ && b.terms_ && DimAlgebra::too_long(left, right))
    return text(a) < text(b) ? DimAlgebra::call(Atom::Kind::mul, "mul", a, b)
                             : DimAlgebra::call(Atom::Kind::mul, "mul", b, a);
  Sum sum;
  for (const auto& [p, x] : left)
    for (const auto& [q, y] : right) {
      Product product = p;
      product.insert(product.end(), q.begin(), q.end());
      std::sort(product.begin(), product.end(), atom_less);
      sum[product] = wrapping_add(sum[product], wrapping_multiply(x, y));
    }
  const auto constant = sum.extract(Product());
  return DimAlgebra::make(std::move(sum), constant.empty() ? 0 : constant.mapped());
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

bool operator==(const Dim& a, const Dim& b) {
  if (a.constant_ != b.constant_) return false;
  if (a.terms_ == b.terms_) return true;
  if (!a.terms_ || !b.terms_) return false;
  const Sum &x = a.terms_->sum, &y = b.terms_->sum;
  const ProductLess less;
  return x.size() == y.size() &&
         std::equal(x.begin(), x.end(), y.begin(), [&](const auto& s, const auto& t) {
           return s.second == t.second && !less(s.first, t.first) && !less(t.first, s.first);
         });
}

Dim floordiv(const Dim& a, const Dim& b) {
  using Kind = Atom::Kind;
  if (b == Dim(1)) return a;
  if (b == Dim(0)) return DimAlgebra::call(Kind::floordiv, "floordiv", a, b);
  if (a.is_constant() && b.is_constant()) return floor_divide(a.constant(), b.constant());
  if (const auto quotient = DimAlgebra::exact_quotient(a, b)) return *quotient;
  if (!b.is_constant() || b.constant() < 0)
    return DimAlgebra::call(Kind::floordiv, "floordiv", a, b);
  // b is a positive number: take out what it divides.
  const int64_t divisor = b.constant();
  Dim whole = floor_divide(a.constant(), divisor);
  Dim rest = floor_modulo(a.constant(), divisor);
  for (const auto& [product, coefficient] : DimAlgebra::terms(a)) {
    if (coefficient % divisor == 0)
      whole = whole + DimAlgebra::of_product(product, coefficient / divisor);
    else
      rest = rest + DimAlgebra::of_product(product, coefficient);
  }
  if (rest.is_constant()) return whole;
  if (const Atom* inner = DimAlgebra::single_atom(rest);
      inner && inner->kind == Kind::floordiv && inner->b.is_constant() && inner->b.constant() > 0)
    return whole + floordiv(inner->a, inner->b * b);
  return whole + DimAlgebra::call(Kind::floordiv, "floordiv", rest, b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (b == Dim(1)) return 0;
  if (b == Dim(0)) return DimAlgebra::call(Atom::Kind::mod, "mod", a, b);
  if (a.is_constant() && b.is_constant()) return floor_modulo(a.constant(), b.constant());
  if (DimAlgebra::exact_quotient(a, b)) return 0;
  if (!b.is_constant() || b.constant() < 0) return DimAlgebra::call(Atom::Kind::mod, "mod", a, b);
  Dim rest = floor_modulo(a.constant(), b.constant());
  bool nested = false;  // mod(mod(x, 8), 4) is mod(x, 4)
  for (const auto& [product, coefficient] : DimAlgebra::terms(a)) {
    const Atom* atom = product.size() == 1 ? product[0].get() : nullptr;
    const int64_t factor = floor_modulo(coefficient, b.constant());
    const bool same = atom && atom->kind == Atom::Kind::mod && atom->b.is_constant() &&
                      atom->b.constant() > 0 && atom->b.constant() % b.constant() == 0;
    nested |= same;
    rest = DimAlgebra::added(
        rest, same ? atom->a * Dim(factor) : DimAlgebra::of_product(product, factor));
  }
  if (nested) return mod(rest, b);
  if (rest.is_constant()) return floor_modulo(rest.constant(), b.constant());
  return DimAlgebra::call(Atom::Kind::mod, "mod", rest, b);
}

Dim min(const Dim& a, const Dim& b) { return DimAlgebra::extremum(Atom::Kind::min, "min", a, b); }
Dim max(const Dim& a, const Dim& b) { return DimAlgebra::extremum(Atom::Kind::max, "max", a, b); }
Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - Dim(1), b); }

void append_text(std::string& out, const Dim& dim) {
  bool first = true;
  for (const auto& [product, coefficient] : DimAlgebra::terms(dim)) {
    if (first)
      out.append(coefficient < 0 ? "-" : "");
    else
      out.append(coefficient < 0 ? " - " : " + ");
    if (magnitude(coefficient) != 1) {
      append_text(out, magnitude(coefficient));
      out.push_back('*');
    }
    for (size_t i = 0; i < product.size(); ++i) {
      if (i > 0) out.push_back('*');
      out.append(product[i]->text);
    }
    first = false;
  }
  if (first) {
    append_text(out, dim.constant());
  } else if (dim.constant_ != 0) {
    out.append(dim.constant_ < 0 ? " - " : " + ");
    append_text(out, magnitude(dim.constant_));
  }
}

void append_text(std::string& out, const Shape& shape) {
  out.push_back('[');
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out.append(", ");
    append_text(out, shape[i]);
  }
  out.push_back(']');
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

Result<Sizes> evaluate(const Shape& shape, const Bindings& bindings) {
  HG_CHECK(shape.size() <= kMaxRank, "a tensor of rank ", int64_t(shape.size()),
           " exceeds the limit of ", kMaxRank, " dimensions");
  Sizes sizes;
  int64_t bytes = 8;  // of the largest element
  for (const Dim& dim : shape) {
    HG_TRY_ASSIGN(const int64_t size, dim.evaluate(bindings));
    HG_CHECK(size >= 0, "the size ", dim, " would be ", size);
    HG_CHECK(size == 0 || !__builtin_mul_overflow(bytes, size, &bytes), "a tensor of shape ", shape,
             " exceeds 2^63 bytes");
    sizes.push_back(size);
  }
  return sizes;
}

void append_text(std::string& out, const TensorType& type) {
  append_text(out, type.dtype);
  append_text(out, type.shape);
}

}  // namespace hg
