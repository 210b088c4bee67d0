// SPDX-License-Identifier: Apache-2.0
// Concatenations without copies: where what is concatenated lies together in the result, as
// channels of one image do, its producers write there, and the concatenation itself has no step.
// The memory of the result begins with the first of them.
#include <algorithm>

#include "lib/plan/planner.h"

namespace hg {
namespace {

constexpr int64_t kLineBytes = 64;  // where outputs may begin
constexpr int kMostNodes = 24;      // between the first producer and the concatenation

}  // namespace

void Planner::find_joined() {
  if (!request_.join || request_.device != nullptr || request_.options->keep_all_values) return;
  std::vector<int> position_of(body_.nodes.size(), -1);
  for (size_t i = 0; i < plan_.schedule.size(); ++i) {
    int& position = position_of[static_cast<size_t>(plan_.schedule[i])];
    if (position >= 0) return;  // what is computed again would be written twice
    position = static_cast<int>(i);
  }
  for (const int32_t index : plan_.schedule) {
    const Node& node = body_.nodes[static_cast<size_t>(index)];
    if (node.op->def.traits & kConcatenation) join(node, position_of);
  }
}

void Planner::join(const Node& node, std::span<const int> position_of) {
  const ValueInfo& whole = graph_.value_info(node.outputs[0]);
  const Result<Sizes> sizes = evaluate(whole.type.shape, plan_.bindings);
  if (!sizes.ok() || node.inputs.size() < 2) return;
  const AttrReader attrs(node.op, node.attrs);
  const Dim dim = attrs.integer("dim");
  const auto axis =
      static_cast<int>(dim.constant() < 0 ? dim.constant() + sizes->rank() : dim.constant());
  for (int d = 0; d < axis; ++d)
    if ((*sizes)[d] != 1) return;
  const int at = position_of[static_cast<size_t>(whole.node)];
  std::vector<std::pair<ValueId, Joined>> parts;
  int64_t offset = 0;
  for (const ValueId id : node.inputs) {
    const ValueInfo& info = graph_.value_info(id);
    const Result<Sizes> part = evaluate(info.type.shape, plan_.bindings);
    if (!part.ok() || info.node < 0 || offset % kLineBytes != 0 || joined_.count(id) > 0) return;
    const Node& producer = body_.nodes[static_cast<size_t>(info.node)];
    const int from = position_of[static_cast<size_t>(info.node)];
    const bool is_twice = std::any_of(parts.begin(), parts.end(),
                                      [id](const auto& other) { return other.first == id; });
    const bool is_source =
        std::any_of(body_.assignments.begin(), body_.assignments.end(),
                    [id](const auto& assignment) { return assignment.second == id; });
    if (from < 0 || at - from > kMostNodes || is_twice || is_source ||
        producer.op->def.view != nullptr || (producer.op->def.traits & (kControl | kInPlace)))
      return;
    parts.push_back({id, {node.outputs[0], offset}});
    offset += part->count() * size_of(info.type.dtype);
  }
  joined_.insert(parts.begin(), parts.end());
  wholes_[node.outputs[0]] = {offset, {}};
  ++plan_.joined;
}

Place Planner::joined_place(ValueId id) {
  const auto part = joined_.find(id);
  if (part != joined_.end()) {
    Place place = joined_place(part->second.whole);
    place.offset += part->second.offset;
    return place;
  }
  const auto whole = wholes_.find(id);
  if (whole == wholes_.end()) return {};
  auto& [bytes, place] = whole->second;
  if (place.kind == Place::Kind::none)
    place = new_block(graph_.value_info(id).name, bytes, Side::host);
  return place;
}

bool Planner::plan_joined(const Node& node, const PreparedNode& concrete) {
  if (wholes_.count(node.outputs[0]) == 0) return false;
  const TensorType& type = concrete.output_types[0];
  record(node.outputs[0], {unplaced(type.dtype, sizes_of(type)), joined_place(node.outputs[0])});
  return true;
}

}  // namespace hg
