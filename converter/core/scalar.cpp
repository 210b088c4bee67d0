// SPDX-License-Identifier: Apache-2.0
// Arithmetic on constants and on sizes that depend on symbols.
#include "converter/core/scalar.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace hg::convert {
namespace {

using Kind = Scalar::Kind;

Scalar ratio(Dim top, Dim bottom) {
  if (top.is_constant() && bottom.is_constant() && bottom.constant() != 0)
    return Scalar::of(static_cast<double>(top.constant()) / static_cast<double>(bottom.constant()));
  return {Kind::ratio, std::move(top), std::move(bottom), 0, {}};
}

// Returns a real constant as a fraction if its denominator is a small power of two. Other fractions
// would round differently from the script's floating point arithmetic.
std::optional<Scalar> as_ratio(const Scalar& a) {
  if (a.kind == Kind::ratio) return a;
  if (a.is_integral()) return Scalar{Kind::ratio, a.top, 1, 0, {}};
  for (int64_t bottom = 1; bottom <= 1024; bottom *= 2) {
    const double top = a.number * static_cast<double>(bottom);
    if (std::fabs(top) < 0x1p31 && top == std::floor(top))
      return Scalar{Kind::ratio, Dim(static_cast<int64_t>(top)), bottom, 0, {}};
  }
  return std::nullopt;
}

bool is_nonnegative(const Dim& d) { return d.lower_bound() >= 0; }
bool is_positive(const Dim& d) { return d.lower_bound() > 0; }

double real_result(std::string_view op, double x, double y, bool& known) {
  known = true;
  if (op == "add") return x + y;
  if (op == "sub") return x - y;
  if (op == "mul") return x * y;
  if (op == "pow") return std::pow(x, y);
  if (op == "min") return x < y ? x : y;  // y if one is NaN, as in libtorch
  if (op == "max") return x > y ? x : y;
  known = y != 0;  // Python raises on division by zero
  if (!known) return 0;
  if (op == "div") return x / y;
  if (op == "floor_divide") return std::floor(x / y);
  if (op == "trunc_divide") return std::trunc(x / y);
  if (op == "fmod") return std::fmod(x, y);
  if (op == "remainder") return std::fmod(y + std::fmod(x, y), y);
  known = false;
  return 0;
}

std::optional<Scalar> integer_result(std::string_view op, const Dim& x, const Dim& y) {
  if (op == "add") return Scalar::of(x + y);
  if (op == "sub") return Scalar::of(x - y);
  if (op == "mul") return Scalar::of(x * y);
  if (op == "min") return Scalar::of(min(x, y));
  if (op == "max") return Scalar::of(max(x, y));
  if (op == "pow") {
    if (!y.is_constant() || y.constant() < 0 || y.constant() > 62) return std::nullopt;
    Dim power = 1;
    for (int64_t i = 0; i < y.constant(); ++i) power = power * x;
    return Scalar::of(power);
  }
  if (y == Dim(0)) return std::nullopt;
  if (op == "div") return ratio(x, y);
  if (op == "floor_divide") return Scalar::of(floordiv(x, y));
  if (op == "remainder") return Scalar::of(mod(x, y));
  if (op == "trunc_divide" || op == "fmod") {
    Dim quotient;
    if (x.is_constant() && y.is_constant()) {
      if (y.constant() == -1)
        quotient = Dim(0) - x;
      else
        quotient = x.constant() / y.constant();
    } else if (is_positive(y)) {  // -y < x < 0 gives 0
      quotient = floordiv(is_nonnegative(x) ? x : max(x, 0), y);
      if (!is_nonnegative(x + y - 1)) quotient = quotient - floordiv(max(Dim(0) - x, 0), y);
    } else {
      return std::nullopt;
    }
    return Scalar::of(op == "fmod" ? x - quotient * y : quotient);
  }
  return std::nullopt;
}

bool is_power_of_two(const Dim& d) {
  return d.is_constant() && d.constant() > 0 && (d.constant() & (d.constant() - 1)) == 0;
}
// These numbers, and their sums and products, are exact in floating point.
bool is_exact(const Scalar& a) { return is_power_of_two(a.bottom); }
bool only_scales(const Scalar& a) { return is_exact(a) && is_power_of_two(a.top); }

// Returns nothing if floats would round twice, because an exact integer could then come out lower
// or higher: n / 49 * 49 in floats can be less than n. A single rounding cannot cross an integer.
std::optional<Scalar> ratio_result(std::string_view op, const Scalar& a, const Scalar& b) {
  const bool both_exact = is_exact(a) && is_exact(b), divides = op == "div" || op == "floor_divide";
  if ((op == "add" || op == "sub") && !is_exact(a) && !is_exact(b)) return std::nullopt;
  if (op == "mul" && !both_exact && !only_scales(a) && !only_scales(b)) return std::nullopt;
  if (divides && !is_exact(b)) return std::nullopt;
  if (op == "add") {
    if (a.bottom == b.bottom) return ratio(a.top + b.top, a.bottom);
    return ratio(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom);
  }
  if (op == "sub") {
    if (a.bottom == b.bottom) return ratio(a.top - b.top, a.bottom);
    return ratio(a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom);
  }
  if (op == "mul") return ratio(a.top * b.top, a.bottom * b.bottom);
  if (op == "div" && b.top != Dim(0)) return ratio(a.top * b.bottom, a.bottom * b.top);
  if (op == "floor_divide" && b.top != Dim(0))
    return ratio(floordiv(a.top * b.bottom, a.bottom * b.top), 1);
  return std::nullopt;
}

}  // namespace

