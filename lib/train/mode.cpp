// SPDX-License-Identifier: Apache-2.0
#include "lib/train/mode.h"

#include <algorithm>
#include <map>

#include "hg/ops/pointwise.h"
#include "lib/graph/rewrite.h"

namespace hg {

namespace {

// What the last rule that matches a state, or the path of a module, says.
template <class Named>
bool last_said(std::span<const ParameterRule> rules, const Named& named, bool frozen) {
  for (const ParameterRule& rule : rules)
    if (rule.frozen && matches(rule.pattern, named)) frozen = *rule.frozen;
  return frozen;
}

}  // namespace

bool is_frozen(std::span<const ParameterRule> rules, const State& state) {
  return last_said(rules, state, false);
}

bool is_trained(std::span<const ParameterRule> rules, const State& state) {
  return state.kind == State::Kind::parameter && is_float(state.data.tensor.dtype) &&
         !last_said(rules, state, !state.requires_grad);
}

namespace {

size_t attr_index(const Node& node, std::string_view name) {
  return static_cast<size_t>(node.op->signature.find_attribute(name));
}

// The state that a value is, or that it copies; the state behind statistics that an earlier run of
// a layer made; otherwise null.
const State* state_behind(const Graph& graph, ValueId id) {
  while (id != kNoValue) {
    const ValueInfo& info = graph.value_info(id);
    if (info.state >= 0) return &graph.states()[info.state];
    if (info.node < 0) return nullptr;
    const Node& node = graph.nodes()[info.node];
    const std::string_view op = node.op->name();
    const bool is_copy = op == "cast" || op == "detach";
    if (!is_copy && (op != "batch_norm" || id == node.outputs[0])) return nullptr;
    id = node.inputs[is_copy ? 0 : id == node.outputs[1] ? 3 : 4];
  }
  return nullptr;
}

class Switcher {
 public:
  Switcher(Graph& graph, std::span<const ParameterRule> rules, std::vector<std::string>* notes)
      : graph_(graph), rules_(rules), notes_(notes) {}

  Status run() {
    auto& nodes = GraphAccess::body(graph_).nodes;
    int64_t stream = 0;
    for (const Node& node : nodes)
      if (const int at = node.op->signature.find_attribute("stream"); at >= 0)
        if (const Dim* dim = std::get_if<Dim>(&node.attrs[at].value))
          stream = std::max(stream, dim->constant() + 1);
    const size_t count = nodes.size();  // casts are appended
    for (size_t i = 0; i < count; ++i) {
      if (!nodes[i].subgraphs.empty() && notes_ != nullptr)
        notes_->push_back(str_cat(label(graph_, nodes[i]), ": layers inside run as traced"));
      if (nodes[i].op->name() == "dropout") {
        set(nodes[i], "training", trains(nodes[i]));
        // Layers traced in eval mode may share a stream, because they drew nothing.
        nodes[i].attrs[attr_index(nodes[i], "stream")] = Attr(stream++);
      } else if (nodes[i].op->name() == "batch_norm") {
        switch_batch_norm(i);
      }
    }
    return graph_.take_status();
  }

 private:
  void set(Node& node, std::string_view attr, bool value) {
    node.attrs[attr_index(node, attr)] = Attr(value);
  }

  bool trains(const Node& node) const {
    return notes_ != nullptr && !last_said(rules_, node.origin.module, false);
  }

  void switch_batch_norm(size_t index) {
    auto& nodes = GraphAccess::body(graph_).nodes;
    if (nodes[index].inputs[3] == kNoValue) return;  // always uses batch statistics
    // A layer is frozen if its parameters are. Without parameters, the names of its statistics
    // decide.
    bool frozen = true, has_parameter = false;
    for (const size_t i : {1, 2, 3, 4}) {
      const State* state = state_behind(graph_, nodes[index].inputs[i]);
      if (state == nullptr || (i >= 3 && has_parameter)) continue;
      frozen = frozen && is_frozen(rules_, *state);
      has_parameter = true;
    }
    const bool training = notes_ != nullptr && !(frozen && has_parameter);
    set(nodes[index], "training", training);
    const Node& node = nodes[index];
    if (training && AttrReader(node.op, node.attrs).real("momentum") == 0)
      notes_->push_back(str_cat(label(graph_, node),
                                ": momentum 0 leaves its running statistics as they are; a trace "
                                "in eval mode has it for PyTorch's momentum=None"));
    for (const size_t k : {1, 2}) {
      const State* state = state_behind(graph_, nodes[index].inputs[k + 2]);
      if (!training) {
        if (state == nullptr) continue;
        remove_assignment(state->value);
        if (k == 1) remove_count(state->name);
        continue;
      }
      if (state == nullptr || state->kind == State::Kind::constant) {
        notes_->push_back(str_cat(label(graph_, nodes[index]), ": its running statistics ",
                                  k == 1 ? "(mean)" : "(variance)",
                                  " are not buffers of the model and stay as they are"));
        continue;
      }
      const Value target = graph_.value(state->value);
      // A layer that runs several times moves what its last run left.
      const auto [last, is_first] = moved_.try_emplace(state->value, nodes[index].outputs[k]);
      if (!is_first) {
        ValueId& old = nodes[index].inputs[k + 2];
        if (graph_.value_info(last->second).type == graph_.value_info(old).type) old = last->second;
        last->second = nodes[index].outputs[k];
      }
      Value moved = graph_.value(nodes[index].outputs[k]);
      if (moved.dtype() != target.dtype()) moved = cast(moved, target.dtype());
      graph_.assign(target, moved);
    }
  }

  // PyTorch's layers count the batches that updated the mean.
  void remove_count(std::string_view mean) {
    constexpr std::string_view kMean = "running_mean";
    if (!mean.ends_with(kMean)) return;
    mean.remove_suffix(kMean.size());
    for (const State& state : graph_.states())
      if (state.name == str_cat(mean, "num_batches_tracked")) remove_assignment(state.value);
  }
  void remove_assignment(ValueId target) {
    auto& assignments = GraphAccess::body(graph_).assignments;
    std::erase_if(assignments, [&](const auto& pair) { return pair.first == target; });
  }

  Graph& graph_;
  std::span<const ParameterRule> rules_;
  std::vector<std::string>* notes_;   // null in inference mode
  std::map<ValueId, ValueId> moved_;  // running statistics after the last run of their layer
};

}  // namespace

Status set_training(Graph& graph, std::span<const ParameterRule> rules,
                    std::vector<std::string>& notes) {
  return Switcher(graph, rules, &notes).run();
}

Status set_inference(Graph& graph) { return Switcher(graph, {}, nullptr).run(); }

Status set_compute(Graph& graph, DType dtype) {
  return rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
    if ((node.op->def.traits & kProduct) == 0 ||
        graph.value_info(node.outputs[0]).type.dtype != f32)
      return std::optional<std::vector<Value>>();
    std::vector<Value> inputs;
    for (const ValueId id : node.inputs)
      inputs.push_back(id == kNoValue ? Value() : cast(graph.value(id), dtype));
    return std::optional(
        std::vector{cast(graph.call(node.op->name(), inputs, named_attrs(node)), f32)});
  });
}

}  // namespace hg
