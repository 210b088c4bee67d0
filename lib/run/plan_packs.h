// SPDX-License-Identifier: Apache-2.0
// The packed weights that kernels request while one plan of an engine is made.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/graph/access.h"
#include "lib/plan/pack_cache.h"
#include "lib/run/memory.h"

namespace hg {

// The state that a value is or views; null for other values.
inline const State* root_state(const Graph& graph, ValueId id) {
  for (;;) {
    const ValueInfo& info = graph.value_info(id);
    if (info.state >= 0) return &graph.states()[info.state];
    if (info.node < 0) return nullptr;
    const Node& node = graph.nodes()[info.node];
    if (node.op->def.view == nullptr) return nullptr;
    id = node.inputs[0];
  }
}

// How a value views its state, and the layout of that in memory: views with their attributes.
inline std::string look_of(const Graph& graph, ValueId id) {
  std::string look;
  for (;;) {
    const ValueInfo& info = graph.value_info(id);
    if (info.state >= 0) return look + str_cat(" ", info.type);
    const Node& node = graph.nodes()[info.node];
    look += str_cat(" ", node.op->name());
    for (const Attr& attr : node.attrs) look += str_cat(",", attr);
    id = node.inputs[0];
  }
}

class PlanPacks final : public PackCache {
 public:
  PlanPacks(SharedPacks& packs, const Graph& graph) : packs_(packs), graph_(graph) {}
  void* pack(std::string_view kernel, ValueId value, int64_t bytes,
             std::function<void(void* to)> fill, bool at_once) override {
    const State* const state = root_state(graph_, value);
    if (state == nullptr || state->data.empty()) return nullptr;
    bool is_new = false;
    const auto later = LaterData::find(graph_, state->data);
    std::optional<uint32_t> sum =
        later ? later->origin().recorded : recorded_sum(graph_, state->data);
    if (later && sum) sum = sum_of_origin(later->origin(), *sum);
    void* const to = packs_.pack({str_cat(state->name, " ", kernel, look_of(graph_, value)),
                                  span_of(state->data), state->data.owner, sum, later},
                                 value, bytes, std::move(fill), at_once, is_new);
    if (to != nullptr && !is_new && !at_once) found_.push_back(value);
    has_new_ |= is_new;
    return to;
  }
  // Values for which other engines already had the requested packs.
  const std::vector<ValueId>& found() const { return found_; }
  bool has_new() const { return has_new_; }

 private:
  SharedPacks& packs_;
  const Graph& graph_;
  std::vector<ValueId> found_;
  bool has_new_ = false;
};

}  // namespace hg
