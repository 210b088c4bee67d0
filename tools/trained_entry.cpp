// SPDX-License-Identifier: Apache-2.0
#include "tools/trained_entry.h"

#include <map>
#include <string_view>

#include "lib/graph/access.h"
#include "lib/graph/same_bits.h"
#include "lib/graph/state_names.h"
#include "lib/graph/training_state.h"

namespace hg::tools {
namespace {

using States = std::map<std::string_view, const State*>;

States named_states(const Graph& graph) {
  States states;
  for (const State& state : graph.states())
    if (state.kind != State::Kind::constant)
      for (const std::string_view name : names_of(state)) states.emplace(name, &state);
  return states;
}

}  // namespace

Result<Model> with_trained_entry(const Model& file, const std::string& name, const Model& trained) {
  HG_TRY_ASSIGN(const Model before, file.entry(name));
  const States old_states = named_states(before.graph()),
               new_states = named_states(trained.graph());
  Model result;
  for (const std::string& entry : file.entries()) {
    if (entry == name) {
      HG_TRY(result.add_entry(entry, trained.graph()));
      continue;
    }
    HG_TRY_ASSIGN(Model other, file.entry(entry));
    for (State& state : GraphAccess::body(other.graph()).states) {
      if (state.kind == State::Kind::constant || is_training_state(state)) continue;
      for (const std::string_view own : names_of(state)) {
        const auto was = old_states.find(own), is = new_states.find(own);
        if (was == old_states.end() || is == new_states.end() ||
            !have_same_bits(was->second->data.tensor, state.data.tensor))
          continue;
        state.data = is->second->data;
        break;
      }
    }
    HG_TRY(result.add_entry(entry, std::move(other.graph())));
  }
  result.set_info(trained.info());
  return result;
}

}  // namespace hg::tools
