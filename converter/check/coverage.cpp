// SPDX-License-Identifier: Apache-2.0
#include "converter/check/coverage.h"

#include <algorithm>
#include <string_view>

#include "lib/graph/atom.h"

namespace hg::convert {
namespace {

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

}  // namespace hg::convert
