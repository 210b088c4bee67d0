// SPDX-License-Identifier: Apache-2.0
// Checks a graph that was not made by the builder: from a file, or the result of a pass.
#include <algorithm>
#include <unordered_set>

#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/symbols.h"

namespace hg {
namespace {

constexpr int kMaxSubgraphDepth = 16;

// Whether two sizes are equal wherever both are defined, tested with some numbers for their
// symbols, except 0. An older version may have simplified a size differently, and broadcast 0 and 1
// to 1. The planner compares the numbers in every run.
bool agree(const Dim& a, const Dim& b) {
  if (a == b) return true;
  std::vector<std::string> symbols;
  a.collect_symbols(symbols);
  b.collect_symbols(symbols);
  uint64_t state = 1;
  bool compared = false;
  for (int round = 0; round < 48; ++round) {
    Bindings bindings;
    for (const std::string& symbol : symbols) {
      state = state * 6364136223846793005 + 1442695040888963407;  // Knuth, MMIX
      const auto number = static_cast<int64_t>(state >> 33);
      (void)bindings.bind(symbol, 1 + (number >> (round % 3 == 0 ? 27 : round % 3 == 1 ? 22 : 12)));
    }
    const Result<int64_t> x = a.evaluate(bindings), y = b.evaluate(bindings);
    if (!x.ok() || !y.ok()) continue;
    if (*x != *y) return false;
    compared = true;
  }
  return compared;
}

bool agree(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(),
                    [](const Dim& x, const Dim& y) { return agree(x, y); });
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph, int depth)
      : graph_(graph),
        body_(GraphAccess::body(graph)),
        defined_(body_.values.size(), false),
        depth_(depth) {}

  Status verify() {
    HG_CHECK(depth_ <= kMaxSubgraphDepth, "subgraphs are nested more than ", kMaxSubgraphDepth,
             " deep");
    HG_TRY(check_values());
    for (const ValueId id : body_.inputs) HG_TRY(define(id, "an input"));
    for (size_t i = 0; i < body_.states.size(); ++i) HG_TRY(check_state(i));
    for (size_t i = 0; i < body_.nodes.size(); ++i) HG_TRY(check_node(i));
    HG_TRY(check_guards());
    return check_results();
  }

 private:
  Status check_values() {
    std::unordered_set<std::string_view> names;
    for (const ValueInfo& value : body_.values) {
      HG_CHECK(!value.name.empty(), "a value has no name");
      HG_CHECK(names.insert(value.name).second, "there are two values named '", value.name, "'");
      HG_CHECK(value.type.shape.size() <= kMaxRank, "value '", value.name, "' has rank ",
               int64_t(value.type.shape.size()), "; the limit is ", kMaxRank);
      HG_CHECK(static_cast<int>(value.type.dtype) < kDTypeCount, "value '", value.name,
               "' has the invalid dtype ", static_cast<int>(value.type.dtype));
    }
    return {};
  }

  bool exists(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < body_.values.size(); }

  Status define(ValueId id, std::string_view what) {
    HG_CHECK(exists(id), what, " refers to value ", id, " of ", int64_t(body_.values.size()));
    HG_CHECK(!defined_[id], "value '", graph_.value_info(id).name, "' is defined twice");
    defined_[id] = true;
    return {};
  }

  Status check_state(size_t index) {
    const State& state = body_.states[index];
    HG_TRY(define(state.value, "a state"));
    const ValueInfo& info = graph_.value_info(state.value);
    HG_CHECK(info.state == static_cast<int32_t>(index), "state '", state.name,
             "' is not the state of its value");
    HG_CHECK(!state.data.empty(), "state '", state.name, "' has no data");
    const TensorType type{state.data.tensor.dtype, to_shape(state.data.tensor.shape)};
    HG_CHECK(info.type == type, "state '", state.name, "' holds ", type, ", its value says ",
             info.type);
    return {};
  }

