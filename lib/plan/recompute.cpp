// SPDX-License-Identifier: Apache-2.0
// The greedy choice of XLA's rematerialization pass: repeatedly picks, among the values alive at
// the peak, the one that is cheapest to recompute per byte.
#include "lib/plan/recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "lib/graph/rewrite.h"
#include "lib/plan/sort_falling.h"

namespace hg {
namespace {

constexpr size_t kLongestChain = 256;    // nodes that are recomputed for one value
constexpr double kPeakStep = 1.0 / 100;  // of the peak, between two schedules
constexpr int kMostRounds = 4000;

using Profile = Liveness::Profile;
using Span = Liveness::Span;

bool can_repeat(const Node& node) {
  return (node.op->def.traits & (kControl | kDataDependent | kInPlace)) == 0;
}

// The nodes that must run again before position `at` to recompute `value`.
class Chain {
 public:
  Chain(const Liveness& liveness, const Profile& profile, const std::vector<int>& updates, int at)
      : liveness_(liveness), profile_(profile), updates_(updates), at_(at) {}

  // Returns false and adds nothing if this is impossible or needs too many nodes.
  bool add(ValueId value) {
    const std::set<int32_t> before = nodes_;
    if (visit(value)) return true;
    nodes_ = before;
    return false;
  }

  // In a valid order, with the views of the recomputed values.
  std::vector<int32_t> nodes() const {
    std::set<int32_t> all = nodes_;
    for (const int32_t index : nodes_)
      for (const ValueId id : liveness_.graph().nodes()[index].outputs)
        if (liveness_.root(id) == id)
          all.insert(liveness_.views(id).begin(), liveness_.views(id).end());
    return {all.begin(), all.end()};
  }
  double cost() const {
    double sum = 0;
    for (const int32_t index : nodes_) sum += liveness_.cost(index);
    return sum;
  }
  // The peak of bytes alive while they run, in addition to those alive before. Each value lives
  // until its last reader among them; `kept` lives until the end.
  int64_t bytes(ValueId kept) const {
    const Graph& graph = liveness_.graph();
    const std::vector<int32_t> order = nodes();
    std::map<ValueId, int32_t> last;  // last reader of each recomputed value
    for (const int32_t index : order) {
      const Node& node = graph.nodes()[index];
      for (const ValueId id : node.inputs)
        if (const auto found = last.find(root(id)); found != last.end()) found->second = index;
      for (const ValueId id : node.outputs)
        if (liveness_.root(id) == id) last[id] = index;
    }
    last[kept] = std::numeric_limits<int32_t>::max();
    int64_t live = 0, most = 0;
    for (const int32_t index : order) {
      const Node& node = graph.nodes()[index];
      std::set<ValueId> ending;
      for (const auto& [id, reader] : last)
        if (reader == index) ending.insert(id);
      int64_t begun = 0, taken = 0;
      for (const ValueId id : node.outputs)
        if (liveness_.root(id) == id) begun += liveness_.bytes(id);
      for (size_t i = 0; i < node.inputs.size() && i < 32; ++i)  // memory that the result reuses
        if (((node.op->def.alias >> i) & 1u) && ending.count(node.inputs[i]) > 0 &&
            liveness_.bytes(node.inputs[i]) == liveness_.bytes(node.outputs[0]))
          taken = liveness_.bytes(node.inputs[i]);
      live += begun;
      most = std::max(most, live - taken + liveness_.workspace(index));
      for (const ValueId id : ending) live -= liveness_.bytes(id);
    }
    return most;
  }

 private:
  bool visit(ValueId value) {
    const int32_t index = liveness_.graph().value_info(value).node;
    if (index < 0 || nodes_.count(index) > 0) return true;
    const Node& node = liveness_.graph().nodes()[index];
    if (!can_repeat(node) || nodes_.size() >= kLongestChain) return false;
    nodes_.insert(index);
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const int32_t state = liveness_.graph().value_info(id).state;
      if (state >= 0 && updates_[state] < at_) return false;
      const ValueId root = liveness_.root(id);
      if (root == kNoValue) {
        // A view of a state or an input, or a value from an earlier part.
        if (!is_ready_outside(id) && !visit(id)) return false;
      } else if (!is_alive(root) && !visit(root)) {
        return false;
      }
    }
    return true;
  }

