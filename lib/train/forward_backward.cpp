// SPDX-License-Identifier: Apache-2.0
// The joint graph of a model and its gradients, split after the model's nodes. Values that cross
// the split are outputs of the first part and inputs of the second. Two sessions draw different
// random numbers, so the first part also outputs the draws that gradients need.
#include "hg/forward_backward.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/draws.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/state_names.h"
#include "lib/graph/symbols.h"
#include "lib/train/dependents.h"
#include "lib/train/mode.h"
#include "lib/train/step_graph.h"

namespace hg {
namespace {

class Split {
 public:
  Split(const Model& model, const ForwardBackwardOptions& options)
      : options_(options), joint_(model.graph()) {}

  Result<ForwardBackward> run() {
    HG_TRY(joint_.status());
    using Mode = ForwardBackwardOptions::Mode;
    if (options_.mode == Mode::training) HG_TRY(set_training(joint_, options_.rules, out_.notes));
    if (options_.mode == Mode::inference) HG_TRY(set_inference(joint_));
    HG_TRY(choose_inputs());
    find_states();
    states_to_inputs();
    cut_ = joint_.nodes().size();
    values_ = joint_.value_count();
    HG_TRY(differentiate());
    HG_TRY(find_crossing());
    HG_TRY_ASSIGN(Graph forward, forward_part());
    HG_TRY_ASSIGN(out_.forward, Model::from_graph(std::move(forward)));
    HG_TRY_ASSIGN(Graph backward, backward_part());
    HG_TRY_ASSIGN(out_.backward, Model::from_graph(std::move(backward)));
    return std::move(out_);
  }

 private:
  DType dtype_of_value(ValueId id) const { return joint_.value_info(id).type.dtype; }

  Status choose_inputs() {
    const auto count = static_cast<int>(joint_.inputs().size());
    for (int i = 0; i < count; ++i)
      if (!options_.inputs && has_gradient(dtype_of_value(joint_.inputs()[i])))
        out_.differentiable_inputs.push_back(i);
    if (options_.inputs) out_.differentiable_inputs = *options_.inputs;
    for (const int i : out_.differentiable_inputs) {
      HG_CHECK(i >= 0 && i < count, "a gradient of input ", i, " is wanted, the model has ", count);
      const ValueInfo& input = joint_.value_info(joint_.inputs()[i]);
      HG_CHECK(has_gradient(input.type.dtype), "a gradient of '", input.name,
               "' is wanted, which is ", input.type.dtype);
      wrt_.push_back(joint_.inputs()[i]);
    }
    return {};
  }

  void find_states() {
    for (const State& state : joint_.states()) {
      const auto assigned =
          std::find_if(joint_.assignments().begin(), joint_.assignments().end(),
                       [&](const auto& each) { return each.first == state.value; });
      const bool is_parameter = state.kind == State::Kind::parameter;
      const bool is_left_by_training = state.name.starts_with(kTrainPrefix);
      if (state.kind == State::Kind::constant || is_left_by_training) continue;
      out_.states.push_back(state.name);
      moved_.push_back(state.value);
      if (assigned != joint_.assignments().end()) {
        out_.updated.push_back(state.name);
        new_contents_.push_back(assigned->second);
      }
      if (is_parameter && is_trained(options_.rules, state)) {
        out_.trained.push_back(state.name);
        wrt_.push_back(state.value);
      }
    }
  }

  // From now on the host owns them.
  void states_to_inputs() {
    GraphBody& body = GraphAccess::body(joint_);
    std::vector<State> kept;
    for (State& state : body.states) {
      ValueInfo& info = body.values[state.value];
      if (std::find(moved_.begin(), moved_.end(), state.value) != moved_.end()) {
        info.state = -1;
        continue;
      }
      info.state = static_cast<int32_t>(kept.size());
      kept.push_back(std::move(state));
    }
    body.states = std::move(kept);
    body.inputs.insert(body.inputs.end(), moved_.begin(), moved_.end());
    std::erase_if(body.assignments, [&](const auto& each) {
      return std::find(moved_.begin(), moved_.end(), each.first) != moved_.end();
    });
  }

  Status differentiate() {
    HG_TRY(choose_outputs());
    std::vector<Value> ys, xs;
    const std::vector<std::pair<std::string, ValueId>> outputs = joint_.outputs();
    for (const int k : out_.differentiable_outputs) {
      const ValueId id = outputs[k].second;
      ys.push_back(joint_.value(id));
      const TensorType type = joint_.value_info(id).type;
      seeds_.push_back(
          joint_.input(str_cat("gradient/", outputs[k].first), type.dtype, type.shape));
    }
    for (const ValueId id : wrt_) xs.push_back(joint_.value(id));
    for (const Value& dx : grad(ys, xs, seeds_)) gradients_.push_back(dx.id());
    return joint_.take_status();
  }