  Status check_node(size_t index) {
    const Node& node = body_.nodes[index];
    HG_CHECK(node.op != nullptr, "node ", int64_t(index), " has no op");
    const std::string where = str_cat("node ", int64_t(index), " (", node.op->name(), ")");
    const auto& slots = node.op->signature.inputs;
    const bool variadic = !slots.empty() && slots.back().variadic;
    HG_CHECK(variadic ? node.inputs.size() + 1 >= slots.size() : node.inputs.size() == slots.size(),
             where, " has ", int64_t(node.inputs.size()), " inputs; the signature is ",
             node.op->def.signature);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue) {
        HG_CHECK(slots[std::min(i, slots.size() - 1)].optional, where, " misses input ",
                 int64_t(i));
        continue;
      }
      HG_CHECK(exists(id), where, " refers to value ", id, " of ", int64_t(body_.values.size()));
      HG_CHECK(defined_[id], where, " uses '", graph_.value_info(id).name,
               "' before it is defined");
    }
    HG_CHECK(node.attrs.size() == node.op->signature.attributes.size(), where, " has ",
             int64_t(node.attrs.size()), " attributes, not ",
             int64_t(node.op->signature.attributes.size()));
    for (size_t i = 0; i < node.attrs.size(); ++i)
      HG_TRY(GraphAccess::check_attr(*node.op, i, node.attrs[i]));
    for (const auto& subgraph : node.subgraphs) {
      HG_CHECK(subgraph != nullptr, where, " has an empty subgraph");
      HG_TRY(Verifier(*subgraph, depth_ + 1).verify());
    }
    return check_outputs(node, static_cast<int32_t>(index), where);
  }

  Status check_outputs(const Node& node, int32_t index, const std::string& where) {
    HG_CHECK(!node.outputs.empty(), where, " has no output");
    for (const ValueId id : node.outputs) {
      HG_TRY(define(id, where));
      HG_CHECK(graph_.value_info(id).node == index, where, " is not the producer of its output '",
               graph_.value_info(id).name, "'");
    }
    GraphAccess::InferCall call = GraphAccess::infer_call(graph_, node);
    call.fresh = GraphAccess::fresh_symbols(graph_, node);
    HG_TRY_ASSIGN(const std::vector<TensorType> types, GraphAccess::infer(call));
    HG_CHECK(types.size() == node.outputs.size(), where, " has ", int64_t(node.outputs.size()),
             " outputs, its shape rule gives ", int64_t(types.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      const ValueInfo& info = graph_.value_info(node.outputs[i]);
      HG_CHECK(agree(info.type, types[i]), where, ": output '", info.name, "' is ", info.type,
               ", its shape rule gives ", types[i]);
    }
    return {};
  }

  // A guard of a body may use sizes of the enclosing graph.
  Status check_guards() {
    for (const Guard& guard : body_.guards)
      HG_CHECK(guard.relation <= Relation::le, "a guard has the invalid relation ",
               static_cast<int>(guard.relation));
    if (depth_ > 0 || body_.guards.empty()) return {};
    const std::vector<std::string> unknown = outer_symbols(graph_);
    for (const std::string& symbol : guarded_symbols(graph_))
      HG_CHECK(std::find(unknown.begin(), unknown.end(), symbol) == unknown.end(),
               "a guard names the size '", symbol, "', which nothing in the graph decides");
    return {};
  }

  Status check_results() {
    std::unordered_set<std::string_view> names;
    for (const auto& [name, id] : body_.outputs) {
      HG_CHECK(exists(id) && defined_[id], "output '", name,
               "' refers to a value that is not defined");
      HG_CHECK(names.insert(name).second, "there are two outputs named '", name, "'");
    }
    for (const auto& [target, source] : body_.assignments) {
      HG_CHECK(exists(target) && exists(source) && defined_[target] && defined_[source],
               "an assignment refers to a value that is not defined");
      const ValueInfo& info = graph_.value_info(target);
      HG_CHECK(info.state >= 0 && body_.states[info.state].kind != State::Kind::constant, "'",
               info.name, "' is assigned, but is neither parameter nor buffer");
      HG_CHECK(info.type == graph_.value_info(source).type, "'", info.name, "' is ", info.type,
               ", but ", graph_.value_info(source).type, " is assigned to it");
    }
    return {};
  }

  const Graph& graph_;
  const GraphBody& body_;
  std::vector<bool> defined_;
  int depth_;
};

}  // namespace

Status Graph::verify() const {
  return or_no_memory([&]() -> Status {
    HG_TRY(status());
    return Verifier(*this, 0).verify();
  });
}

}  // namespace hg
