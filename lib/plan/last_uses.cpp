// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/last_uses.h"

#include <algorithm>
#include <utility>

namespace hg {

LastUses::LastUses(const Graph& graph, const NodeOrder& schedule, bool keeps_all)
    : graph_(&graph), schedule_(&schedule), keeps_all_(keeps_all) {
  const GraphBody& body = GraphAccess::body(graph);
  last_.assign(body.values.size(), -1);
  const auto keep = [&](ValueId id) { last_[id] = kForever; };
  for (const auto& [name, id] : body.outputs) keep(id);
  for (const auto& [target, source] : body.assignments) keep(source);
  // A given order is that of one part. Values that nodes of later parts read stay alive.
  const auto end = std::max_element(schedule.begin(), schedule.end());
  for (size_t i = end == schedule.end() ? body.nodes.size() : static_cast<size_t>(*end) + 1;
       i < body.nodes.size(); ++i)
    for (const ValueId id : body.nodes[i].inputs)
      if (id != kNoValue) keep(id);
  next_.resize(schedule.size());
  for (size_t position = schedule.size(); position-- > 0;) {
    const Node& node = body.nodes[schedule[position]];
    for (const ValueId id : node.outputs) next_[position].push_back(std::exchange(last_[id], -1));
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      int& last = last_[id];
      last = std::max(last, static_cast<int>(position));
    }
  }
}

void LastUses::begin(int position) {
  const auto at = static_cast<size_t>(position);
  const Node& node = graph_->nodes()[(*schedule_)[at]];
  for (size_t i = 0; i < node.outputs.size(); ++i)
    last_[node.outputs[i]] = keeps_all_ ? kForever : next_[at][i];
}

}  // namespace hg
