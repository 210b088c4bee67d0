// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/training_state.h"

#include <utility>

#include "lib/graph/access.h"

namespace hg {

std::vector<State> take_training_state(Graph& graph) {
  GraphBody& body = GraphAccess::body(graph);
  std::vector<State> taken;
  while (!body.states.empty() && is_training_state(body.states.back()) &&
         body.states.back().value + 1 == graph.value_count()) {
    body.names.erase(body.values.back().name);
    body.values.pop_back();
    taken.push_back(std::move(body.states.back()));
    body.states.pop_back();
  }
  return taken;
}

}  // namespace hg
