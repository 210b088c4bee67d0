// SPDX-License-Identifier: Apache-2.0
#include "tools/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "lib/graph/element.h"

namespace hg::tools {
namespace {

std::vector<std::string_view> lines_of(const std::string& text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The pairs of equal lines that an edit script with the fewest lines keeps (Myers 1986, the greedy
// algorithm).
class Matches {
 public:
  using Pairs = std::vector<std::pair<size_t, size_t>>;

  Matches(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b)
      : a_(a), b_(b), of_a_(known(a, b)), of_b_(known(b, a)) {}

  Pairs find() {
    const int n = static_cast<int>(of_a_.size()), m = static_cast<int>(of_b_.size()), most = n + m;
    std::vector<int> furthest(2 * most + 2, 0);
    std::vector<std::vector<int>> steps;
    for (int d = 0; d <= most; ++d) {
      steps.push_back(furthest);
      for (int k = -d; k <= d; k += 2) {
        int x = goes_down(furthest, k, d, most) ? at(furthest, k + 1, most)
                                                : at(furthest, k - 1, most) + 1;
        while (x < n && x - k < m && are_equal(x, x - k)) ++x;
        furthest[k + most] = x;
        if (x >= n && x - k >= m) return walk_back(steps, most);
      }
    }
    return {};
  }

 private:
  // The lines of one text, by number, that the other also contains: different models share few.
  static std::vector<size_t> known(const std::vector<std::string_view>& lines,
                                   const std::vector<std::string_view>& others) {
    const std::set<std::string_view> all(others.begin(), others.end());
    std::vector<size_t> found;
    for (size_t i = 0; i < lines.size(); ++i)
      if (all.contains(lines[i])) found.push_back(i);
    return found;
  }
  bool are_equal(int x, int y) const { return a_[of_a_[size_t(x)]] == b_[of_b_[size_t(y)]]; }
  static int at(const std::vector<int>& furthest, int k, int most) { return furthest[k + most]; }
  static bool goes_down(const std::vector<int>& furthest, int k, int d, int most) {
    return k == -d || (k != d && at(furthest, k - 1, most) < at(furthest, k + 1, most));
  }

  Pairs walk_back(const std::vector<std::vector<int>>& steps, int most) const {
    Pairs pairs;
    int x = static_cast<int>(of_a_.size()), y = static_cast<int>(of_b_.size());
    for (int d = static_cast<int>(steps.size()) - 1; d >= 0; --d) {
      const int k = x - y;
      const bool down = d == 0 || goes_down(steps[d], k, d, most);
      const int before = d == 0 ? 0 : at(steps[d], down ? k + 1 : k - 1, most);
      for (const int snake = down ? before : before + 1; x > snake;) {
        --x, --y;
        pairs.emplace_back(of_a_[size_t(x)], of_b_[size_t(y)]);
      }
      x = before;
      y = x - (down ? k + 1 : k - 1);
    }
    std::reverse(pairs.begin(), pairs.end());
    return pairs;
  }

  const std::vector<std::string_view>&a_, &b_;
  std::vector<size_t> of_a_, of_b_;
};

std::vector<LineChange> changes(const std::vector<std::string_view>& a,
                                const std::vector<std::string_view>& b) {
  std::vector<LineChange> all;
  size_t x = 0, y = 0;
  const auto until = [&](size_t i, size_t k) {
    for (; x < i; ++x) all.push_back({false, std::string(a[x])});
    for (; y < k; ++y) all.push_back({true, std::string(b[y])});
  };
  for (const auto& [i, k] : Matches(a, b).find()) {
    until(i, k);
    x = i + 1;
    y = k + 1;
  }
  until(a.size(), b.size());
  return all;
}

std::string type_of(const State& state) {
  return str_cat(state.data.tensor.dtype, state.data.tensor.shape);
}

// The difference of two elements. For i64, whose doubles may be equal, the difference of the
// integers.
double distance(const Tensor& a, const Tensor& b, int64_t i) {
  if (a.dtype != i64) return std::abs(element(a, i) - element(b, i));
  const auto [least, most] = std::minmax(a.as<int64_t>()[i], b.as<int64_t>()[i]);
  return static_cast<double>(static_cast<uint64_t>(most) - static_cast<uint64_t>(least));
}

// Empty if they are equal.
std::vector<StateChange> compare(const State& a, const State& b) {
  StateChange change{.name = a.name, .a = type_of(a), .b = type_of(b)};
  if (change.a != change.b) return {change};
  const Tensor x = view_as_real(a.data.tensor), y = view_as_real(b.data.tensor);
  const auto size = static_cast<size_t>(size_of(x.dtype));
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    const double u = element(x, i);
    norm += u * u;
    const char *p = static_cast<const char*>(x.data), *q = static_cast<const char*>(y.data);
    if (std::memcmp(p + size * size_t(i), q + size * size_t(i), size) == 0) continue;
    ++change.elements;
    const double by = distance(x, y, i);
    change.largest =
        std::isfinite(by) ? std::max(change.largest, by) : std::numeric_limits<double>::infinity();
    difference += by * by;
  }
  if (change.elements == 0) return {};
  change.relative = norm > 0 ? std::sqrt(difference / norm) : change.largest;
  return {change};
}

// Constants have no names of their own. Their values' names identify them; in bodies of control
// flow, "if_3/0/constant" by the name of the node.
void add_states(const Graph& graph, const std::string& path,
                std::map<std::string, const State*>& to) {
  for (const State& state : graph.states())
    to[path + (state.name.empty() ? graph.value_info(state.value).name : state.name)] = &state;
  for (const Node& node : graph.nodes())
    for (size_t i = 0; i < node.subgraphs.size(); ++i) {
      const std::string& name =
          node.outputs.empty() ? std::string() : graph.value_info(node.outputs[0]).name;
      add_states(*node.subgraphs[i], str_cat(path, name, "/", uint64_t{i}, "/"), to);
    }
}

}  // namespace

ModelDiff diff_models(const Model& a, const Model& b) {
  ModelDiff diff;
  const std::string text_a = a.graph().text(), text_b = b.graph().text();
  diff.graph = changes(lines_of(text_a), lines_of(text_b));
  std::map<std::string, const State*> in_a, in_b;
  add_states(a.graph(), "", in_a);
  add_states(b.graph(), "", in_b);
  for (const auto& [name, state] : in_a) {
    const auto other = in_b.find(name);
    if (other == in_b.end()) {
      diff.states.push_back({.name = name, .a = type_of(*state), .b = {}});
      continue;
    }
    for (StateChange& change : compare(*state, *other->second)) {
      change.name = name;
      diff.states.push_back(std::move(change));
    }
  }
  for (const auto& [name, state] : in_b)
    if (!in_a.contains(name)) diff.states.push_back({.name = name, .a = {}, .b = type_of(*state)});
  return diff;
}

std::string diff_text(const ModelDiff& diff, size_t most) {
  std::string out;
  const auto told = [most](size_t count) { return most == 0 ? count : std::min(count, most); };
  const auto rest = [&](size_t count) {
    if (told(count) < count) out += str_cat("... and ", uint64_t{count - told(count)}, " more\n");
  };
  for (size_t i = 0; i < told(diff.graph.size()); ++i)
    out += str_cat(diff.graph[i].added ? "+ " : "- ", diff.graph[i].line, "\n");
  rest(diff.graph.size());
  for (size_t i = 0; i < told(diff.states.size()); ++i) {
    const StateChange& s = diff.states[i];
    if (s.b.empty())
      out += str_cat("- ", s.name, ": ", s.a, "\n");
    else if (s.a.empty())
      out += str_cat("+ ", s.name, ": ", s.b, "\n");
    else if (s.a != s.b)
      out += str_cat("~ ", s.name, ": ", s.a, " became ", s.b, "\n");
    else
      out += str_cat("~ ", s.name, ": ", s.elements, " elements differ, by at most ", s.largest,
                     "; relative norm ", s.relative, "\n");
  }
  rest(diff.states.size());
  return out;
}

}  // namespace hg::tools