  // Chooses the outputs that depend on differentiated values. Zero gradients, such as those of
  // floor(), count as gradients.
  Status choose_outputs() {
    const auto& outputs = joint_.outputs();
    std::vector<std::set<int>> moved(joint_.value_count());
    for (size_t k = 0; k < outputs.size(); ++k)
      if (has_gradient(dtype_of_value(outputs[k].second)))
        moved[outputs[k].second].insert(static_cast<int>(k));
    for (size_t i = cut_; i-- > 0;) {
      const Node& node = joint_.nodes()[i];
      if (node.op->name() == "detach") continue;
      std::set<int> all;
      for (const ValueId id : node.outputs)
        if (has_gradient(dtype_of_value(id))) all.insert(moved[id].begin(), moved[id].end());
      for (const ValueId id : node.inputs)
        if (id != kNoValue) moved[id].insert(all.begin(), all.end());
    }
    std::set<int> can;
    for (const ValueId id : wrt_) can.insert(moved[id].begin(), moved[id].end());
    for (const int k : options_.outputs.value_or(std::vector<int>(can.begin(), can.end()))) {
      HG_CHECK(can.count(k) > 0, "a gradient of output ", k, " is given, which has none");
      out_.differentiable_outputs.push_back(k);
    }
    for (const ValueId id : wrt_) {
      std::vector<int>& row = out_.moved_outputs.emplace_back();
      for (size_t k = 0; k < out_.differentiable_outputs.size(); ++k)
        if (moved[id].count(out_.differentiable_outputs[k]) > 0) row.push_back(static_cast<int>(k));
    }
    return {};
  }

  // Whether a node belongs to the first graph: nodes of the model and its random draws.
  bool is_forward_node(size_t node) const {
    const Node& of = joint_.nodes()[node];
    return node < cut_ || (draws(of) && of.inputs.empty());
  }
  bool is_forward(ValueId id) const {
    const ValueInfo& info = joint_.value_info(id);
    return !is_seed(id) && info.state < 0 &&
           (info.node < 0 || is_forward_node(static_cast<size_t>(info.node)));
  }

  // Values of the forward part that the backward part reads, and inputs from which its sizes
  // follow.
  Status find_crossing() {
    std::vector<bool> is_read(joint_.value_count(), false);
    std::vector<bool> is_needed(joint_.nodes().size(), false);
    const auto read = [&](ValueId id) {
      if (id == kNoValue) return;
      is_read[id] = true;
      const int32_t node = joint_.value_info(id).node;
      if (node >= static_cast<int32_t>(cut_)) is_needed[node] = true;
    };
    for (const ValueId id : gradients_) read(id);
    std::vector<std::string> symbols;
    for (size_t i = joint_.nodes().size(); i-- > cut_;) {
      if (!is_needed[i] || is_forward_node(i)) continue;
      const Node& node = joint_.nodes()[i];
      HG_CHECK(!draws(node), "the gradient of ", label(joint_, node),
               " draws the numbers of the forward pass again, which a part of its own cannot");
      collect_symbols(node, symbols);
      for (const ValueId id : node.inputs) read(id);
    }
    const std::vector<bool> has_elements = is_read;
    // The inputs of the backward part need their own symbols too, as in max(u0, u1).
    for (ValueId id = 0; id < joint_.value_count(); ++id)
      if ((is_read[id] && is_forward(id)) || is_seed(id))
        for (const Dim& dim : joint_.value_info(id).type.shape) dim.collect_symbols(symbols);
    // Removes the symbols that the sizes of a value determine. Returns whether there are any.
    const auto take_given = [&](ValueId id) {
      return std::erase_if(symbols, [&](const std::string& symbol) {
               const Shape& shape = joint_.value_info(id).type.shape;
               return std::any_of(shape.begin(), shape.end(),
                                  [&](const Dim& dim) { return dim.symbol() == symbol; });
             }) > 0;
    };
    for (const ValueId id : joint_.inputs()) {
      const Shape& shape = joint_.value_info(id).type.shape;
      const bool gives_size = std::any_of(shape.begin(), shape.end(),
                                          [&](const Dim& dim) { return !dim.symbol().empty(); });
      if (!gives_size || !is_forward(id)) continue;
      is_read[id] = true;
      take_given(id);
    }
    // Sizes that depend on data, such as that of nonzero(), follow from a value that is read
    // anyway, or from the first one that has them.
    for (ValueId id = 0; id < joint_.value_count() && !symbols.empty(); ++id)
      if (is_read[id] && is_forward(id)) take_given(id);
    for (ValueId id = 0; id < joint_.value_count() && !symbols.empty(); ++id)
      if (is_forward(id) && take_given(id)) is_read[id] = true;
    for (ValueId id = 0; id < joint_.value_count(); ++id)
      if (is_read[id] && is_forward(id)) {
        crossing_.push_back(id);
        out_.kept.push_back({.value = id < values_ ? id : -1,
                             .input = kept_by_host(id),
                             .for_size = !has_elements[id]});
      }
    return {};
  }

