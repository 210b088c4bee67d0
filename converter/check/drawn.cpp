// SPDX-License-Identifier: Apache-2.0
// Which integers the check drew where nobody gave a range, in words, and the option that gives one.
#include <algorithm>
#include <limits>

#include "converter/check/checker.h"
#include "lib/graph/element.h"

namespace hg::convert {
namespace {

// The least and the largest integer; none where there is no element.
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

// --input 'n:i64[]=0..4'
std::string range_option(const InputSpec& spec, const std::pair<int64_t, int64_t>& limits) {
  std::string type = str_cat(spec.type);
  std::erase(type, ' ');
  return str_cat("--input '", spec.name, ":", type, "=", limits.first, "..", limits.second, "'");
}

}  // namespace

// Whether the check chooses which integers the i-th input has.
bool Checker::draws_integers(size_t i) const {
  return is_integer_input(specs_[i]) && !(i < job_.inputs.size() && job_.inputs[i].range);
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

// Which integers were drawn, where nobody gave a range.
void Checker::say_drawn() {
  for (size_t i = 0; i < drawn_.size(); ++i) {
    if (!drawn_[i]) continue;
    result_.drawn.push_back(str_cat(
        "'", specs_[i].name, "' ", describe(*drawn_[i]),
        refused_numbers_.empty() ? "" : ", as libtorch refuses others: ", refused_numbers_));
    const bool narrowed = !refused_numbers_.empty() && drawn_[i]->first >= 0;
    result_.drawn.back() +=
        "; give a range as in " +
        range_option(specs_[i], narrowed ? *drawn_[i] : std::pair(int64_t{0}, int64_t{4}));
  }
}

// What to do where the model is for other integers than those that were drawn.
std::string Checker::other_numbers(const Inputs& inputs) const {
  std::string text, options;
  for (size_t i = 0; i < specs_.size(); ++i) {
    const auto drawn = draws_integers(i) ? limits_of(inputs.reference[i].tensor) : std::nullopt;
    if (!drawn) continue;
    const std::pair<int64_t, int64_t> others{drawn->first < 0 ? 0 : 1, 4};
    text += str_cat(text.empty() ? "; '" : ", '", specs_[i].name, "' was ", describe(*drawn));
    options += " " + range_option(specs_[i], others);
  }
  return text.empty() ? "" : text + "; for other numbers give ranges, as in" + options;
}

}  // namespace hg::convert