bool Scalar::is_constant() const {
  return kind == Kind::real || (top.is_constant() && bottom.is_constant());
}

double Scalar::as_double() const {
  if (kind == Kind::real) return number;
  return static_cast<double>(top.constant()) / static_cast<double>(bottom.constant());
}

std::optional<Scalar> apply(std::string_view op, const Scalar& a, const Scalar& b) {
  if (a.is_integral() && b.is_integral()) {
    if (op == "div" && a.is_constant() && b.is_constant() && b.top != Dim(0))
      return Scalar::of(a.as_double() / b.as_double());
    return integer_result(op, a.top, b.top);
  }
  if (a.is_constant() && b.is_constant()) {
    bool known = false;
    const double value = real_result(op, a.as_double(), b.as_double(), known);
    return known ? std::optional(Scalar::of(value)) : std::nullopt;
  }
  const auto x = as_ratio(a), y = as_ratio(b);
  if (!x || !y) return std::nullopt;
  return ratio_result(op, *x, *y);
}

std::optional<Scalar> apply(std::string_view op, const Scalar& a) {
  if (a.is_integral()) {
    if (op == "neg") return Scalar::of(Dim(0) - a.top);
    if (op == "abs") return Scalar::of(is_nonnegative(a.top) ? a.top : max(a.top, Dim(0) - a.top));
    return Scalar::of(a.top);
  }
  if (a.kind == Kind::real) {
    if (op == "neg") return Scalar::of(-a.number);
    if (op == "abs") return Scalar::of(std::fabs(a.number));
    if (op == "floor") return Scalar::of(std::floor(a.number));
    if (op == "ceil") return Scalar::of(std::ceil(a.number));
    if (op == "trunc") return Scalar::of(std::trunc(a.number));
    if (op == "round") return Scalar::of(std::nearbyint(a.number));  // half to even
    return std::nullopt;
  }
  if (op == "neg") return ratio(Dim(0) - a.top, a.bottom);
  if (a.bottom == Dim(1) && op != "abs") return a;
  if (op == "abs" && is_nonnegative(a.top) && is_positive(a.bottom)) return a;
  if (op == "floor") return ratio(floordiv(a.top, a.bottom), 1);
  if (op == "ceil") return ratio(Dim(0) - floordiv(Dim(0) - a.top, a.bottom), 1);
  if (op == "trunc" && is_nonnegative(a.top) && is_nonnegative(a.bottom))
    return ratio(floordiv(a.top, a.bottom), 1);
  return std::nullopt;
}

namespace {

Relation relation_of(std::string_view op) {
  return op == "eq"   ? Relation::eq
         : op == "ne" ? Relation::ne
         : op == "lt" ? Relation::lt
                      : Relation::le;
}

// Returns both as terms of sizes, multiplied by the same positive number; nothing if one is a real.
std::optional<std::pair<Dim, Dim>> comparable(const Scalar& a, const Scalar& b) {
  if (a.is_integral() && b.is_integral()) return std::pair(a.top, b.top);
  const auto x = as_ratio(a), y = as_ratio(b);
  if (!x || !y || !is_nonnegative(x->bottom) || !is_nonnegative(y->bottom)) return std::nullopt;
  return std::pair(x->top * y->bottom, y->top * x->bottom);
}

}  // namespace

