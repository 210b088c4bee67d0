// SPDX-License-Identifier: Apache-2.0
// The entries of a model. States of several entries that have a name in common represent one
// tensor. Entries share its memory if the bits are equal. If one entry assigns a state, no other
// entry treats it as constant.
#include "lib/model/entries.h"

#include <map>
#include <set>

#include "hg/model.h"
#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/same_bits.h"
#include "lib/graph/state_names.h"

namespace hg {
namespace {

bool has_one_type(const State& a, const State& b) {
  const Tensor &x = a.data.tensor, &y = b.data.tensor;
  return x.dtype == y.dtype && x.shape == y.shape;
}

// A file aligns each tensor to 64 bytes. Small constants are many.
bool is_worth_sharing(const State& state) {
  const int64_t bytes = state.data.tensor.bytes();
  return bytes >= 64 || (bytes > 0 && state.kind != State::Kind::constant);
}

using StatesBySize = std::multimap<int64_t, const State*>;  // by their bytes

// The state of an entry with the bits of `state`, best of its name, and with memory that is not
// taken. Null if there is none, or if the state already uses memory of an entry.
const State* twin_of(const State& state, const StatesBySize& known,
                     const std::set<const void*>& taken) {
  const Tensor& own = state.data.tensor;
  const State* twin = nullptr;
  const auto [first, last] = known.equal_range(own.bytes());
  for (auto other = first; other != last; ++other) {
    const Tensor& bits = other->second->data.tensor;
    if (bits.data == own.data) return nullptr;
    if (twin != nullptr && other->second->name != state.name) continue;
    if (!taken.contains(bits.data) && have_same_bits(bits, own)) twin = other->second;
  }
  return twin;
}

// Lets the graph use bytes that the entries already hold, whatever their names are. Two states of
// one graph stay apart: only tied ones are one state.
void share_data(const Entries& entries, Graph& graph) {
  StatesBySize known;
  for (const auto& [name, entry] : entries)
    for (const State& state : entry.states())
      if (is_worth_sharing(state)) known.emplace(state.data.tensor.bytes(), &state);
  std::set<const void*> taken;
  for (const State& state : graph.states()) taken.insert(state.data.tensor.data);
  for (size_t i = 0; i < graph.states().size(); ++i) {
    const State& state = graph.states()[i];
    const State* const twin = is_worth_sharing(state) ? twin_of(state, known, taken) : nullptr;
    if (twin == nullptr) continue;
    taken.insert(twin->data.tensor.data);
    GraphAccess::body(graph).states[i].data = twin->data;
  }
}

std::set<ValueId> assigned_states(const Graph& graph) {
  std::set<ValueId> assigned;
  for (const auto& [target, source] : graph.assignments()) assigned.insert(target);
  return assigned;
}

std::string names_of(const Entries& entries) {
  std::string names;
  for (const auto& [name, graph] : entries) names += str_cat(names.empty() ? "" : ", ", name);
  return names;
}

}  // namespace

std::vector<std::pair<size_t, ValueId>> unlinked_states(const Entries& entries) {
  std::multimap<std::string_view, const State*> changed;
  std::vector<std::set<ValueId>> assigned;
  const auto note = [&](const State& state) {
    for (const std::string_view name : names_of(state)) changed.emplace(name, &state);
  };
  for (const auto& [name, graph] : entries) {
    assigned.push_back(assigned_states(graph));
    for (const State& state : graph.states())
      if (assigned.back().count(state.value) > 0) note(state);
  }
  const auto is_changed = [&](const State& state) {
    for (const std::string_view name : names_of(state)) {
      const auto [first, last] = changed.equal_range(name);
      for (auto other = first; other != last; ++other)
        if (has_one_type(state, *other->second)) return true;
    }
    return false;
  };
  std::vector<std::pair<size_t, ValueId>> unlinked;
  // A state with several names propagates the change to states with any of them.
  for (bool more = !changed.empty(); more;) {
    more = false;
    for (size_t k = 0; k < entries.size(); ++k)
      for (const State& state : entries[k].second.states()) {
        if (state.kind == State::Kind::constant || assigned[k].count(state.value) > 0) continue;
        if (!is_changed(state)) continue;
        assigned[k].insert(state.value);
        unlinked.emplace_back(k, state.value);
        note(state);
        more = true;
      }
  }
  return unlinked;
}

void link_states(Entries& entries) {
  for (const auto& [k, id] : unlinked_states(entries)) {
    Graph& graph = entries[k].second;
    graph.assign(graph.value(id), graph.value(id));
  }
}

Graph no_single_graph(const Entries& entries) {
  Graph graph;
  graph.fail(
      unsupported("the model has the entries ", names_of(entries), "; choose one by its name"));
  return graph;
}

std::vector<std::string> Model::entries() const {
  std::vector<std::string> names;
  for (const auto& [name, graph] : entries_) names.push_back(name);
  return names;
}

Result<Model> Model::entry(std::string_view name) const {
  return or_no_memory([&]() -> Result<Model> {
    if (name.empty()) {
      HG_TRY(graph().status());
      return Model(graph(), info_);
    }
    for (const auto& [known, graph] : entries_)
      if (known == name) return Model(graph, info_);
    if (entries_.empty())
      return not_found("there is no entry '", name, "'; the model is one graph without a name");
    return not_found("there is no entry '", name, "'; there are ", names_of(entries_));
  });
}

Status Model::add_entry(std::string name, Graph graph) {
  return or_no_memory([&]() -> Status {
    HG_TRY(graph.status());
    HG_CHECK(!name.empty(), "an entry has no name");
    HG_CHECK(!entries_.empty() || graph_.value_count() == 0, "the entry '", name,
             "' cannot be added beside a graph without a name; add both to an empty model");
    for (const auto& [taken, known] : entries_)
      HG_CHECK(taken != name, "there are two entries '", name, "'");
    share_data(entries_, graph);
    Entries all = entries_;
    all.emplace_back(std::move(name), std::move(graph));
    link_states(all);
    for (const auto& [entry, linked] : all) HG_TRY(linked.status());
    if (all.size() > 1) graph_ = no_single_graph(all);
    entries_ = std::move(all);
    return {};
  });
}

}  // namespace hg
