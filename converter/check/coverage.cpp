// SPDX-License-Identifier: Apache-2.0
#include "converter/check/coverage.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "lib/graph/atom.h"

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

constexpr size_t kLongest = 1000;  // longest size expression that is analyzed, in characters

std::string place(const Origin& origin) {
  const std::string& at = origin.source.empty() ? origin.module : origin.source;
  return at.empty() ? "" : " at " + at;
}

// Returns the name of a case of a row. Several sizes of one op have the same name.
std::string name_of(const WaysRow& row, size_t way) {
  constexpr const char* kSides[] = {"the body of `if`", "the else of `if`"};
  constexpr const char* kRounds[] = {"no round of a loop", "a single round of a loop",
                                     "more than one round of a loop"};
  constexpr const char* kSizes[] = {"no element of", "a single element of",
                                    "more than one element of"};
  if (row.op == "if") return kSides[way];
  if (row.op == "extent")  // a number that becomes a size
    return str_cat(way % 3 == 0   ? "a size of 0"
                   : way % 3 == 1 ? "a size of 1"
                                  : "a size of more than 1",
                   " that data decides");
  if (row.op == "while") return kRounds[way];
  return str_cat(kSizes[way % 3], " ", row.op);
}

// Collects what was not exercised by place in the source.
class Gaps {
 public:
  void add(const Origin& origin, const std::string& what) {
    std::vector<std::string>& own = at(origin).words;
    if (std::find(own.begin(), own.end(), what) == own.end()) own.push_back(what);
  }
  void add(const Origin& origin, const std::string& op, SizeCase sizes) {
    at(origin).cases[op].push_back(std::move(sizes));
  }

  std::vector<std::string> lines(const Admits& admits) {
    std::vector<std::string> lines;
    for (auto& [place, gap] : all_) {
      for (const auto& [op, cases] : gap.cases) {
        if (const std::string sizes = describe_cases(cases, admits); !sizes.empty())
          gap.words.push_back(str_cat(op, " with ", sizes));
      }
      if (gap.words.empty()) continue;  // no size leads there
      std::string line;
      for (const std::string& what : gap.words) line += str_cat(line.empty() ? "" : "; ", what);
      lines.push_back(line + place);
    }
    return lines;
  }

 private:
  struct Gap {
    std::vector<std::string> words;
    std::map<std::string, std::vector<SizeCase>> cases;  // by op
  };
  Gap& at(const Origin& origin) {
    const std::string there = place(origin);
    for (auto& [known, gap] : all_)
      if (known == there) return gap;
    return all_.emplace_back(there, Gap()).second;
  }

  std::vector<std::pair<std::string, Gap>> all_;
};

}  // namespace

Coverage::Coverage(const Graph& graph, std::map<ValueId, std::string> texts)
    : texts_(std::move(texts)), symbols_(graph.symbols()) {
  find_choices(graph);
}

void Coverage::find_choices(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.outputs)
      for (const Dim& dim : graph.value_info(id).type.shape) find_choices(dim, node);
    for (const Attr& attr : node.attrs) {
      if (const auto* dim = std::get_if<Dim>(&attr.value)) find_choices(*dim, node);
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value))
        for (const Dim& dim : *dims) find_choices(dim, node);
    }
  }
}

// Data-dependent sizes are covered by the rows of their own nodes.
bool Coverage::is_of_inputs(const Dim& dim) const {
  std::vector<std::string> used;
  dim.collect_symbols(used);
  return std::all_of(used.begin(), used.end(), [&](const std::string& symbol) {
    return std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end();
  });
}

void Coverage::find_choices(const Dim& dim, const Node& node) {
  if (dim.is_constant() || !dim.symbol().empty()) return;
  if (str_cat(dim).size() > kLongest) return;
  for (const Atom* atom : post_order(dim)) {
    const bool chooses = atom->kind == Atom::Kind::min || atom->kind == Atom::Kind::max;
    if (!chooses || !is_of_inputs(atom->a) || !is_of_inputs(atom->b)) continue;
    const auto text = texts_.find(node.outputs.empty() ? kNoValue : node.outputs[0]);
    choices_.try_emplace(
        atom->key,
        Choice{atom->a, atom->b, text != texts_.end() ? text->second : std::string(node.op->name()),
               node.origin});
  }
}

bool Coverage::add(const std::vector<WaysRow>& rows, const Bindings& sizes) {
  bool news = has_news(sizes);
  for (const WaysRow& row : rows) {
    const auto [found, is_new] = row_of_.try_emplace(row.node, rows_.size());
    if (is_new) {
      rows_.push_back(row);
      std::fill(rows_.back().taken.begin(), rows_.back().taken.end(), 0);
    }
    WaysRow& mine = rows_[found->second];
    for (size_t i = 0; i < row.taken.size(); ++i) {
      news = news || (mine.taken[i] == 0 && row.taken[i] > 0);
      mine.taken[i] += row.taken[i];
    }
  }
  for (auto& [words, choice] : choices_) {
    const Result<int64_t> a = choice.a.evaluate(sizes), b = choice.b.evaluate(sizes);
    if (!a.ok() || !b.ok()) continue;
    choice.less = choice.less || *a < *b;
    choice.more = choice.more || *a > *b;
  }
  return news;
}

bool Coverage::has_all_rows() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const WaysRow& row) {
    return std::count(row.taken.begin(), row.taken.end(), 0) == 0;
  });
}

bool Coverage::has_news(const Bindings& sizes) const {
  return std::any_of(choices_.begin(), choices_.end(), [&](const auto& entry) {
    const Choice& choice = entry.second;
    const Result<int64_t> a = choice.a.evaluate(sizes), b = choice.b.evaluate(sizes);
    return a.ok() && b.ok() && ((*a < *b && !choice.less) || (*a > *b && !choice.more));
  });
}

bool Coverage::is_complete() const {
  return has_all_rows() && std::all_of(choices_.begin(), choices_.end(), [](const auto& entry) {
           return entry.second.less && entry.second.more;
         });
}

std::vector<std::string> Coverage::not_exercised(const Admits& admits) const {
  Gaps gaps;
  for (const WaysRow& row : rows_)
    for (size_t way = 0; way < row.taken.size(); ++way)
      if (row.taken[way] == 0) gaps.add(row.origin, name_of(row, way));
  for (const auto& [key, choice] : choices_) {
    if (!choice.less) gaps.add(choice.origin, choice.op, {choice.a, choice.b});
    if (!choice.more) gaps.add(choice.origin, choice.op, {choice.b, choice.a});
  }
  return gaps.lines(admits);
}

std::vector<WaysRow> rows_between(const std::vector<WaysRow>& before,
                                  const std::vector<WaysRow>& after) {
  std::map<std::string, const WaysRow*> known;
  for (const WaysRow& row : before) known[row.node] = &row;
  std::vector<WaysRow> rows = after;
  for (WaysRow& row : rows)
    if (const auto found = known.find(row.node); found != known.end())
      for (size_t i = 0; i < found->second->taken.size(); ++i)
        row.taken[i] -= found->second->taken[i];
  return rows;
}

std::string path_of(const std::vector<WaysRow>& rows,
                    const std::vector<std::pair<std::string, int64_t>>& sizes) {
  std::string path;
  for (const auto& [symbol, size] : sizes) path += str_cat(symbol, "=", size, " ");
  for (const WaysRow& row : rows) {
    for (const int64_t taken : row.taken) path += taken > 1 ? '+' : taken > 0 ? '1' : '0';
    path += ' ';
  }
  return path;
}

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
