// SPDX-License-Identifier: Apache-2.0
#include "lib/train/control_gradients.h"

#include <algorithm>

#include "hg/train.h"
#include "lib/graph/access.h"
#include "lib/graph/draws.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/symbols.h"

namespace hg {
namespace {

using Subgraph = std::shared_ptr<Graph>;

Value filled(Graph& g, double value, const TensorType& type) {
  const Value number = g.call("cast", {g.scalar(value)}, {{"dtype", type.dtype}});
  return g.call("expand", {number}, {{"shape", type.shape}});
}

TensorType type_of(const Value& v) { return {v.dtype(), v.shape()}; }

// if(cond, xs) -> ys: the gradient is an `if` of (xs, dys), whose branches run the original branch
// again and compute dxs.
class OfIf {
 public:
  OfIf(Graph& graph, const Node& node, const std::vector<Value>& douts,
       const std::vector<bool>& needs)
      : graph_(graph), node_(node), douts_(douts), needs_(needs) {}

  Result<std::vector<Value>> run() {
    std::vector<Value> inputs, result(node_.inputs.size());
    for (const ValueId id : node_.inputs) inputs.push_back(graph_.value(id));
    for (const Value& dy : douts_)
      if (dy) inputs.push_back(dy);
    std::vector<Subgraph> branches;
    for (const Subgraph& branch : node_.subgraphs) {
      HG_TRY_ASSIGN(Subgraph gradient, gradient_of(*branch));
      branches.push_back(std::move(gradient));
    }
    const std::vector<Value> grads = graph_.calls("if", inputs, {}, std::move(branches));
    HG_TRY(graph_.take_status());
    size_t k = 0;
    for (size_t i = 1; i < result.size(); ++i)
      if (needs_[i]) result[i] = grads[k++];
    return result;
  }

 private:
  // A size in which the branches differ is a new symbol in each: in the branch that does not run,
  // it differs from the seed's size.
  Value seed_of(Graph& g, const Value& y, const Value& dy) const {
    const std::vector<Dim> fresh = GraphAccess::fresh_symbols(graph_, node_);
    Shape shape = y.shape();
    for (size_t d = 0; d < shape.size(); ++d)
      if (std::find(fresh.begin(), fresh.end(), dy.shape()[d]) != fresh.end())
        shape[d] = g.fresh_symbol();
    const Value seed = g.input("", y.dtype(), shape);
    return shape == y.shape() ? seed : g.call("reshape", {seed}, {{"shape", y.shape()}});
  }

  Result<Subgraph> gradient_of(const Graph& branch) const {
    auto g = std::make_shared<Graph>(branch);
    std::vector<Value> ys, seeds, xs;
    for (size_t i = 0; i < douts_.size(); ++i) {
      if (!douts_[i]) continue;
      ys.push_back(g->value(branch.outputs()[i].second));
      seeds.push_back(seed_of(*g, ys.back(), douts_[i]));
    }
    for (size_t i = 1; i < needs_.size(); ++i)
      if (needs_[i]) xs.push_back(g->value(branch.inputs()[i - 1]));
    const std::vector<Value> grads = grad(ys, xs, seeds);
    HG_TRY(g->take_status());
    GraphAccess::body(*g).outputs.clear();
    for (const Value& dx : grads) g->output("", dx);
    remove_dead_nodes(*g);
    return g;
  }

  Graph& graph_;
  const Node& node_;
  const std::vector<Value>& douts_;
  const std::vector<bool>& needs_;
};

// Copies the nodes of a subgraph to `to`, with these inputs, and returns its results. `values` maps
// the subgraph's ids to the copies; nodes whose results are already in it are not copied.
std::vector<Value> inlined(Graph& to, const Graph& body, const std::vector<Value>& inputs,
                           std::vector<Value>& values) {
  values.resize(body.value_count());
  for (size_t i = 0; i < inputs.size(); ++i) values[body.inputs()[i]] = inputs[i];
  for (const State& state : body.states()) values[state.value] = to.constant(state.data);
  for (const Node& node : body.nodes()) {
    if (values[node.outputs[0]]) continue;
    std::vector<Value> xs;
    for (const ValueId id : node.inputs) xs.push_back(id == kNoValue ? Value() : values[id]);
    to.set_origin(node.origin);
    const std::vector<Value> ys = to.calls(node.op->name(), xs, named_attrs(node), node.subgraphs);
    for (size_t i = 0; i < ys.size(); ++i) values[node.outputs[i]] = ys[i];
  }
  std::vector<Value> outputs;
  for (const auto& [name, id] : body.outputs()) outputs.push_back(values[id]);
  return outputs;
}

// while(cond, values, captures) -> values. A first loop counts the iterations. A second one stores
// the inputs and random draws of each iteration in stacks of [iterations, ...]. A third one walks
// back over them. Iterations draw the same numbers whenever the loop runs again from its start.
// Values to which iterations only append rows, such as results of scan, are excluded from these
// loops: the rows of each iteration receive their part of the gradient of the whole.
class OfWhile {
 public:
  OfWhile(Graph& graph, const Node& node, const std::vector<Value>& douts,
          const std::vector<bool>& needs)
      : graph_(graph), node_(node), douts_(douts), needs_(needs), body_(*node.subgraphs[0]) {
    const size_t carried = body_.outputs().size() - 1;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value x = graph.value(node.inputs[i]);
      (i == 0 ? cond_ : i <= carried ? values_ : captures_).push_back(x);
    }
    for (size_t k = 0; k < carried; ++k) places_.push_back(k + 1);
    first_capture_ = carried + 1;
    take_out_grown();
    carried_ = values_.size();
  }

