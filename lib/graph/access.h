// SPDX-License-Identifier: Apache-2.0
// Internals of Graph, for passes, the planner and the file reader, which modify graphs without the
// checks of the public builder. Call Graph::verify() after modifying a graph.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "hg/graph.h"
#include "hg/op.h"

namespace hg {

// Data that users of a graph share, kept while one of them lives. Unchanged copies of the graph
// share it; a modified graph starts without it.
class GraphCompanion {
 public:
  virtual ~GraphCompanion() = default;
};
struct GraphCompanions {
  std::mutex mutex;                                // guards `all` and `made`
  std::vector<std::weak_ptr<GraphCompanion>> all;  // of sessions: lib/run/compiled.h
  // Graphs made from this one, each with a text that describes how. Equal texts mean equal graphs.
  std::vector<std::pair<std::string, std::weak_ptr<GraphCompanions>>> made;
  bool is_used = false;
};

class ReadAhead;  // lib/platform/read_ahead.h

// A mapped file with data of states. The data cannot be written.
struct DataFile {
  std::shared_ptr<void> owner;  // as in TensorData
  ReadAhead* ahead = nullptr;   // of `owner`; may be null
  // The CRC-32C that the file records, by the address of the data and its bytes.
  std::map<std::pair<const void*, int64_t>, uint32_t> sums;
};

class LaterData;

struct GraphBody {
  Graph* graph = nullptr;  // the graph that owns this body, also after a move
  const Registry* registry = nullptr;
  std::deque<ValueInfo> values;  // a deque: adding values keeps references valid
  std::vector<Node> nodes;       // each after the producers of its inputs
  std::vector<State> states;
  std::shared_ptr<const DataFile> file;                   // may be null
  std::map<const void*, std::weak_ptr<LaterData>> later;  // by the address of the data
  std::vector<ValueId> inputs;
  std::vector<std::pair<std::string, ValueId>> outputs;
  std::vector<std::pair<ValueId, ValueId>> assignments;
  std::vector<Guard> guards;
  std::unordered_map<std::string, ValueId> names;
  std::unordered_map<std::string, int32_t> name_counters;
  Origin origin;
  Status status;
  int32_t fresh_count = 0;
  // Of a scratch graph: collects what the shape rules of its calls assume; null: nobody asks.
  std::vector<Assumption>* assumptions = nullptr;
  std::shared_ptr<GraphCompanions> companions = std::make_shared<GraphCompanions>();

  // Called by every function that changes a part of the graph that sessions depend on.
  void changes() {
    if (companions.use_count() > 1 || companions->is_used)
      companions = std::make_shared<GraphCompanions>();
  }
};

struct GraphAccess {
  // Body of a moved-from graph: empty, with its error.
  static const GraphBody& body(const Graph& graph);
  // Body of a graph that was not moved from, for modification.
  static GraphBody& body(Graph& graph) {
    graph.body_->changes();
    return *graph.body_;
  }
  // Lets `graph`, which was made from `original` as `how` describes, share the companions of other
  // graphs made the same way.
  static void share_companions(const Graph& original, const std::string& how, Graph& graph);
  // A graph in the moved-from state.
  static Graph without_body() { return Graph(std::unique_ptr<GraphBody>()); }

  // Adds a value without a producer; makes its name unique.
  static ValueId add_value(Graph& graph, TensorType type, std::string_view name);
  // Renames the value; makes the name unique.
  static void rename(Graph& graph, ValueId id, std::string_view name);
  // Appends the node and makes it the producer of its outputs.
  static void push_node(Graph& graph, Node node);

  // Returns the attributes of a call in signature order, with defaults and conversions: an integer
  // for a float, one integer for a list of one.
  static Result<std::vector<Attr>> normalize_attrs(const Op& op, const NamedAttrs& attrs);
  static Status check_attr(const Op& op, size_t index, const Attr& attr);

  struct InferCall {
    const Op* op = nullptr;
    const Registry* registry = &Registry::built_in();  // of the ops that a composite consists of
    std::span<const Attr> attrs;
    std::vector<const TensorType*> inputs;     // null for optional inputs that are not given
    std::vector<const TensorData*> constants;  // null if not constant
    std::span<const std::shared_ptr<Graph>> subgraphs;
    const Origin* origin = nullptr;
    Graph* graph = nullptr;                          // source of fresh symbols; null: uses `fresh`
    std::vector<Dim> fresh;                          // existing symbols to reuse if `graph` is null
    std::vector<Assumption>* assumptions = nullptr;  // null: not collected
    std::vector<TensorType>* spare = nullptr;        // memory for the result, if any
  };
  // Returns the types of the outputs, from the op's shape rule or else its expansion.
  static Result<std::vector<TensorType>> infer(const InferCall& call);
  // Makes an InferCall for an existing node.
  static InferCall infer_call(const Graph& graph, const Node& node);
  // Returns the symbols that the node's outputs introduced, in order of appearance.
  static std::vector<Dim> fresh_symbols(const Graph& graph, const Node& node);

  // Builds the node's expansion into the graph and returns its outputs.
  static Result<std::vector<Value>> expand(Graph& graph, const Node& node);
  // Runs the node's gradient rule. `douts` may contain empty Values. Returns one Value per input,
  // empty if not requested or without a gradient.
  static Result<std::vector<Value>> grad(Graph& graph, const Node& node,
                                         const std::vector<Value>& douts,
                                         const std::vector<bool>& needs);
};

// Begins to read the graph's mapped file, if it is large and not in memory.
void read_ahead(const Graph& graph);
// Tells the system to drop the pages of data in the graph's mapped file; they are read again on
// use. Ignores other data.
void release_pages(const Graph& graph, const TensorData& data);
// The CRC-32C that the graph's mapped file records for data in it, which may be damaged.
std::optional<uint32_t> recorded_sum(const Graph& graph, const TensorData& data);

// Returns attributes, given in signature order, in the form that calls take.
NamedAttrs named_attrs(const Op& op, std::span<const Attr> attrs);
inline NamedAttrs named_attrs(const Node& node) { return named_attrs(*node.op, node.attrs); }

// Returns "conv 'layer1.0.conv1'", or "conv 'conv_3'" if the module path is unknown.
std::string label(const Graph& graph, const Node& node);

// As broadcast(), in place. Leaves `a` as it is if it fails.
Status broadcast_onto(const Shape& b, Shape& a);

// Calls f with the value that the attribute holds. Replaces std::visit, which contains code for
// exceptions.
template <class F>
void visit(const Attr& attr, F&& f) {
  const auto call = [&]<class... T>(const std::variant<T...>& value) {
    (void)((std::holds_alternative<T>(value) && (f(*std::get_if<T>(&value)), true)) || ...);
  };
  call(attr.value);
}

}  // namespace hg
