// SPDX-License-Identifier: Apache-2.0
// A graph of ops over tensors with symbolic sizes: what models are loaded as, and what
// applications build. Graphs are values: not shared between threads, cheap to move.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hg/dim.h"
#include "hg/status.h"
#include "hg/tensor.h"

namespace hg {

class Graph;
struct GraphBody;  // lib/graph/access.h
class Registry;
struct Op;  // an op of a registry, see op.h

// One attribute of a node. Integers are Dims, so that they may depend on symbols.
class Attr {
 public:
  using Variant = std::variant<std::monostate, bool, Dim, double, std::string, DType,
                               std::vector<Dim>, std::vector<double>, std::vector<std::string>>;
  Attr();  // none: an optional attribute that is not given
  Attr(bool value);  // NOLINT: implicit, as all below
  Attr(int value);
  Attr(int64_t value);
  Attr(Dim value);
  Attr(double value);
  Attr(const char* value);
  Attr(std::string value);
  Attr(DType value);
  // One of the enums of words.h.
  template <class Word>
    requires(std::is_enum_v<Word> && requires(Word word) { name_of(word); })
  Attr(Word word) : Attr(std::string(name_of(word))) {}
  Attr(std::vector<Dim> value);
  Attr(std::initializer_list<Dim> value);
  Attr(std::vector<double> value);
  Attr(std::vector<std::string> value);
  Attr(const Attr&);
  Attr(Attr&&) noexcept;
  Attr& operator=(const Attr&);
  Attr& operator=(Attr&&) noexcept;
  ~Attr();

  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  friend bool operator==(const Attr& a, const Attr& b);

  Variant value;
};
void append_text(std::string& out, const Attr& attr);

struct NamedAttr {
  std::string_view name;
  Attr value;
};
using NamedAttrs = std::vector<NamedAttr>;

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an optional input that is not given

// A handle to one tensor of a graph; copying copies the handle. A default-constructed Value stands
// for an optional input that is not given. Valid while its graph lives, also where it is moved to.
class Value {
 public:
  Value() = default;
  Value(Graph* graph, ValueId id);
  explicit operator bool() const { return id_ != kNoValue; }
  // Where builders add to; never null. That of a default-constructed Value takes nothing: what is
  // built from it is again an empty Value, which no graph takes for an output.
  Graph* graph() const;
  ValueId id() const { return id_; }
  DType dtype() const;
  const Shape& shape() const;
  int rank() const { return static_cast<int>(shape().size()); }
  const Dim& dim(int i) const;  // negative i counts from the end
  const std::string& name() const;
  friend bool operator==(const Value&, const Value&) = default;

 private:
  GraphBody* body_ = nullptr;
  ValueId id_ = kNoValue;
};

// What the graph stores of a Value.
struct ValueInfo {
  TensorType type;
  std::string name;   // unique in the graph; generated where none was given
  int32_t node = -1;  // the producing node, or -1 for inputs and states
  int32_t state = -1; // index into states(), or -1
};

// Where a node came from, for messages: "encoder.layer.0.attention" and "modeling.py:120".
struct Origin {
  std::string module;
  std::string source;
  friend bool operator==(const Origin&, const Origin&) = default;
};

// What a graph takes for granted about its sizes: left relation right. It is tested as soon as the
// sizes are known, before anything runs with them; a body of control flow has guards of its own,
// which are tested when that body runs.
enum class Relation : uint8_t { eq, ne, lt, le };
struct Guard {
  Dim left;
  Relation relation = Relation::eq;
  Dim right;
  std::string reason;  // what relies on it: "squeeze"
  Origin origin;
  friend bool operator==(const Guard&, const Guard&) = default;
};
// "n != 1, because of squeeze at model.py:12"
void append_text(std::string& out, const Guard& guard);
// True or false where it is so for all sizes, or for those that have a number; else none.
std::optional<bool> truth(const Guard& guard);
// Fails when the guard does not hold: "n is 1, but the model was converted for n other than 1,
// because of squeeze at model.py:12". A guard of which a symbol has no number passes.
Status check(const Guard& guard, const Bindings& sizes);
// Whether the graph, or a body in it, has guards or nodes that fail a run where data says so: control
// flow around it stays, though nobody reads its results.
bool has_assertions(const Graph& graph);

struct Node {
  const Op* op = nullptr;
  std::vector<ValueId> inputs;    // kNoValue for optional inputs that are not given
  std::vector<ValueId> outputs;
  std::vector<Attr> attrs;        // one for each attribute of the op's signature, in its order
  std::vector<std::shared_ptr<Graph>> subgraphs;  // of control flow; they see only their own inputs
  Origin origin;
};

// A tensor that lives as long as the model.
struct State {
  enum class Kind : uint8_t {
    parameter,  // trained
    buffer,     // updated by assign nodes only, such as running statistics
    constant,   // never changes
  };
  Kind kind = Kind::constant;
  std::string name;   // "layer1.0.conv1.weight"; unique among parameters and buffers
  TensorData data;
  ValueId value = kNoValue;
  // Further names of the same tensor: tied parameters are stored once.
  std::vector<std::string> aliases;
  // Of a parameter: whether a trainer updates it when no rule says otherwise.
  bool requires_grad = true;
};

// How a parameter made by an application starts. Deterministic in the seed.
namespace init {
struct Rule {
  enum class Kind : uint8_t { constant, uniform, normal } kind = Kind::constant;
  double a = 0, b = 0;  // value; lower and upper end; mean and standard deviation
  bool scale_by_fan_in = false;
  uint64_t seed = 0;
};
inline Rule constant(double value) { return {Rule::Kind::constant, value, 0, false, 0}; }
inline Rule zeros() { return constant(0); }
inline Rule ones() { return constant(1); }
inline Rule uniform(double low, double high, uint64_t seed) {
  return {Rule::Kind::uniform, low, high, false, seed};
}
inline Rule normal(double mean, double stddev, uint64_t seed) {
  return {Rule::Kind::normal, mean, stddev, false, seed};
}
// U(-b, b) with b = sqrt(6 / fan_in): He et al. 2015, section 2.2, gain sqrt(2).
inline Rule kaiming_uniform(uint64_t seed) {
  return {Rule::Kind::uniform, -2.449489742783178, 2.449489742783178, true, seed};
}
}  // namespace init

// Building never fails in the middle: the first error is kept, later calls return values of that
// broken graph, and status() tells; so it does when std::bad_alloc passed (hg/status.h). Loading,
// compiling and saving check status() first. A graph that was moved from is such a broken graph
// until it is assigned to: empty, and invalid_argument.
class Graph {
 public:
  Graph();  // with Registry::built_in()
  explicit Graph(const Registry& registry);  // which must outlive the graph
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&);  // weights are shared
  Graph& operator=(const Graph&);
  ~Graph();

