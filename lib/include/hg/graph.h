// SPDX-License-Identifier: Apache-2.0
// A graph of ops over tensors with symbolic sizes. Models are loaded as graphs, and applications
// build them. A Graph is a value: cheap to move; use it from one thread at a time.
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

// One attribute of a node. Integers are Dims and may depend on symbols.
class Attr {
 public:
  using Variant = std::variant<std::monostate, bool, Dim, double, std::string, DType,
                               std::vector<Dim>, std::vector<double>, std::vector<std::string>>;
  Attr();            // none: an optional attribute that is not given
  Attr(bool value);  // NOLINT: implicit, as all below
  Attr(int value);
  Attr(int64_t value);
  Attr(Dim value);
  Attr(double value);
  Attr(const char* value);
  Attr(std::string value);
  Attr(DType value);
  // One of the enums of hg/words.h.
  template <class Word>
    requires(std::is_enum_v<Word> && requires(Word word) { to_string(word); })
  Attr(Word word) : Attr(std::string(to_string(word))) {}
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

// A handle to one tensor of a graph; copying copies the handle. A default-constructed Value is an
// optional input that is not given. A handle stays valid if its graph is moved, and as long as the
// graph's contents live.
class Value {
 public:
  Value() = default;
  Value(Graph* graph, ValueId id);
  explicit operator bool() const { return id_ != kNoValue; }
  // Returns the graph that builders add nodes to; never null. For an empty Value it is a graph that
  // accepts nothing: building from it returns empty Values, and no graph accepts those as outputs.
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

// The data that a graph stores for a Value.
struct ValueInfo {
  TensorType type;
  std::string name;    // unique in the graph; generated if not given
  int32_t node = -1;   // the producing node; -1 for inputs and states
  int32_t state = -1;  // index into states(); -1 if not a state
};

// The source location of a node, for messages: "encoder.layer.0.attention" and "modeling.py:120".
struct Origin {
  std::string module;
  std::string source;
  friend bool operator==(const Origin&, const Origin&) = default;
};

// A condition on sizes that the graph relies on: left relation right. It is checked as soon as the
// sizes are known, before anything runs with them. A body of control flow has its own guards, which
// are checked when the body runs.
enum class Relation : uint8_t { eq, ne, lt, le };
struct Guard {
  Dim left;
  Relation relation = Relation::eq;
  Dim right;
  std::string reason;  // the operation that needs it: "squeeze"
  Origin origin;
  friend bool operator==(const Guard&, const Guard&) = default;
};
// Appends text such as "n != 1, because of squeeze at model.py:12".
void append_text(std::string& out, const Guard& guard);
// Returns true or false if the guard holds for all sizes or for none; otherwise nullopt.
std::optional<bool> truth(const Guard& guard);
// Fails if the guard does not hold: "n is 1, but the model was converted for n other than 1,
// because of squeeze at model.py:12". Passes if a symbol of the guard is unbound.
Status check(const Guard& guard, const Bindings& sizes);
// True if the graph or one of its bodies has guards or nodes that can fail a run depending on data.
// Control flow that contains such a body is kept even if its results are unused.
bool has_assertions(const Graph& graph);

struct Node {
  const Op* op = nullptr;
  std::vector<ValueId> inputs;  // kNoValue for optional inputs that are not given
  std::vector<ValueId> outputs;
  std::vector<Attr> attrs;  // one per attribute of the op's signature, in its order
  // of control flow; a subgraph sees only its own inputs
  std::vector<std::shared_ptr<Graph>> subgraphs;
  Origin origin;
};

// A tensor that lives as long as the model.
struct State {
  enum class Kind : uint8_t {
    parameter,  // trained
    buffer,     // changed only by assign(), such as running statistics
    constant,   // never changes
  };
  Kind kind = Kind::constant;
  std::string name;  // "layer1.0.conv1.weight"; unique among parameters and buffers
  TensorData data;   // contiguous
  ValueId value = kNoValue;
  // Other names of this tensor. Tied parameters are stored once.
  std::vector<std::string> aliases;
  // For parameters: whether trainers update it unless a ParameterRule says otherwise.
  bool requires_grad = true;
};

// Initial values of parameters. Deterministic for a given seed.
namespace init {
struct Rule {
  enum class Kind : uint8_t { constant, uniform, normal } kind = Kind::constant;
  double a = 0, b = 0;           // constant: value; uniform: bounds; normal: mean, stddev
  bool scale_by_fan_in = false;  // uniform only: divides by sqrt(fan_in)
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
// U(-b, b) with b = sqrt(6 / fan_in), gain sqrt(2): He et al. 2015, section 2.2. fan_in is the
// product of all dims but the first.
inline Rule kaiming_uniform(uint64_t seed) {
  return {Rule::Kind::uniform, -2.449489742783178, 2.449489742783178, true, seed};
}
}  // namespace init

// Builds and holds a graph. Building functions do not return errors: the graph keeps the first
// error, later calls return empty Values, and status() returns it. It also records an exception
// (std::bad_alloc) that left a building function. Loading, compiling and saving check status()
// first.
//
// A moved-from graph is empty and reports invalid_argument until it is assigned to.
class Graph {
 public:
  Graph();                                   // uses Registry::built_in()
  explicit Graph(const Registry& registry);  // the registry must outlive the graph
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&);  // shares the weights
  Graph& operator=(const Graph&);
  ~Graph();