  ValueId root(ValueId id) const { return id == kNoValue ? kNoValue : liveness_.root(id); }

  bool is_alive(ValueId root) const {
    const std::vector<int>& spans = profile_.spans_of[root];
    for (size_t i = spans.size(); i-- > 0;) {
      const Span& span = profile_.spans[spans[i]];
      if (span.first < at_) return span.last >= at_;
    }
    return false;
  }
  bool is_ready_outside(ValueId id) const {
    const int32_t node = liveness_.graph().value_info(id).node;
    return node < 0 || static_cast<size_t>(node) < liveness_.plan().first_node ||
           !liveness_.is_view(node);
  }

  const Liveness& liveness_;
  const Profile& profile_;
  const std::vector<int>& updates_;
  int at_;
  std::set<int32_t> nodes_;  // the graph's order is valid for them
};

// The position that first updates each state in place; its old contents are then gone. The planner
// defers updates of states that are read later.
std::vector<int> state_updates(const Graph& graph, const NodeOrder& schedule) {
  std::vector<int> updates(graph.states().size(), static_cast<int>(schedule.size()));
  const std::vector<ValueId> updated = updated_states(graph);
  for (size_t i = schedule.size(); i-- > 0;) {
    const Node& node = graph.nodes()[schedule[i]];
    if (!(node.op->def.traits & kInPlace)) continue;
    for (const ValueId id : node.outputs)
      if (const ValueId state = updated[id]; state != kNoValue)
        updates[graph.value_info(state).state] = static_cast<int>(i);
  }
  return updates;
}

// Removes one value from the peak, within the remaining cost. Returns false if no value qualifies.
bool free_at_peak(const Liveness& liveness, const Profile& profile, NodeOrder& schedule,
                  double& cost_left) {
  const std::vector<int> updates = state_updates(liveness.graph(), schedule);
  const int peak_at = profile.peak_at;
  double best_score = 0, best_cost = 0;
  std::vector<int32_t> best;
  int best_at = -1;
  for (const Span& span : profile.spans) {
    if (span.first >= peak_at || span.last <= peak_at) continue;
    const int64_t bytes = liveness.bytes(span.value);
    if (bytes == 0) continue;
    const auto next = std::lower_bound(span.readers.begin(), span.readers.end(), peak_at);
    if (next == span.readers.end() || *next == peak_at) continue;
    Chain chain(liveness, profile, updates, *next);
    if (!chain.add(span.value)) continue;
    // Recomputes it before its next reader, unless it is already available there.
    if (profile.across[*next] - bytes + chain.bytes(span.value) >= profile.peak) continue;
    const double cost = chain.cost(), score = (cost + 1) / static_cast<double>(bytes);
    if (cost > cost_left || (best_at >= 0 && score >= best_score)) continue;
    best_score = score;
    best_cost = cost;
    best = chain.nodes();
    best_at = *next;
  }
  if (best_at < 0) return false;
  cost_left -= best_cost;
  schedule.insert(schedule.begin() + best_at, best.begin(), best.end());
  return true;
}

}  // namespace

std::vector<Rematerialized> recompute(const Liveness& liveness, const NodeOrder& base,
                                      double most_cost) {
  NodeOrder schedule = base;
  Profile profile = liveness.profile(schedule);
  std::vector<Rematerialized> results = {{schedule, profile.peak}};
  // Removing a value from one peak may leave an equal peak elsewhere. Only a lower peak counts as a
  // result.
  for (int round = 0; round < kMostRounds; ++round) {
    if (!free_at_peak(liveness, profile, schedule, most_cost)) break;
    profile = liveness.profile(schedule);
    if (static_cast<double>(profile.peak) <=
        static_cast<double>(results.back().peak) * (1 - kPeakStep))
      results.push_back({schedule, profile.peak});
    if (schedule.size() > 4 * base.size() + 64) break;
  }
  return results;
}