std::optional<bool> compare(std::string_view op, const Scalar& a, const Scalar& b) {
  if (op == "ne") {
    const auto equal = compare("eq", a, b);
    return equal ? std::optional(!*equal) : std::nullopt;
  }
  if (op == "gt") return compare("lt", b, a);
  if (op == "ge") return compare("le", b, a);
  if (a.is_constant() && b.is_constant() && !(a.is_integral() && b.is_integral())) {
    const double x = a.as_double(), y = b.as_double();
    return op == "eq" ? x == y : op == "lt" ? x < y : x <= y;
  }
  // A symbol compared with a constant outside the finite range, such as infinity.
  for (const auto* side : {&a, &b}) {
    if (side->kind != Kind::real || !std::isinf(side->number)) continue;
    if (op == "eq") return false;
    return (side == &a) == (side->number < 0);
  }
  const auto sides = comparable(a, b);
  if (!sides) return std::nullopt;
  const Guard guard{sides->first, relation_of(op), sides->second, "", {}};
  return truth(guard);
}

std::optional<Scalar> relate(std::string_view op, const Scalar& a, const Scalar& b) {
  if (op == "gt") return relate("lt", b, a);
  if (op == "ge") return relate("le", b, a);
  if (const auto known = compare(op, a, b)) return Scalar::of(*known);
  const auto sides = comparable(a, b);
  if (!sides) return std::nullopt;
  const Relation relation = relation_of(op);
  const Dim room = sides->second - sides->first;
  const Dim differs = min(max(max(room, -room), 0), 1);  // the 0 gives it a lower bound
  Scalar result{Kind::boolean, differs, 1, 0, {}};
  if (relation == Relation::eq) result.top = 1 - differs;
  if (relation == Relation::lt) result.top = min(max(room, 0), 1);
  if (relation == Relation::le) result.top = min(max(room + 1, 0), 1);
  result.comparison =
      std::make_shared<const Guard>(Guard{sides->first, relation, sides->second, "", {}});
  return result;
}

Scalar negation(const Scalar& a) {
  Scalar result{Kind::boolean, 1 - a.top, 1, 0, {}};
  if (!a.comparison) return result;
  Guard guard = *a.comparison;
  switch (guard.relation) {
    case Relation::eq:
      guard.relation = Relation::ne;
      break;
    case Relation::ne:
      guard.relation = Relation::eq;
      break;
    case Relation::lt:
    case Relation::le:
      std::swap(guard.left, guard.right);
      guard.relation = guard.relation == Relation::lt ? Relation::le : Relation::lt;
      break;
  }
  result.comparison = std::make_shared<const Guard>(std::move(guard));
  return result;
}

Scalar both(const Scalar& a, const Scalar& b) {
  if (a.top.is_constant()) return a.top == Dim(1) ? b : a;
  if (b.top.is_constant()) return b.top == Dim(1) ? a : b;
  return {Kind::boolean, min(a.top, b.top), 1, 0, {}};
}

Scalar equal(const Dim& a, const Dim& b) { return *relate("eq", Scalar::of(a), Scalar::of(b)); }

void guard(Graph& graph, const Scalar& condition, std::string_view reason) {
  if (const Guard* const comparison = condition.comparison.get())
    graph.guard(comparison->left, comparison->relation, comparison->right, std::string(reason));
  else
    graph.guard(condition.top, Relation::eq, 1, std::string(reason));
}

Scalar either(const Scalar& a, const Scalar& b) { return negation(both(negation(a), negation(b))); }

std::optional<int64_t> usual_value(const Dim& dim) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  std::map<int64_t, int> votes;
  int asked = 0;
  for (const int64_t size : {2, 3, 5, 8, 16, 31, 64, 100, 224}) {
    Bindings sizes;
    for (const std::string& symbol : symbols) (void)sizes.bind(symbol, size).ok();
    if (const Result<int64_t> value = dim.evaluate(sizes); value.ok()) ++votes[*value], ++asked;
  }
  for (const auto& [value, count] : votes)
    if (count * 2 > asked) return value;
  return std::nullopt;
}

std::optional<Scalar> to_integer(const Scalar& a) {
  if (a.is_integral()) return Scalar::of(a.top);
  const auto whole = apply("trunc", a);
  if (!whole) return std::nullopt;
  if (whole->kind == Kind::ratio) return Scalar::of(whole->top);
  if (!(std::fabs(whole->number) < 0x1p63)) return std::nullopt;
  return Scalar::of(Dim(static_cast<int64_t>(whole->number)));
}

std::optional<Scalar> to_real(const Scalar& a) {
  if (!a.is_integral()) return a;
  if (a.is_constant()) return Scalar::of(a.as_double());
  return Scalar{Kind::ratio, a.top, 1, 0, {}};
}

std::optional<Scalar> to_boolean(const Scalar& a) {
  if (a.kind == Kind::boolean) return a;
  return relate("ne", a, Scalar::of(Dim(0)));
}

}  // namespace hg::convert
