// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/joins.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace hg {
namespace {

constexpr int64_t kLineBytes = 64;     // alignment of joined outputs
constexpr int kMostNodesBetween = 24;  // between the first producer and the concatenation

class JoinFinder {
 public:
  JoinFinder(const Graph& graph, const Bindings& bindings, std::span<const int> position_of,
             bool ranged)
      : graph_(graph),
        body_(GraphAccess::body(graph)),
        bindings_(bindings),
        position_of_(position_of),
        ranged_(ranged) {}

  void add(const Node& node) {
    const ValueInfo& whole = graph_.value_info(node.outputs[0]);
    const Result<Sizes> sizes = evaluate(whole.type.shape, bindings_);
    if (!sizes.ok() || node.inputs.size() < 2) return;
    const Dim dim = AttrReader(node.op, node.attrs).integer("dim");
    const auto axis =
        static_cast<int>(dim.constant() < 0 ? dim.constant() + sizes->rank() : dim.constant());
    for (int d = 0; d < axis; ++d)
      if ((*sizes)[d] != 1 || (ranged_ && !whole.type.shape[d].is_constant())) return;
    const int at = position_of_[whole.node];
    std::vector<std::pair<ValueId, Joins::Part>> parts;
    int64_t offset = 0;
    bool is_fixed = true;  // whether the offset is the same for all sizes
    for (const ValueId id : node.inputs) {
      const ValueInfo& info = graph_.value_info(id);
      const Result<Sizes> part = evaluate(info.type.shape, bindings_);
      const bool is_twice = std::any_of(parts.begin(), parts.end(),
                                        [id](const auto& other) { return other.first == id; });
      if (!part.ok() || offset % kLineBytes != 0 || is_twice || !may_be_part(id, at) ||
          (ranged_ && !is_fixed))
        return;
      is_fixed = is_fixed && is_constant(info.type.shape);
      parts.push_back({id, {node.outputs[0], offset}});
      offset += part->count() * size_of(info.type.dtype);
    }
    joins_.parts.insert(parts.begin(), parts.end());
    joins_.wholes[node.outputs[0]] = offset;
  }

  Joins take() { return std::move(joins_); }

 private:
  // Whether a step shortly before the concatenation writes the value only for the concatenation.
  bool may_be_part(ValueId id, int at) const {
    const int32_t maker = graph_.value_info(id).node;
    if (maker < 0 || joins_.parts.count(id) > 0) return false;
    const OpDef& def = body_.nodes[maker].op->def;
    const int from = position_of_[maker];
    const bool is_assigned =
        std::any_of(body_.assignments.begin(), body_.assignments.end(),
                    [id](const auto& assignment) { return assignment.second == id; });
    return from >= 0 && at - from <= kMostNodesBetween && !is_assigned && def.view == nullptr &&
           (def.traits & (kControl | kInPlace)) == 0;
  }

  const Graph& graph_;
  const GraphBody& body_;
  const Bindings& bindings_;
  std::span<const int> position_of_;
  bool ranged_;
  Joins joins_;
};

}  // namespace

Joins find_joins(const Graph& graph, const NodeOrder& schedule, const Bindings& bindings,
                 bool ranged) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<int> position_of(nodes.size(), -1);
  for (size_t i = 0; i < schedule.size(); ++i) {
    int& position = position_of[schedule[i]];
    if (position >= 0) return {};  // a recomputed value would be written twice
    position = static_cast<int>(i);
  }
  JoinFinder finder(graph, bindings, position_of, ranged);
  for (const int32_t index : schedule)
    if (nodes[index].op->def.traits & kConcatenation) finder.add(nodes[index]);
  return finder.take();
}

}  // namespace hg