  // The input that the value equals, among those that a run does not change.
  int kept_by_host(ValueId id) const {
    const auto& inputs = joint_.inputs();
    const auto at = std::find(inputs.begin(), inputs.end(), id);
    if (at == inputs.end()) return -1;
    const auto state = std::find(moved_.begin(), moved_.end(), id);
    if (state != moved_.end() &&
        std::find(out_.updated.begin(), out_.updated.end(), out_.states[state - moved_.begin()]) !=
            out_.updated.end())
      return -1;
    return static_cast<int>(at - inputs.begin());
  }

  Result<Graph> forward_part() const {
    Graph graph = joint_;
    GraphBody& body = GraphAccess::body(graph);
    std::erase_if(body.inputs, [&](ValueId id) { return is_seed(id); });
    for (size_t i = 0; i < new_contents_.size(); ++i)
      body.outputs.emplace_back(str_cat("updated/", out_.updated[i]), new_contents_[i]);
    for (size_t i = 0; i < crossing_.size(); ++i)
      if (out_.kept[i].input < 0)
        body.outputs.emplace_back(str_cat("kept/", int64_t(i)), crossing_[i]);
    keep_nodes(graph, true);
    remove_dead_nodes(graph);
    HG_TRY(graph.take_status());
    return graph;
  }

  bool is_seed(ValueId id) const {
    return std::any_of(seeds_.begin(), seeds_.end(),
                       [&](const Value& seed) { return seed.id() == id; });
  }

  Result<Graph> backward_part() const {
    Graph graph = joint_;
    GraphBody& body = GraphAccess::body(graph);
    body.assignments.clear();
    body.outputs.clear();
    for (size_t i = 0; i < gradients_.size(); ++i)
      body.outputs.emplace_back(str_cat("gradient_", int64_t(i)), gradients_[i]);
    body.inputs = crossing_;
    for (const Value& seed : seeds_) body.inputs.push_back(seed.id());
    keep_nodes(graph, false);
    remove_dead_nodes(graph, false);  // the model's assumptions were checked before
    HG_TRY(graph.take_status());
    return graph;
  }

  // Keeps the nodes of one part in a copy of the joint graph.
  void keep_nodes(Graph& graph, bool of_forward) const {
    GraphBody& body = GraphAccess::body(graph);
    std::vector<Node> old = std::exchange(body.nodes, {});
    for (size_t i = 0; i < old.size(); ++i)
      if (is_forward_node(i) == of_forward)
        GraphAccess::push_node(graph, std::move(old[i]));
      else
        for (const ValueId id : old[i].outputs) body.values[id].node = -1;
  }

  const ForwardBackwardOptions& options_;
  Graph joint_;
  ForwardBackward out_;
  size_t cut_ = 0;      // nodes of the model
  ValueId values_ = 0;  // of the model
  std::vector<ValueId> wrt_, moved_, new_contents_, gradients_, crossing_;
  std::vector<Value> seeds_;
};

}  // namespace

Result<ForwardBackward> split_gradients(const Model& model, const ForwardBackwardOptions& options) {
  return or_no_memory([&]() -> Result<ForwardBackward> { return Split(model, options).run(); });
}

Result<Model> with_states(const Model& model,
                          std::span<const std::pair<std::string, ConstTensor>> contents) {
  return or_no_memory([&]() -> Result<Model> {
    HG_TRY(model.graph().status());
    Graph graph = model.graph();
    std::vector<State>& states = GraphAccess::body(graph).states;
    for (const auto& [name, tensor] : contents) {
      const auto found = std::find_if(states.begin(), states.end(), [&](const State& state) {
        return state.kind != State::Kind::constant && has_name(state, name);
      });
      if (found == states.end()) return not_found("there is no parameter or buffer '", name, "'");
      const Tensor& known = found->data.tensor;
      HG_CHECK(known.dtype == tensor.dtype && known.shape == tensor.shape, "'", name, "' is ",
               known.dtype, known.shape, ", not ", tensor.dtype, tensor.shape);
      HG_TRY_ASSIGN(found->data, TensorData::copy_of(tensor));
    }
    HG_TRY_ASSIGN(Model made, Model::from_graph(std::move(graph)));
    made.set_info(model.info());
    return made;
  });
}

}  // namespace hg
