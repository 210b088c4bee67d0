// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/liveness.h"

namespace hg {
namespace {

constexpr double kByteCost = 4;  // operations that take as long as reading a byte

}  // namespace

Liveness::Liveness(const Graph& graph, const Plan& plan) : graph_(&graph), plan_(&plan) {
  const size_t values = static_cast<size_t>(graph.value_count()), nodes = graph.nodes().size();
  roots_.assign(values, kNoValue);
  bytes_.assign(values, 0);
  forever_.assign(values, 0);
  views_.resize(values);
  is_view_.assign(nodes, 0);
  cost_.assign(nodes, 0);
  workspace_.assign(nodes, 0);
  const auto place_of = [&](ValueId id) -> const PlacedTensor* {
    for (const Side side : kSides) {
      const PlacedTensor* placed = plan.find(id, side);
      if (placed != nullptr && placed->place.kind == Place::Kind::arena &&
          placed->place.index == plan.part)
        return placed;
    }
    return nullptr;
  };
  for (const int32_t index : plan.schedule) {
    const Node& node = graph.nodes()[index];
    if (node.op->def.view != nullptr) {
      const PlacedTensor *in = place_of(node.inputs[0]), *out = place_of(node.outputs[0]);
      // The view may be a view of a contiguous copy, which has memory of its own.
      if (out == nullptr || (in != nullptr && in->place.block == out->place.block)) {
        is_view_[index] = 1;
        const ValueId root = roots_[node.inputs[0]];
        roots_[node.outputs[0]] = root;
        if (root != kNoValue) views_[root].push_back(index);
        continue;
      }
    }
    for (const ValueId id : node.outputs) {
      const PlacedTensor* out = place_of(id);
      if (out == nullptr) continue;
      roots_[id] = id;
      bytes_[id] = align_up(out->tensor.bytes());
    }
  }
  for (const Step& step : plan.steps) {
    if (step.node < 0) continue;
    const auto node = static_cast<size_t>(step.node);
    cost_[node] = step.flops + kByteCost * static_cast<double>(step.bytes);
    if (step.workspace.block >= 0)
      workspace_[node] = align_up(plan.blocks[step.workspace.block].lifetime.bytes);
  }
  const auto keep = [&](ValueId id) {
    const ValueId root = roots_[id];
    if (root != kNoValue) forever_[root] = 1;
  };
  for (const auto& [name, id] : graph.outputs()) keep(id);
  for (const auto& [target, source] : graph.assignments()) keep(source);
  for (size_t i = plan.next_node; i < nodes; ++i)
    for (const ValueId id : graph.nodes()[i].inputs)
      if (id != kNoValue) keep(id);
}

Liveness::Profile Liveness::profile(const NodeOrder& schedule) const {
  Profile p;
  const auto length = static_cast<int>(schedule.size());
  p.spans_of.resize(roots_.size());
  std::vector<int> current(roots_.size(), -1);  // span of each value and view
  for (int at = 0; at < length; ++at) {
    const auto index = static_cast<size_t>(schedule[at]);
    const Node& node = graph_->nodes()[index];
    if (is_view_[index]) {
      current[node.outputs[0]] = current[node.inputs[0]];
      continue;
    }
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || current[id] < 0) continue;
      Span& span = p.spans[current[id]];
      if (span.readers.empty() || span.readers.back() != at) span.readers.push_back(at);
      span.last = at;
    }
    for (const ValueId id : node.outputs) {
      if (roots_[id] != id) continue;
      current[id] = static_cast<int>(p.spans.size());
      p.spans_of[id].push_back(static_cast<int>(p.spans.size()));
      p.spans.push_back({id, at, at, {}});
    }
  }
  std::vector<int64_t> begun(length, 0), change(begun.size() + 1, 0);
  for (const std::vector<int>& spans : p.spans_of) {
    if (spans.empty()) continue;
    Span& last = p.spans[spans.back()];
    if (forever_[last.value]) last.last = length - 1;
    for (const int index : spans) {
      const Span& span = p.spans[index];
      const int64_t bytes = bytes_[span.value];
      begun[span.first] += bytes;
      change[span.first] += bytes;
      change[span.last + 1] -= bytes;
    }
  }
  p.live.resize(length);
  p.across.resize(length);
  int64_t live = 0;
  std::vector<std::vector<int>> ends(length);
  for (size_t i = 0; i < p.spans.size(); ++i) ends[p.spans[i].last].push_back(static_cast<int>(i));
  for (int at = 0; at < length; ++at) {
    const auto a = static_cast<size_t>(at);
    const auto index = static_cast<size_t>(schedule[a]);
    live += change[a];
    p.across[a] = live - begun[a];
    int64_t here = live + workspace_[index];
    // A result that overwrites an input that dies here.
    const Node& node = graph_->nodes()[index];
    if (node.op->def.alias != 0 && !is_view_[index] && !node.outputs.empty()) {
      const int64_t bytes = bytes_[node.outputs[0]];
      for (const int end : ends[a]) {
        const Span& span = p.spans[end];
        if (span.first == at || bytes_[span.value] != bytes) continue;
        bool taken = false;
        for (size_t i = 0; i < node.inputs.size() && i < 32; ++i)
          taken |= ((node.op->def.alias >> i) & 1u) && node.inputs[i] == span.value;
        if (!taken) continue;
        here -= bytes;
        break;
      }
    }
    p.live[a] = here;
    if (here > p.peak) {
      p.peak = here;
      p.peak_at = at;
    }
  }
  return p;
}

}  // namespace hg