  Result<std::vector<Value>> run() {
    for (const Node& inner : body_.nodes())
      if (!GraphAccess::fresh_symbols(body_, inner).empty())
        return unsupported(label(graph_, node_), ": there is no gradient through a loop in which ",
                           label(body_, inner), " has a size that only data decides");
    const std::vector<Dim> fresh = GraphAccess::fresh_symbols(graph_, node_);
    for (const size_t place : places_)
      for (const Dim& dim : graph_.value_info(node_.outputs[place - 1]).type.shape)
        if (std::find(fresh.begin(), fresh.end(), dim) != fresh.end())
          return unsupported(label(graph_, node_),
                             ": there is no gradient through a loop in which a size changes");
    HG_TRY(find_draws());
    const Value rounds = count_rounds();
    HG_TRY(graph_.take_status());
    const Value zeros = graph_.call(
        "repeat_interleave", {graph_.call("reshape", {rounds}, {{"shape", Attr({Dim(1)})}})});
    HG_TRY(graph_.take_status());
    length_ = zeros.dim(0);
    // The sum keeps the node that determines the length alive.
    const Value count_up = graph_.call(
        "arange", {}, {{"start", Dim(0)}, {"end", length_}, {"step", Dim(1)}, {"dtype", i64}});
    const Value positions = graph_.call("add", {count_up, zeros});
    fill_stacks(positions);
    HG_TRY(graph_.take_status());
    return walk_back(rounds);
  }

 private:
  // A value to which each iteration appends rows, without any other use.
  struct Grown {
    size_t place;  // position among the node's inputs
    Value start, dy;
    int64_t rows;  // per iteration, along dim 0
  };

  // The rows that an iteration appends to its input `grown`, or an empty Value.
  ValueId added_rows(const std::vector<int>& uses, ValueId grown, ValueId result) const {
    const ValueInfo &input = body_.value_info(grown), &output = body_.value_info(result);
    if (uses[grown] != 1 || uses[result] != 1 || output.node < 0) return kNoValue;
    const Node& node = body_.nodes()[output.node];
    if (node.op->name() != "concat" || node.inputs.size() != 2 || node.inputs[0] != grown ||
        !(AttrReader(node.op, node.attrs).integer("dim") == Dim(0)))
      return kNoValue;
    const std::string_view symbol = input.type.shape[0].symbol();
    std::vector<std::string> named = guarded_symbols(body_);
    for (const Node& each : body_.nodes()) collect_symbols(each, named);
    const bool is_named = std::find(named.begin(), named.end(), symbol) != named.end();
    const Dim& rows = body_.value_info(node.inputs[1]).type.shape[0];
    return symbol.empty() || is_named || !rows.is_constant() ? kNoValue : node.inputs[1];
  }

  // The body returns the rows after its other results instead, in the order of grown_.
  void take_out_grown() {
    const std::vector<int> uses = use_counts(body_);
    GraphBody& body = GraphAccess::body(body_);
    std::vector<ValueId> added;
    for (size_t k = values_.size(); k-- > 0;) {
      const ValueId rows = added_rows(uses, body.inputs[k], body.outputs[k + 1].second);
      if (rows == kNoValue) continue;
      const int64_t count = body.values[rows].type.shape[0].constant();
      grown_.push_back({.place = k + 1, .start = values_[k], .dy = douts_[k], .rows = count});
      added.push_back(rows);
      const auto at = static_cast<int64_t>(k);
      body.inputs.erase(body.inputs.begin() + at);
      body.outputs.erase(body.outputs.begin() + at + 1);
      values_.erase(values_.begin() + at);
      places_.erase(places_.begin() + at);
    }
    for (const ValueId rows : added) body.outputs.emplace_back("", rows);
    remove_dead_nodes(body_);
  }

