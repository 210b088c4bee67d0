// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/known_types.h"

#include <algorithm>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

// Returns the replacement of the symbol; null if there is none yet.
const Dim* find(const Renamed& renamed, std::string_view symbol) {
  const auto found = std::find_if(renamed.begin(), renamed.end(),
                                  [&](const auto& each) { return each.first == symbol; });
  return found == renamed.end() ? nullptr : &found->second;
}

// Returns the expression with its symbols replaced.
Result<Dim> renamed_dim(const Dim& dim, const Renamed& renamed) {
  const std::string from = str_cat(dim);
  std::string to;
  const auto part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t at = 0; at < from.size();) {
    size_t end = at;
    while (end < from.size() && part(from[end])) ++end;
    const std::string word = from.substr(at, std::max<size_t>(end - at, 1));
    const Dim* found = find(renamed, word);
    to += found ? str_cat("(", *found, ")") : word;
    at += word.size();
  }
  return Dim::parse(to);
}

// If one symbol of an expression has no replacement yet, and replacing it by the only symbol of the
// other expression makes both equal, records the replacement.
void rename_inside(const Dim& from, const Dim& to, Renamed& renamed) {
  std::vector<std::string> old, fresh;
  from.collect_symbols(old);
  to.collect_symbols(fresh);
  std::erase_if(old, [&](const std::string& symbol) { return find(renamed, symbol) != nullptr; });
  if (old.size() != 1 || fresh.size() != 1) return;
  renamed.emplace_back(old[0], Dim(std::string_view(fresh[0])));
  const Result<Dim> want = renamed_dim(from, renamed);
  if (!want.ok() || !(*want == to)) renamed.pop_back();
}

}  // namespace

std::optional<std::pair<double, double>> checked_numbers(const ScriptInput& input) {
  if (!input.numbers) return std::nullopt;
  constexpr int64_t kFurther = 62;  // length of a range without an end
  const auto [smallest, largest] = *input.numbers;
  const int64_t from = std::max(smallest, -kFurther);
  const int64_t to = std::max(from, std::min(largest, from + kFurther));
  return std::pair(static_cast<double>(from), static_cast<double>(to));
}

void require_narrower(InputOption& option, const ScriptInput& input, Renamed& renamed) {
  const TensorType &given = option.spec.type, &known = *input.known;
  const auto fail = [&](const std::string& why) {
    return Failure{Exit::usage,
                   str_cat("--input '", input.name, "': ", why, "; the program takes ", known)};
  };
  if (given.dtype != known.dtype)
    throw fail(str_cat("the program's dtype is ", known.dtype, ", not ", given.dtype));
  if (given.rank() != known.rank())
    throw fail(str_cat("the program's rank is ", known.rank(), ", not ", given.rank()));
  for (int d = 0; d < given.rank(); ++d) {
    const Dim& from = known.shape[d];
    const Dim& to = given.shape[d];
    const std::string symbol(from.symbol());
    if (!symbol.empty() && !find(renamed, symbol)) {
      renamed.emplace_back(symbol, to);
      continue;
    }
    rename_inside(from, to, renamed);
    const Result<Dim> want = renamed_dim(from, renamed);
    if (!want.ok()) throw fail(std::string(want.status().message()));
    if (!(*want == to)) throw fail(str_cat("size ", d, " is ", *want, " in the program, not ", to));
  }
  if (!option.range) option.range = checked_numbers(input);
}

}  // namespace hg::convert
