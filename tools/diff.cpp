// SPDX-License-Identifier: Apache-2.0
#include "tools/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

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

// Myers 1986, the greedy algorithm: an edit script of the fewest lines.
class Edits {
 public:
  Edits(std::vector<std::string_view> a, std::vector<std::string_view> b)
      : a_(std::move(a)), b_(std::move(b)) {}

  std::vector<LineChange> find() {
    const int n = static_cast<int>(a_.size()), m = static_cast<int>(b_.size()), most = n + m;
    std::vector<int> furthest(2 * most + 2, 0);
    std::vector<std::vector<int>> steps;
    for (int d = 0; d <= most; ++d) {
      steps.push_back(furthest);
      for (int k = -d; k <= d; k += 2) {
        int x = goes_down(furthest, k, d, most) ? at(furthest, k + 1, most)
                                                : at(furthest, k - 1, most) + 1;
        while (x < n && x - k < m && a_[size_t(x)] == b_[size_t(x - k)]) ++x;
        furthest[k + most] = x;
        if (x >= n && x - k >= m) return walk_back(steps, most);
      }
    }
    return {};
  }

 private:
  static int at(const std::vector<int>& furthest, int k, int most) { return furthest[k + most]; }
  static bool goes_down(const std::vector<int>& furthest, int k, int d, int most) {
    return k == -d || (k != d && at(furthest, k - 1, most) < at(furthest, k + 1, most));
  }

  std::vector<LineChange> walk_back(const std::vector<std::vector<int>>& steps, int most) const {
    std::vector<LineChange> changes;
    int x = static_cast<int>(a_.size()), y = static_cast<int>(b_.size());
    for (int d = static_cast<int>(steps.size()) - 1; d > 0; --d) {
      const std::vector<int>& furthest = steps[d];
      const int k = x - y, before = goes_down(furthest, k, d, most) ? k + 1 : k - 1;
      x = at(furthest, before, most);
      y = x - before;
      if (before == k + 1)
        changes.push_back({true, std::string(b_[size_t(y)])});
      else
        changes.push_back({false, std::string(a_[size_t(x)])});
    }
    std::reverse(changes.begin(), changes.end());
    return changes;
  }

  std::vector<std::string_view> a_, b_;
};

std::string type_of(const State& state) {
  return str_cat(state.data.tensor.dtype, state.data.tensor.shape);
}

// Empty where they are equal.
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
    const double by = std::abs(u - element(y, i));
    change.largest =
        std::isfinite(by) ? std::max(change.largest, by) : std::numeric_limits<double>::infinity();
    difference += by * by;
  }
  if (change.elements == 0) return {};
  change.relative = norm > 0 ? std::sqrt(difference / norm) : change.largest;
  return {change};
}

// Constants have no names of their own; they are told by their values'.
std::map<std::string, const State*> states_of(const Graph& graph) {
  std::map<std::string, const State*> states;
  for (const State& state : graph.states())
    states[state.name.empty() ? graph.value_info(state.value).name : state.name] = &state;
  return states;
}

}  // namespace

ModelDiff diff_models(const Model& a, const Model& b) {
  ModelDiff diff;
  const std::string text_a = a.graph().text(), text_b = b.graph().text();
  diff.graph = Edits(lines_of(text_a), lines_of(text_b)).find();
  const auto in_a = states_of(a.graph()), in_b = states_of(b.graph());
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
