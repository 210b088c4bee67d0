// SPDX-License-Identifier: Apache-2.0
#include "converter/check/size_cases.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace hg::convert {
namespace {

constexpr int64_t kDense = 130;  // all sizes up to this one are tried
constexpr int64_t kSparse[] = {160,  200,  256,  257,  300,     384,     400,    512,
                               513,  640,  768,  800,  1000,    1024,    1025,   1500,
                               2000, 2048, 4096, 8192, 1 << 14, 1 << 16, 1 << 20};
constexpr int64_t kFew[] = {1, 2, 3,  4,  5,  6, 7,
                            8, 9, 12, 16, 17, 0};  // for several symbols at once
constexpr int64_t kMostNumber = int64_t{1} << 40;
constexpr int64_t kMostSizeSteps = 3000;
constexpr size_t kMostLetters = 40;  // longest comparison that is printed unchanged

using Holds = std::function<bool(int64_t)>;

// Includes sizes near the numbers in the cases, at which their terms change.
std::vector<int64_t> sizes_to_try(std::span<const SizeCase* const> cases) {
  std::set<int64_t> sizes(std::begin(kSparse), std::end(kSparse));
  for (int64_t size = 0; size <= kDense; ++size) sizes.insert(size);
  for (const SizeCase* each : cases) {
    const std::string text = str_cat(each->left, " ", each->right);
    for (size_t at = 0; at < text.size();) {
      int64_t number = 0;
      const auto [end, problem] =
          std::from_chars(text.data() + at, text.data() + text.size(), number);
      at = std::max(at + 1, static_cast<size_t>(end - text.data()));
      if (problem != std::errc() || number <= 0 || number > kMostNumber) continue;
      for (const int64_t times : {1, 2, 3, 4})
        for (const int64_t beside : {-1, 0, 1}) sizes.insert(times * number + beside);
    }
  }
  return {sizes.begin(), sizes.end()};
}

bool case_holds(const SizeCase& each, const Bindings& sizes) {
  const Result<int64_t> left = each.left.evaluate(sizes), right = each.right.evaluate(sizes);
  return left.ok() && right.ok() && *left < *right;
}

// Returns the first size after `before` with the answer of `after`; the answer changes once in
// between.
int64_t boundary(const Holds& is_held, int64_t before, int64_t after) {
  const bool answer = is_held(after);
  while (after - before > 1) {
    const int64_t middle = before + (after - before) / 2;
    (is_held(middle) == answer ? after : before) = middle;
  }
  return after;
}

// Finds a divisor for which all sizes with the same remainder have the same answer.
std::optional<std::string> divisibility(const std::string& n, const std::vector<bool>& answers) {
  for (int64_t m = 2; m <= 32; ++m) {
    std::vector<std::optional<bool>> rest(static_cast<size_t>(m));
    bool is_periodic = true;
    for (int64_t size = 1; size <= kDense && is_periodic; ++size) {
      std::optional<bool>& known = rest[static_cast<size_t>(size % m)];
      is_periodic =
          known.value_or(answers[static_cast<size_t>(size)]) == answers[static_cast<size_t>(size)];
      known = answers[static_cast<size_t>(size)];
    }
    if (!is_periodic) continue;
    const auto count = std::count(rest.begin(), rest.end(), true);
    if (count == 1) {
      const auto at = std::find(rest.begin(), rest.end(), true) - rest.begin();
      return at == 0 ? str_cat(n, " divisible by ", m)
                     : str_cat(n, " % ", m, " = ", static_cast<int64_t>(at));
    }
    if (count == m - 1 && !*rest[0]) return str_cat(n, " not divisible by ", m);
    return std::nullopt;
  }
  return std::nullopt;
}

std::string describe_one(const std::string& n, const std::vector<int64_t>& sizes,
                         const Holds& is_held) {
  std::vector<bool> answers;
  for (const int64_t size : sizes) answers.push_back(is_held(size));
  struct Run {
    size_t first, last;
  };
  std::vector<Run> runs;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) continue;
    if (i > 0 && answers[i - 1])
      runs.back().last = i;
    else
      runs.push_back({i, i});
  }
  if (runs.empty()) return "";
  const size_t end = sizes.size() - 1;
  if (runs.size() == 2 && runs[0].first == 0 && runs[1].last == end &&
      sizes[runs[1].first] == sizes[runs[0].last] + 2)
    return str_cat(n, " other than ", sizes[runs[0].last] + 1);
  if (runs.size() == 1) {
    const auto [first, last] = runs[0];
    const int64_t low = first == 0 ? 0 : boundary(is_held, sizes[first - 1], sizes[first]);
    if (last == end) return first == 0 ? str_cat("any ", n) : str_cat(n, " >= ", low);
    const int64_t high = boundary(is_held, sizes[last], sizes[last + 1]) - 1;
    return low == high  ? str_cat(n, " = ", low)
           : first == 0 ? str_cat(n, " < ", high + 1)
                        : str_cat(low, " <= ", n, " <= ", high);
  }
  if (auto words = divisibility(n, answers)) return *words;
  std::string some;
  for (size_t run = 0; run < std::min<size_t>(runs.size(), 2); ++run)
    some += str_cat(run == 0 ? "" : " or ", sizes[runs[run].first]);
  return str_cat(n, " such as ", some);
}

// Returns some sizes for which the case holds: "h=1, w=3, for example".
std::string example_of(const SizeCase& each, const std::vector<std::string>& symbols,
                       const Admits& admits) {
  std::vector<size_t> at(symbols.size(), 0);
  for (int64_t step = 0; step < kMostSizeSteps; ++step) {
    Bindings sizes;
    for (size_t s = 0; s < symbols.size(); ++s) (void)sizes.bind(symbols[s], kFew[at[s]]);
    if (case_holds(each, sizes) && admits(sizes)) {
      std::string text;
      for (const auto& [symbol, size] : sizes.all()) text += str_cat(symbol, "=", size, ", ");
      return text + "for example";
    }
    size_t s = 0;
    while (s < at.size() && ++at[s] == std::size(kFew)) at[s++] = 0;
    if (s == at.size()) break;
  }
  return "";
}

}  // namespace

std::string describe_cases(std::span<const SizeCase> cases, const Admits& admits) {
  std::map<std::string, std::vector<const SizeCase*>> by_symbol;
  std::vector<std::string> words;
  const auto add = [&](std::string text) {
    if (!text.empty() && std::find(words.begin(), words.end(), text) == words.end())
      words.push_back(std::move(text));
  };
  for (const SizeCase& each : cases) {
    std::vector<std::string> symbols;
    each.left.collect_symbols(symbols);
    each.right.collect_symbols(symbols);
    if (symbols.size() == 1) {
      by_symbol[symbols[0]].push_back(&each);
      continue;
    }
    const std::string plain = str_cat(each.left, " < ", each.right);
    if (plain.size() <= kMostLetters) {
      add(plain);
      continue;
    }
    const std::string found = example_of(each, symbols, admits);
    add(found.empty() ? "sizes that the check did not find" : found);
  }
  for (const auto& [symbol, own] : by_symbol) {
    const auto is_held = [&, &symbol = symbol, &own = own](int64_t size) {
      Bindings sizes;
      return sizes.bind(symbol, size).ok() && admits(sizes) &&
             std::any_of(own.begin(), own.end(),
                         [&](const SizeCase* each) { return case_holds(*each, sizes); });
    };
    add(describe_one(symbol, sizes_to_try(own), is_held));
  }
  std::string text;
  for (const std::string& each : words) text += str_cat(text.empty() ? "" : " or ", each);
  return text;
}

}  // namespace hg::convert
