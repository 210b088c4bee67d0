// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/condition.h"

#include <algorithm>
#include <span>
#include <vector>

#include "hg/status.h"
#include "lib/graph/atom.h"

namespace hg {
namespace {

using Kind = Atom::Kind;

struct Words {
  std::string text;
  bool is_or = false;  // an `or` needs parentheses inside an `and`
};

bool is_truth(const Dim& dim) { return dim.lower_bound() >= 0 && dim.upper_bound() <= 1; }

// The operands of nested min or max.
void collect_operands(Kind kind, const Dim& dim, std::vector<Dim>& operands) {
  const Atom* const atom = single_atom(dim);
  if (atom == nullptr || atom->kind != kind) return operands.push_back(dim);
  collect_operands(kind, atom->a, operands);
  collect_operands(kind, atom->b, operands);
}

// The operands of an `and` or an `or`.
Words joined(std::span<const Words> parts, bool is_or) {
  if (parts.size() == 1) return parts[0];
  Words all{"", is_or};
  for (const Words& part : parts) {
    if (!all.text.empty()) all.text += is_or ? " or " : " and ";
    all.text += part.is_or && !is_or ? str_cat("(", part.text, ")") : part.text;
  }
  return all;
}

std::optional<Words> comparison_of_choice(const Dim& difference, std::string_view op);

// Prints left OP right, where left - right is `difference`, without negative terms on either side.
std::optional<Words> comparison(const Dim& difference, std::string_view op) {
  for (const Atom* atom : post_order(difference))
    if (atom->kind == Kind::min || atom->kind == Kind::max)
      return comparison_of_choice(difference, op);
  Dim left, right;
  for (const auto& [product, coefficient] : DimAlgebra::sum(difference))
    (coefficient > 0 ? left : right) =
        added(coefficient > 0 ? left : right, of_product(product, 1), std::abs(coefficient));
  const int64_t constant = DimAlgebra::constant(difference);
  (constant > 0 ? left : right) = (constant > 0 ? left : right) + std::abs(constant);
  return Words{str_cat(left, " ", op, " ", right)};
}

// The same for max(a, b) + c, comparing each operand: max(n, m) < 4 is n < 4 and m < 4. Equality to
// 0 can be printed if the result of one operand is known: max(n, m) == n is m <= n.
std::optional<Words> comparison_of_choice(const Dim& difference, std::string_view op) {
  const auto sum = DimAlgebra::sum(difference);
  const auto found = std::find_if(sum.begin(), sum.end(), [](const auto& each) {
    const Kind kind = each.product[0]->kind;
    return each.product.size() == 1 && (each.coefficient == 1 || each.coefficient == -1) &&
           (kind == Kind::min || kind == Kind::max);
  });
  if (found == sum.end()) return std::nullopt;
  const Dim choice = of_atom(found->product[0]), rest = difference - choice * found->coefficient;
  const Kind kind = found->product[0]->kind;
  const bool is_max = (kind == Kind::max) == (found->coefficient == 1);
  std::vector<Dim> operands;
  collect_operands(kind, choice, operands);
  for (Dim& operand : operands) operand = operand * found->coefficient + rest;
  bool is_or = !is_max;
  if (op == "==" || op == "!=") {
    if (std::erase(operands, Dim(0)) == 0) return std::nullopt;
    is_or = op == "!=";
    if (is_max == is_or)
      for (Dim& operand : operands) operand = -operand;
    op = is_or ? "<" : "<=";
  }
  if (operands.empty()) return std::nullopt;
  std::vector<Words> parts;
  for (const Dim& operand : operands) {
    auto words = operand.is_constant() ? std::nullopt : comparison(operand, op);
    if (!words) return std::nullopt;
    parts.push_back(*std::move(words));
  }
  return joined(parts, is_or);
}

// Whether the size, which is never negative, is positive; whether it is 0 if `holds` is false.
std::optional<Words> is_positive(const Dim& size, bool holds) {
  std::vector<Dim> operands;
  collect_operands(Kind::max, size, operands);
  std::erase(operands, Dim(0));
  if (operands.size() == 2 && operands[0] == -operands[1]) {  // |d|
    const bool flipped = operands[0].upper_bound() < operands[1].upper_bound();
    return comparison(operands[flipped ? 1 : 0], holds ? "!=" : "==");
  }
  if (operands.size() == 1 && size.lower_bound() >= 0 && !(operands[0] == size))
    return holds ? comparison(-operands[0], "<") : comparison(operands[0], "<=");
  return comparison(size, holds ? "!=" : "==");
}

std::optional<Words> words_of(const Dim& term, bool holds);

// The terms are 0 or 1. Terms of a min may be larger, which counts as 1.
std::optional<Words> words_of_all(std::span<const Dim> terms, bool holds, bool is_or) {
  std::vector<Words> parts;
  for (const Dim& term : terms) {
    if (term == Dim(1)) continue;  // the upper limit of a min
    auto words = is_truth(term) ? words_of(term, holds) : is_positive(term, holds);
    if (!words) return std::nullopt;
    parts.push_back(*std::move(words));
  }
  return joined(parts, is_or);
}

std::optional<Words> words_of(const Dim& term, bool holds) {
  const auto sum = DimAlgebra::sum(term);
  const int64_t constant = DimAlgebra::constant(term);
  if (sum.size() != 1) return std::nullopt;
  if (constant == 1 && sum[0].coefficient == -1) return words_of(1 - term, !holds);
  if (constant != 0 || sum[0].coefficient != 1) return std::nullopt;
  if (sum[0].product.size() > 1) {
    std::vector<Dim> factors;
    for (const AtomPtr& atom : sum[0].product) factors.push_back(of_atom(atom));
    return words_of_all(factors, holds, !holds);
  }
  const Kind kind = sum[0].product[0]->kind;
  if (kind != Kind::min && kind != Kind::max) return std::nullopt;
  std::vector<Dim> operands;
  collect_operands(kind, term, operands);
  const bool fits = std::all_of(operands.begin(), operands.end(), [&](const Dim& operand) {
    return kind == Kind::max ? is_truth(operand) : operand.lower_bound() >= 0;
  });
  return fits ? words_of_all(operands, holds, holds == (kind == Kind::max)) : std::nullopt;
}

}  // namespace

std::optional<std::string> condition_text(const Dim& term, bool holds) {
  if (!is_truth(term)) return std::nullopt;
  auto words = words_of(term, holds);
  if (!words) return std::nullopt;
  return std::move(words->text);
}

}  // namespace hg
