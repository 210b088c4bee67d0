// SPDX-License-Identifier: Apache-2.0
// Describes the integers that the check drew for inputs without a range, and the option that sets a
// range.
#include <algorithm>
#include <limits>

#include "converter/check/checker.h"
#include "converter/check/number_rules.h"
#include "lib/graph/element.h"

namespace hg::convert {
namespace {

// Returns the smallest and the largest integer; nothing for an empty tensor.
std::optional<std::pair<int64_t, int64_t>> limits_of(const Tensor& integers) {
  if (integers.count() == 0) return std::nullopt;
  std::pair<int64_t, int64_t> limits{std::numeric_limits<int64_t>::max(),
                                     std::numeric_limits<int64_t>::min()};
  for (int64_t i = 0; i < integers.count(); ++i) {
    const auto value = static_cast<int64_t>(element(integers, i));
    limits = {std::min(limits.first, value), std::max(limits.second, value)};
  }
  return limits;
}

std::string describe(const std::pair<int64_t, int64_t>& limits) {
  if (limits.first == limits.second) return str_cat(limits.first);
  return str_cat("from ", limits.first, " to ", limits.second);
}

std::string said_rule(const NumberRule& rule) {
  return rule.numbers ? str_cat(", ", describe(rule), " as ", rule.op, "() requires") : "";
}

}  // namespace

// Returns --input 'n:i64[]=0..4', or --input 'n=input.1:i64[]=0..4' for a renamed input.
std::string Checker::range_option(size_t i, const std::pair<int64_t, int64_t>& limits) const {
  const bool renamed = i < job_.inputs.size() && !job_.inputs[i].new_name.empty();
  std::string type = str_cat(specs_[i].type);
  std::erase(type, ' ');
  return str_cat("--input '", specs_[i].name, renamed ? "=" + job_.inputs[i].spec.name : "", ":",
                 type, "=", limits.first, "..", limits.second, "'");
}

// Whether the check chooses the integers of the i-th input.
bool Checker::draws_integers(size_t i) const {
  return is_integer_input(specs_[i]) && !(i < job_.inputs.size() && job_.inputs[i].range);
}

// Returns "integers from 0 to 5; 'p' are pivots of a factorization"; empty for default values.
std::string Checker::describe_draw(const Draw& draw) const {
  std::string text = describe(draw);
  for (const InputSpec& spec : specs_)
    if (spec.rule.numbers)
      text += str_cat(text.empty() ? "'" : "; '", spec.name, "' are ", describe(spec.rule));
  return text;
}

void Checker::note_drawn(const Inputs& inputs) {
  drawn_.resize(specs_.size());
  for (size_t i = 0; i < specs_.size(); ++i) {
    const auto now = draws_integers(i) ? limits_of(inputs.reference[i].tensor) : std::nullopt;
    if (!now) continue;
    if (!drawn_[i]) drawn_[i] = now;
    drawn_[i]->first = std::min(drawn_[i]->first, now->first);
    drawn_[i]->second = std::max(drawn_[i]->second, now->second);
  }
}

// Reports the integers of inputs without a range.
void Checker::say_drawn() {
  for (size_t i = 0; i < drawn_.size(); ++i) {
    if (!drawn_[i]) continue;
    result_.drawn.push_back(str_cat(
        "'", specs_[i].name, "' ", describe(*drawn_[i]), said_rule(specs_[i].rule),
        refused_numbers_.empty() ? "" : ", as libtorch refuses others: ", refused_numbers_));
    if (specs_[i].rule.numbers) continue;
    const bool narrowed = !refused_numbers_.empty() && drawn_[i]->first >= 0;
    result_.drawn.back() +=
        "; give a range as in " +
        range_option(i, narrowed ? *drawn_[i] : std::pair(int64_t{0}, int64_t{4}));
  }
}

// Names the integers that were drawn, and the options that select others.
std::string Checker::other_numbers(const Inputs& inputs) const {
  std::string text, options;
  for (size_t i = 0; i < specs_.size(); ++i) {
    const auto drawn = draws_integers(i) ? limits_of(inputs.reference[i].tensor) : std::nullopt;
    if (!drawn) continue;
    const std::pair<int64_t, int64_t> others{drawn->first < 0 ? 0 : 1, 4};
    text += str_cat(text.empty() ? "; '" : ", '", specs_[i].name, "' was ", describe(*drawn));
    options += " " + range_option(i, others);
  }
  return text.empty() ? "" : text + "; for other numbers give ranges, as in" + options;
}

}  // namespace hg::convert
