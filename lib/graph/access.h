// SPDX-License-Identifier: Apache-2.0
// The inside of a Graph, for the passes, the planner and the file reader, which build and change
// graphs without the checks of the public builder. Call Graph::verify() after changing by hand.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "hg/graph.h"
#include "hg/op.h"

namespace hg {

// What users of a graph keep for one another, as long as one of them lives. An unchanged copy of
// the graph finds the same; a graph that changes begins anew.
class GraphCompanion {
 public:
  virtual ~GraphCompanion() = default;
};
struct GraphCompanions {
  std::mutex mutex;                                // of `all`
  std::vector<std::weak_ptr<GraphCompanion>> all;  // sessions': lib/run/compiled.h
  bool is_used = false;
};

struct GraphBody {
  Graph* graph = nullptr;  // whose body this is, wherever it was moved to
  const Registry* registry = nullptr;
  std::deque<ValueInfo> values;  // references stay valid while values are added
  std::vector<Node> nodes;       // each after the producers of its inputs
  std::vector<State> states;
  std::shared_ptr<void> file;  // the owner of all data that lies in a mapped file, or null
  std::vector<ValueId> inputs;
  std::vector<std::pair<std::string, ValueId>> outputs;
  std::vector<std::pair<ValueId, ValueId>> assignments;
  std::vector<Guard> guards;
  std::unordered_map<std::string, ValueId> names;
  std::unordered_map<std::string, int32_t> name_counters;
  Origin origin;
  Status status;
  int32_t fresh_count = 0;
  std::shared_ptr<GraphCompanions> companions = std::make_shared<GraphCompanions>();

  // Of each function that changes what a session is made of.
  void changes() {
    if (companions.use_count() > 1 || companions->is_used)
      companions = std::make_shared<GraphCompanions>();
  }
};

struct GraphAccess {
  // Of a graph that was moved from: nothing, and its error.
  static const GraphBody& body(const Graph& graph);
  // Of a graph that was not, and that changes.
  static GraphBody& body(Graph& graph) {
    graph.body_->changes();
    return *graph.body_;
  }
  // A graph as one that was moved from.
  static Graph without_body() { return Graph(std::unique_ptr<GraphBody>()); }

  // A new value without producer; the name is made unique.
  static ValueId add_value(Graph& graph, TensorType type, std::string_view name);
  // Gives the value another name, made unique.
  static void rename(Graph& graph, ValueId id, std::string_view name);
  // Appends the node and makes it the producer of its outputs.
  static void push_node(Graph& graph, Node node);

  // The attributes of a call in the order of the signature, with defaults and conversions
  // (a number for a real, one integer for a list of one).
  static Result<std::vector<Attr>> normalize_attrs(const Op& op, const NamedAttrs& attrs);
  static Status check_attr(const Op& op, size_t index, const Attr& attr);

  struct InferCall {
    const Op* op = nullptr;
    std::span<const Attr> attrs;
    std::vector<const TensorType*> inputs;     // null for optional inputs that are not given
    std::vector<const TensorData*> constants;  // null where not constant
    std::span<const std::shared_ptr<Graph>> subgraphs;
    const Origin* origin = nullptr;
    Graph* graph = nullptr;  // where fresh symbols come from, or null:
    std::vector<Dim> fresh;  // then these are taken
  };
  // The types of the outputs, from the op's shape rule or else from its expansion.
  static Result<std::vector<TensorType>> infer(const InferCall& call);
  // An InferCall for a node as it stands.
  static InferCall infer_call(const Graph& graph, const Node& node);
  // The symbols that the node's outputs introduced, in order of appearance.
  static std::vector<Dim> fresh_symbols(const Graph& graph, const Node& node);

  // Builds the node's expansion into the graph and returns its outputs.
  static Result<std::vector<Value>> expand(Graph& graph, const Node& node);
  // Runs the node's gradient rule: `douts` may hold empty Values; the result has one Value for each
  // input, empty where none was asked for or there is none.
  static Result<std::vector<Value>> grad(Graph& graph, const Node& node,
                                         const std::vector<Value>& douts,
                                         const std::vector<bool>& needs);
};

// Lets the system take the pages of data that lies in the graph's file; it reads them again when
// they are used. Does nothing for other data.
void release_pages(const Graph& graph, const TensorData& data);

// The attributes of a node, or those of such an op in the order of its signature, as a call takes
// them.
NamedAttrs named_attrs(const Op& op, std::span<const Attr> attrs);
inline NamedAttrs named_attrs(const Node& node) { return named_attrs(*node.op, node.attrs); }

// "conv 'layer1.0.conv1'", or "conv 'conv_3'" when the module path is not known.
std::string label(const Graph& graph, const Node& node);

// Calls f with the value that the attribute holds. (std::visit brings code that throws.)
template <class F>
void visit(const Attr& attr, F&& f) {
  const auto call = [&]<class... T>(const std::variant<T...>& value) {
    (void)((std::holds_alternative<T>(value) && (f(*std::get_if<T>(&value)), true)) || ...);
  };
  call(attr.value);
}

}  // namespace hg
