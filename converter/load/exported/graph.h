// SPDX-License-Identifier: Apache-2.0
// Turns the graph of an exported program into blocks of a ScriptProgram. Ops keep their aten names.
// Python's arithmetic on sizes and higher-order ops become TorchScript equivalents.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "converter/core/failure.h"
#include "converter/core/script.h"

namespace hg::convert {

// Returns the only member of a schema union such as {"as_tensor": ...}. Throws Failure unless `all`
// is an object with one member.
std::pair<std::string, const nlohmann::json&> kind_of(const nlohmann::json& all);

class ExportedGraph {
 public:
  using Json = nlohmann::json;

  explicit ExportedGraph(ScriptProgram& program) : program_(program) {}

  struct Value {
    ScriptId id = -1;
    std::string type;  // "Tensor", "int", "float", "bool", "NoneType", "List[Tensor]"
  };
  using Scope = std::unordered_map<std::string, Value>;

  Value fresh(std::string type) { return {program_.value_count++, std::move(type)}; }
  // Appends the nodes of `graph` to the block.
  void read_nodes(const Json& graph, Scope& scope, ScriptBlock& block);
  // Reads an argument of the schema's union. Constants and lists become nodes.
  Value argument(const Json& argument, const Scope& scope, ScriptBlock& block);
  Value constant(Item item, std::string type, ScriptBlock& block);

  struct Call {
    std::string kind, overload;
    std::vector<std::string> names;  // of the arguments
    std::vector<Value> inputs;
    std::vector<std::string> types;  // of the outputs
    std::vector<ScriptBlock> blocks = {};
  };
  std::vector<Value> emit(Call call, ScriptBlock& block);

  // A function on numbers by its name in the export: "_operator.floordiv".
  Value compute(std::string_view target, const std::vector<Value>& arguments,
                const std::string& result, ScriptBlock& block);
  // Requires an assumption of the program: a bool, a number or a tensor with one truth value
  // (assertions.cpp).
  void require(Value condition, const std::string& message, ScriptBlock& block);
  // Sets the origin of the nodes that are added from now on.
  void set_origin(Origin origin) { origin_ = std::move(origin); }

  // Ops from namespaces other than aten that calls use: "acme::wave".
  const std::vector<std::string>& foreign_ops() const { return foreign_; }

 private:
  void read_node(const Json& node, Scope& scope, ScriptBlock& block);
  static bool begins_vmap(const Json& node);
  // Adds a node that the import reports as unsupported, together with all others.
  void leave_out(const Json& node, const Refusal& refusal, Scope& scope, ScriptBlock& block);
  void read_op(const Json& node, std::string_view target, Scope& scope, ScriptBlock& block);
  // Reads an access to one of the tensors of which an object of a class of tensors consists.
  void read_part(const Json& node, Scope& scope, ScriptBlock& block);
  void read_number_op(const Json& node, std::string_view target, Scope& scope, ScriptBlock& block);
  void bind(const Json& outputs, const std::vector<Value>& values, Scope& scope,
            ScriptBlock& block);
  static std::vector<std::string> output_types(const Json& outputs);
  Value list(const std::vector<Value>& elements, const std::string& type, ScriptBlock& block);
  Value named(const std::string& name, const Scope& scope) const;

  // assertions.cpp; returns false if the op is not an assertion
  bool read_assertion(const Json& node, std::string_view kind, Scope& scope, ScriptBlock& block);
  // control.cpp
  void read_higher_order(const Json& node, std::string_view op, Scope& scope, ScriptBlock& block);
  void read_cond(const Json& node, Scope& scope, ScriptBlock& block);
  void read_while(const Json& node, Scope& scope, ScriptBlock& block);
  void read_each(const Json& node, bool scan, Scope& scope, ScriptBlock& block);
  void read_associative_scan(const Json& node, Scope& scope, ScriptBlock& block);
  void read_gradient_region(const Json& node, Scope& scope, ScriptBlock& block);
  void read_autocast_region(const Json& node, Scope& scope, ScriptBlock& block);
  void read_effect(const Json& node, Scope& scope, ScriptBlock& block);
  // Adds a loop with `count` iterations. An iteration gets its number and the carried values. It
  // returns the new carried values, followed by one element for each list. Returns the last carried
  // values.
  using Round = std::function<std::vector<Value>(const Value&, std::vector<Value>, ScriptBlock&)>;
  std::vector<Value> rounds(const Value& count, const std::vector<Value>& carried,
                            const std::vector<Value>& lists, const Round& round,
                            ScriptBlock& block);
  std::vector<Value> empty_lists(size_t count, ScriptBlock& block);
  void append(const Value& to, const Value& element, ScriptBlock& block);
  Value selected(const Value& x, const Value& dim, const Value& index, ScriptBlock& block);
  Value stacked(const Value& tensors, const Value& dim, ScriptBlock& block);
  // vmap.cpp: reads the nodes from `begin`, which begins a region of vmap, to its end, whose index
  // it returns.
  size_t read_vmap(const Json& graph, size_t begin, Scope& scope, ScriptBlock& block);
  void read_batch(const Json& graph, size_t begin, size_t end,
                  const std::vector<const Json*>& results, Scope& scope, ScriptBlock& block);
  // Reads the operands of a higher-order op, with lists flattened.
  std::vector<Value> operands(const Json& inputs, size_t from, const Scope& scope,
                              ScriptBlock& block);
  // Appends the graph's nodes to the block, with the operands as inputs; returns the outputs.
  std::vector<Value> inlined(const Json& graph, const std::vector<Value>& operands,
                             ScriptBlock& block);

  ScriptProgram& program_;
  Origin origin_;  // of the node being read
  std::vector<std::string> foreign_;
  std::unordered_set<ScriptId> of_layout_;  // numbers that depend on the memory layout of tensors
  bool gradients_ = true;
  std::optional<DType> autocast_;  // of the region being read
  int depth_ = 0;
  int conditions_ = 0;  // depth of loop conditions being read
};

}  // namespace hg::convert