  Value input(std::string name, DType dtype, Shape shape);
  Value parameter(std::string name, DType dtype, const Sizes& shape,
                  const init::Rule& rule = init::zeros());
  Value parameter(std::string name, TensorData data);
  Value buffer(std::string name, TensorData data);
  Value constant(TensorData data, std::string name = "");
  // One more name of a parameter or buffer: tied parameters are stored once.
  void add_alias(Value state, std::string name);
  // Whether trainers update the parameter when no rule says otherwise; they do by default.
  void set_requires_grad(Value parameter, bool required);
  // A constant of rank 0, the whole part of the number for an integer dtype, which must hold it;
  // u8 wraps numbers from -255 on, as torch does.
  Value scalar(double value, DType dtype = f32);
  Value scalar(int64_t value, DType dtype);

  // Any registered op by name. Attributes that are not given take their defaults. `call` is for
  // ops with one output; `calls` returns all outputs.
  Value call(std::string_view op, std::span<const Value> inputs, const NamedAttrs& attrs = {});
  Value call(std::string_view op, std::initializer_list<Value> inputs,
             const NamedAttrs& attrs = {}) {
    return call(op, std::span(inputs.begin(), inputs.size()), attrs);
  }
  std::vector<Value> calls(std::string_view op, std::span<const Value> inputs,
                           const NamedAttrs& attrs = {},
                           std::vector<std::shared_ptr<Graph>> subgraphs = {});
  std::vector<Value> calls(std::string_view op, std::initializer_list<Value> inputs,
                           const NamedAttrs& attrs = {}) {
    return calls(op, std::span(inputs.begin(), inputs.size()), attrs);
  }
  // The state becomes `value` at the end of each run. Same dtype and shape.
  void assign(Value state, Value value);
  void output(std::string name, Value value);  // an empty name becomes "output_<k>"

  // From here on the graph is only valid for sizes of which this holds. What holds of all sizes is
  // not kept; what holds of none fails.
  void guard(Dim left, Relation relation, Dim right, std::string reason);
  // Nodes and guards added from here on carry this origin.
  void set_origin(Origin origin);
  // A symbol that no dim uses so far, for sizes that only data decides: "u0", "u1".
  Dim fresh_symbol();
  // Keeps the first failure; later ones are dropped. Returns an invalid Value for chaining.
  Value fail(Status status);

  const Status& status() const;  // the first error of building, or ok
  // Returns the first error and forgets it, to go on building without what failed.
  Status take_status();
  // Everything a foreign graph could have wrong: ids, order, names, arity, attributes, and that each
  // shape equals the one its rule infers.
  Status verify() const;
  // The graph as text, one node a line; the same text for the same graph.
  std::string text() const;

  const Registry& registry() const;
  const std::vector<Node>& nodes() const;
  const std::vector<State>& states() const;
  const ValueInfo& value_info(ValueId id) const;
  Value value(ValueId id) { return Value(this, id); }
  int32_t value_count() const;
  const std::vector<ValueId>& inputs() const;
  const std::vector<std::pair<std::string, ValueId>>& outputs() const;
  // What runs leave behind: pairs of (state value, new value).
  const std::vector<std::pair<ValueId, ValueId>>& assignments() const;
  // Those of the graph itself: bodies of control flow have their own.
  const std::vector<Guard>& guards() const;
  // Symbols of the inputs in order of first use.
  std::vector<std::string> symbols() const;
  // The constant that a value is, or null. Valid while the graph is not changed.
  const TensorData* constant_of(ValueId id) const;

 private:
  friend class Value;
  friend struct GraphAccess;  // lib/graph: passes and the reader rebuild graphs through it
  explicit Graph(std::unique_ptr<GraphBody> body);
  std::unique_ptr<GraphBody> body_;
};

}  // namespace hg
