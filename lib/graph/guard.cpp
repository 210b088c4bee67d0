// SPDX-License-Identifier: Apache-2.0
// Guards: assumptions of a graph about its sizes. Checks them and prints them as sentences.
#include <algorithm>

#include "hg/op.h"
#include "lib/graph/atom.h"
#include "lib/graph/border.h"
#include "lib/graph/condition.h"

namespace hg {
namespace {

// The requirement on the side that is not a number: "other than 1", "below 8". `flipped`: the
// number is on the left.
std::string_view demand(Relation relation, bool flipped) {
  switch (relation) {
    case Relation::eq:
      return "equal to ";
    case Relation::ne:
      return "other than ";
    case Relation::lt:
      return flipped ? "above " : "below ";
    case Relation::le:
      return flipped ? "at least " : "at most ";
  }
  return "";
}

void append_reason(std::string& out, const Guard& guard) {
  if (!guard.reason.empty()) append_text(out, str_cat(", because of ", guard.reason));
  const Origin& origin = guard.origin;
  const std::string& place = origin.source.empty() ? origin.module : origin.source;
  if (!place.empty()) append_text(out, str_cat(" at ", place));
}

bool has_number(const Dim& dim, const Bindings& sizes) {
  bool is_nested = false;  // has other atoms than symbols
  for (const Summand& summand : sum_of(dim))
    for (const AtomPtr& atom : summand.product) {
      is_nested |= atom->kind != Atom::Kind::symbol;
      if (atom->kind == Atom::Kind::symbol && !sizes.find(atom->key)) return false;
    }
  if (!is_nested) return true;
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const std::string& symbol : symbols)
    if (!sizes.find(symbol)) return false;
  return true;
}

constexpr size_t kMostLetters = 60;  // of both sides in a sentence; else prints their numbers

// A guard on a term that is 0 or 1.
std::optional<std::string> condition_of(const Guard& guard) {
  if (guard.relation != Relation::eq || !guard.right.is_constant()) return std::nullopt;
  const int64_t value = guard.right.constant();
  if (value != 0 && value != 1) return std::nullopt;
  return condition_text(guard.left, value == 1);
}

// "n=1, m=2"; empty without symbols.
std::string given_sizes(const std::vector<std::string>& symbols, const Bindings& sizes) {
  std::string given;
  for (const std::string& symbol : symbols)
    given += str_cat(given.empty() ? "" : ", ", symbol, "=", *sizes.find(symbol));
  return given;
}

}  // namespace

void append_text(std::string& out, const Guard& guard) {
  if (const auto condition = condition_of(guard)) {
    out += *condition;
    return append_reason(out, guard);
  }
  constexpr std::string_view kSigns[] = {" == ", " != ", " < ", " <= "};
  append_text(out, guard.left);
  out.append(kSigns[static_cast<size_t>(guard.relation)]);
  append_text(out, guard.right);
  append_reason(out, guard);
}

std::optional<bool> truth(const Guard& guard) {
  const Dim room = guard.right - guard.left;
  const int64_t low = room.lower_bound(), high = room.upper_bound();
  const bool equal = low == 0 && high == 0, apart = low > 0 || high < 0;
  switch (guard.relation) {
    case Relation::eq:
      return equal ? std::optional(true) : apart ? std::optional(false) : std::nullopt;
    case Relation::ne:
      return apart ? std::optional(true) : equal ? std::optional(false) : std::nullopt;
    case Relation::lt:
      return low > 0 ? std::optional(true) : high <= 0 ? std::optional(false) : std::nullopt;
    case Relation::le:
      return low >= 0 ? std::optional(true) : high < 0 ? std::optional(false) : std::nullopt;
  }
  return std::nullopt;
}

bool has_assertions(const Graph& graph) {
  return !graph.guards().empty() ||
         std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
           return (node.op->def.traits & kAssertion) != 0 ||
                  std::any_of(node.subgraphs.begin(), node.subgraphs.end(),
                              [](const auto& body) { return has_assertions(*body); });
         });
}

Status check(const Guard& guard, const Bindings& sizes) {
  return or_no_memory([&]() -> Status {
    if (!has_number(guard.left, sizes) || !has_number(guard.right, sizes)) return {};
    HG_TRY_ASSIGN(const int64_t left, guard.left.evaluate(sizes));
    HG_TRY_ASSIGN(const int64_t right, guard.right.evaluate(sizes));
    const bool holds = guard.relation == Relation::eq   ? left == right
                       : guard.relation == Relation::ne ? left != right
                       : guard.relation == Relation::lt ? left < right
                                                        : left <= right;
    if (holds) return {};
    const bool flipped = guard.left.is_constant() && !guard.right.is_constant();
    const Dim &subject = flipped ? guard.right : guard.left,
              &limit = flipped ? guard.left : guard.right;
    std::string message;
    std::vector<std::string> symbols;
    subject.collect_symbols(symbols);
    if (const auto condition = condition_of(guard)) {
      message = str_cat("the model was converted for sizes with ", *condition, ", not ",
                        given_sizes(symbols, sizes));
      append_reason(message, guard);
      return invalid_argument(message);
    }
    if (str_cat(subject, limit).size() > kMostLetters) {
      limit.collect_symbols(symbols);
      message = str_cat("the model was converted for other sizes than ",
                        given_sizes(symbols, sizes), ": ");
      message += guard.relation == Relation::ne
                     ? str_cat("two sizes that must differ are both ", left)
                     : str_cat(flipped ? right : left, " is not ", demand(guard.relation, flipped),
                               flipped ? left : right);
      append_reason(message, guard);
      return invalid_argument(message);
    }
    if (subject.symbol().empty() && !symbols.empty())  // the values of the symbols
      message = str_cat("with ", given_sizes(symbols, sizes), ": ");
    message += str_cat(subject, " is ", flipped ? right : left);
    if (!limit.is_constant()) message += str_cat(" and ", limit, " is ", flipped ? left : right);
    message += str_cat(", but the model was converted for ", subject, " ",
                       demand(guard.relation, flipped), limit);
    append_reason(message, guard);
    return invalid_argument(message);
  });
}

}  // namespace hg