  Value input(std::string name, DType dtype, Shape shape);  // sizes: 0 or more, or symbolic
  Value parameter(std::string name, DType dtype, const Sizes& shape,
                  const init::Rule& rule = init::zeros());
  Value parameter(std::string name, TensorData data);
  Value buffer(std::string name, TensorData data);
  Value constant(TensorData data, std::string name = "");
  // Adds an alias for a parameter or buffer: tied parameters are stored once.
  void add_alias(Value state, std::string name);
  // Sets whether trainers update the parameter unless a ParameterRule says otherwise. True by
  // default.
  void set_requires_grad(Value parameter, bool required);
  // A constant of rank 0. Integer dtypes drop the fraction; a number that the dtype cannot hold
  // fails the graph. u8 wraps numbers from -255 on, as torch does.
  Value scalar(double value, DType dtype = f32);
  Value scalar(int64_t value, DType dtype);

  // Adds a node of any registered op. Attributes that are not given have their defaults. `call`
  // returns the first output, `calls` returns all of them.
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
  // Assigns `value` to the state at the end of each run. Both must have the same dtype and shape. A
  // later assignment to the same state replaces this one.
  void assign(Value state, Value value);
  void output(std::string name, Value value);  // an empty name becomes "output_0", "output_1", ...

  // Restricts the graph to sizes for which the condition holds. A condition that holds for all
  // sizes is dropped; one that holds for none fails the graph.
  void guard(Dim left, Relation relation, Dim right, std::string reason);
  // Sets the origin of the nodes and guards that are added from now on.
  void set_origin(Origin origin);
  // Returns an unused symbol for a size that depends on data: "u0", "u1", ...
  Dim fresh_symbol();
  // Records a failure if it is the first. Returns an empty Value, for chaining.
  Value fail(Status status);

  const Status& status() const;  // the first error while building, or ok
  // Returns the first error and clears it, so that building can continue without the failed part.
  Status take_status();
  // Checks everything that can be wrong in an untrusted graph: ids, order, names, arity,
  // attributes, and that each shape equals the shape that its op infers.
  Status verify() const;
  // Prints the graph, one node per line. Equal graphs print equal text.
  std::string text() const;

  const Registry& registry() const;
  const std::vector<Node>& nodes() const;
  const std::vector<State>& states() const;
  const ValueInfo& value_info(ValueId id) const;
  Value value(ValueId id) { return Value(this, id); }
  int32_t value_count() const;
  const std::vector<ValueId>& inputs() const;
  const std::vector<std::pair<std::string, ValueId>>& outputs() const;
  // State updates at the end of a run: pairs of (state, new value).
  const std::vector<std::pair<ValueId, ValueId>>& assignments() const;
  // Guards of this graph, excluding those of control-flow bodies.
  const std::vector<Guard>& guards() const;
  // Symbols of the inputs, in order of first use.
  std::vector<std::string> symbols() const;
  // Returns the data of a constant, or null if the value is not one. Valid until the graph changes.
  const TensorData* constant_of(ValueId id) const;

 private:
  friend class Value;
  friend struct GraphAccess;  // passes and the file reader use it (lib/graph/access.h)
  explicit Graph(std::unique_ptr<GraphBody> body);
  std::unique_ptr<GraphBody> body_;
};

}  // namespace hg