  // Turns random draws into nodes that do nothing else.
  Status find_draws() {
    HG_TRY(rewrite(body_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      if ((node.op->def.traits & kRandom) == 0 || node.inputs.empty() || !node.op->def.expand)
        return std::optional<std::vector<Value>>();
      HG_TRY_ASSIGN(std::vector<Value> made, GraphAccess::expand(body_, node));
      return std::optional(std::move(made));
    }));
    for (const Node& inner : body_.nodes()) {
      if (!draws(inner)) continue;
      if (!inner.subgraphs.empty() || !inner.inputs.empty())
        return unsupported(label(graph_, node_), ": there is no gradient through a loop in which ",
                           label(body_, inner), " draws random numbers");
      drawn_.insert(drawn_.end(), inner.outputs.begin(), inner.outputs.end());
    }
    return {};
  }

  // Inputs of the same types in a subgraph.
  static std::vector<Value> inputs_like(Graph& g, const std::vector<Value>& values) {
    std::vector<Value> inputs;
    for (const Value& v : values) inputs.push_back(g.input("", v.dtype(), v.shape()));
    return inputs;
  }
  // (values, captures), with the types that the body uses inside.
  static std::vector<Value> joined(std::vector<Value> a, const std::vector<Value>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  Value zero() { return graph_.scalar(int64_t{0}, i64); }
  // The condition and the values of an iteration.
  void add_results(Graph& g, const std::vector<Value>& results) const {
    for (size_t k = 0; k <= carried_; ++k) g.output("", results[k]);
  }

  Value count_rounds() {
    auto g = std::make_shared<Graph>(graph_.registry());
    const std::vector<Value> values = inputs_like(*g, values_);
    const Value count = g->input("", i64, {});
    const std::vector<Value> captures = inputs_like(*g, captures_);
    std::vector<Value> inside;
    add_results(*g, inlined(*g, body_, joined(values, captures), inside));
    g->output("", g->call("add", {count, g->scalar(int64_t{1}, i64)}));
    if (!g->status().ok()) return graph_.fail(g->status());
    const std::vector<Value> out =
        graph_.calls("while", joined(joined(joined(cond_, values_), {zero()}), captures_), {}, {g});
    return out.empty() ? Value() : out.back();
  }

  // Sets stack[i] to v.
  static Value stored(Graph& g, const Value& stack, const Value& positions, const Value& i,
                      const Value& v) {
    Shape row = v.shape(), column(static_cast<size_t>(v.rank()) + 1, Dim(1));
    row.insert(row.begin(), Dim(1));
    column[0] = positions.dim(0);
    const Value here =
        g.call("reshape", {g.call("eq", {positions, i})}, {{"shape", std::move(column)}});
    return g.call("where", {here, g.call("reshape", {v}, {{"shape", std::move(row)}}), stack});
  }

  void fill_stacks(const Value& positions) {
    std::vector<Value> empty;
    const auto add_stack = [&](TensorType type) {
      type.shape.insert(type.shape.begin(), length_);
      empty.push_back(filled(graph_, 0, type));
    };
    for (const Value& v : values_) add_stack(type_of(v));
    for (const ValueId id : drawn_) add_stack(body_.value_info(id).type);
    auto g = std::make_shared<Graph>(graph_.registry());
    const std::vector<Value> values = inputs_like(*g, values_);
    const Value i = g->input("", i64, {});
    const std::vector<Value> stacks = inputs_like(*g, empty);
    const std::vector<Value> captures = inputs_like(*g, captures_);
    const Value at = g->input("", i64, {length_});
    std::vector<Value> inside;
    add_results(*g, inlined(*g, body_, joined(values, captures), inside));
    g->output("", g->call("add", {i, g->scalar(int64_t{1}, i64)}));
    std::vector<Value> kept = values;
    for (const ValueId id : drawn_) kept.push_back(inside[id]);
    for (size_t k = 0; k < kept.size(); ++k) g->output("", stored(*g, stacks[k], at, i, kept[k]));
    if (!g->status().ok()) {
      graph_.fail(g->status());
      return;
    }
    std::vector<Value> inputs = joined(joined(cond_, values_), {zero()});
    inputs = joined(joined(joined(std::move(inputs), empty), captures_), {positions});
    const std::vector<Value> out = graph_.calls("while", inputs, {}, {g});
    if (!out.empty()) stacks_.assign(out.begin() + static_cast<int64_t>(carried_) + 1, out.end());
  }

  // Carries the iteration number, the gradients of the values, and the sums of the gradients of the
  // captures.
  Result<std::vector<Value>> walk_back(const Value& rounds) {
    std::vector<size_t> values, captures;  // with gradients
    std::vector<Value> start = {rounds};
    for (size_t k = 0; k < carried_; ++k) {
      if (!is_float(values_[k].dtype())) continue;
      values.push_back(k);
      const Value& dy = douts_[places_[k] - 1];
      start.push_back(dy ? dy : filled(graph_, 0, type_of(values_[k])));
    }
    for (size_t k = 0; k < captures_.size(); ++k) {
      if (!needs_[first_capture_ + k]) continue;
      captures.push_back(k);
      start.push_back(filled(graph_, 0, type_of(captures_[k])));
    }
    auto g = std::make_shared<Graph>(graph_.registry());
    const std::vector<Value> before = inputs_like(*g, start);
    const std::vector<Value> stacks = inputs_like(*g, stacks_);
    const std::vector<Value> constants = inputs_like(*g, captures_);
    std::vector<Value> whole;  // gradients of the grown values
    for (const Grown& each : grown_)
      if (each.dy) whole.push_back(each.dy);
    const std::vector<Value> wholes = inputs_like(*g, whole);
    const Value round = g->call("sub", {before[0], g->scalar(int64_t{1}, i64)});
    const Value pick = g->call("reshape", {round}, {{"shape", Attr({Dim(1)})}});
    const auto picked = [&](size_t k, const Shape& shape) {
      return g->call("reshape", {g->call("index_select", {stacks[k], pick}, {{"dim", 0}})},
                     {{"shape", shape}});
    };
    std::vector<Value> began, inside(body_.value_count());
    for (size_t k = 0; k < carried_; ++k) began.push_back(picked(k, values_[k].shape()));
    for (size_t k = 0; k < drawn_.size(); ++k)
      inside[drawn_[k]] = picked(carried_ + k, body_.value_info(drawn_[k]).type.shape);
    const std::vector<Value> gave = inlined(*g, body_, joined(began, constants), inside);
    HG_TRY(g->take_status());
    std::vector<Value> ys, wrt;
    for (const size_t k : values) {
      ys.push_back(gave[k + 1]);
      wrt.push_back(began[k]);
    }
    for (const size_t k : captures) wrt.push_back(constants[k]);
    std::vector<Value> seeds(before.begin() + 1,
                             before.begin() + 1 + static_cast<int64_t>(values.size()));
    for (size_t k = 0, at = 0; k < grown_.size(); ++k) {
      if (!grown_[k].dy) continue;
      const Value& rows = gave[1 + carried_ + k];
      const Dim first = grown_[k].start.dim(0), count = grown_[k].rows;
      const Value places =
          g->call("arange", {},
                  {{"start", first}, {"end", first + count}, {"step", Dim(1)}, {"dtype", i64}});
      const Value behind = g->call("mul", {pick, g->scalar(grown_[k].rows, i64)});
      const Value dy =
          g->call("index_select", {wholes[at++], g->call("add", {places, behind})}, {{"dim", 0}});
      ys.push_back(rows);
      seeds.push_back(g->call("reshape", {dy}, {{"shape", rows.shape()}}));
    }
    const std::vector<Value> grads = grad(ys, wrt, seeds);
    HG_TRY(g->take_status());
    g->output("", g->call("gt", {round, g->scalar(int64_t{0}, i64)}));
    g->output("", round);
    for (size_t k = 0; k < grads.size(); ++k)
      g->output("", k < values.size() ? grads[k] : g->call("add", {before[k + 1], grads[k]}));
    HG_TRY(g->take_status());
    remove_dead_nodes(*g);
    const Value any = graph_.call("gt", {rounds, zero()});
    const std::vector<Value> out = graph_.calls(
        "while", joined(joined(joined(joined({any}, start), stacks_), captures_), whole), {}, {g});
    HG_TRY(graph_.take_status());
    std::vector<Value> result(node_.inputs.size());
    for (size_t k = 0; k < values.size(); ++k) result[places_[values[k]]] = out[1 + k];
    for (size_t k = 0; k < captures.size(); ++k)
      result[first_capture_ + captures[k]] = out[1 + values.size() + k];
    for (const Grown& each : grown_)
      if (each.dy && needs_[each.place])
        result[each.place] =
            graph_.call("slice", {each.dy}, {{"dim", 0}, {"start", 0}, {"end", each.start.dim(0)}});
    HG_TRY(graph_.take_status());
    return result;
  }

  Graph& graph_;
  const Node& node_;
  const std::vector<Value>& douts_;
  const std::vector<bool>& needs_;
  Graph body_;
  std::vector<ValueId> drawn_;  // random values of the body
  size_t carried_ = 0;          // without grown_
  std::vector<size_t> places_;  // positions of the values among the node's inputs
  size_t first_capture_ = 0;    // position among the node's inputs
  std::vector<Grown> grown_;
  std::vector<Value> cond_, values_, captures_, stacks_;
  Dim length_;
};

}  // namespace

Result<std::vector<Value>> control_gradients(Graph& graph, const Node& node,
                                             const std::vector<Value>& douts,
                                             const std::vector<bool>& needs) {
  if (node.op->def.traits & kLoop) return OfWhile(graph, node, douts, needs).run();
  return OfIf(graph, node, douts, needs).run();
}

}  // namespace hg