NodeOrder without_needless(const Liveness& liveness, NodeOrder schedule, int64_t bytes) {
  std::vector<char> seen(liveness.graph().nodes().size(), 0);
  std::vector<size_t> repeated;  // positions
  std::vector<double> costs;     // cost of each
  for (size_t i = 0; i < schedule.size(); ++i) {
    const int32_t node = schedule[i];
    if (!std::exchange(seen[node], 1) || liveness.is_view(node)) continue;
    repeated.push_back(i);
    costs.push_back(liveness.cost(node));
  }
  std::vector<char> dropped(schedule.size(), 0);
  const auto rest = [&] {
    NodeOrder kept;
    for (size_t i = 0; i < schedule.size(); ++i)
      if (!dropped[i]) kept.push_back(schedule[i]);
    return kept;
  };
  for (const int k : falling(costs)) {
    const size_t position = repeated[k];
    // Views that were recomputed together with a node are removed together with it.
    std::vector<size_t> gone = {position};
    const Node& node = liveness.graph().nodes()[schedule[position]];
    for (const ValueId id : node.outputs)
      for (const int32_t view : liveness.views(id))
        for (size_t i = position + 1; i < schedule.size() && i <= position + kLongestChain; ++i)
          if (schedule[i] == view && !dropped[i]) {
            gone.push_back(i);
            break;
          }
    for (const size_t i : gone) dropped[i] = 1;
    if (liveness.profile(rest()).peak <= bytes) continue;
    for (const size_t i : gone) dropped[i] = 0;
  }
  return rest();
}

NodeOrder checkpoint_sqrt(const Liveness& liveness, const NodeOrder& base) {
  const Graph& graph = liveness.graph();
  const Profile profile = liveness.profile(base);
  const int peak = profile.peak_at;
  // The segments share the bytes that stay alive for readers after the peak.
  std::vector<int64_t> kept(peak + 1, 0);
  int64_t total = 0;
  int count = 0;
  const auto crosses = [&](const Span& span) {
    return span.first < peak && span.last > peak && liveness.bytes(span.value) > 0;
  };
  for (const Span& span : profile.spans)
    if (crosses(span)) {
      kept[span.first] += liveness.bytes(span.value);
      total += liveness.bytes(span.value);
      ++count;
    }
  const auto segments = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  if (segments < 2) return base;
  std::vector<int64_t> segment(peak + 1, 0);
  int64_t sum = 0;
  for (size_t i = 0; i < segment.size(); ++i) {
    segment[i] = std::min(segments - 1, sum * segments / std::max<int64_t>(total, 1));
    sum += kept[i];
  }
  // From the last segment backward, in the order of their readers.
  NodeOrder schedule = base;
  for (int64_t s = segments; s-- > 0;) {
    const Profile now = liveness.profile(schedule);
    const std::vector<int> updates = state_updates(graph, schedule);
    std::vector<ValueId> inner;
    int at = -1;
    for (const Span& span : now.spans) {
      if (!crosses(span) || segment[span.first] != s) continue;
      bool is_checkpoint = false;  // a later segment reads it
      for (const int reader : span.readers) is_checkpoint |= reader <= peak && segment[reader] != s;
      const auto next = std::lower_bound(span.readers.begin(), span.readers.end(), peak);
      if (is_checkpoint || next == span.readers.end() || *next == peak) continue;
      inner.push_back(span.value);
      at = at < 0 ? *next : std::min(at, *next);
    }
    if (at < 0) continue;
    // While the chain is searched, values inside the segment count as unavailable.
    Profile without = now;
    for (const ValueId id : inner)
      for (const int index : without.spans_of[id])
        without.spans[index].last = std::min(without.spans[index].last, peak);
    Chain chain(liveness, without, updates, at);
    for (const ValueId id : inner) chain.add(id);
    const std::vector<int32_t> again = chain.nodes();
    schedule.insert(schedule.begin() + at, again.begin(), again.end());
  }
  return schedule;
}

}  // namespace hg
