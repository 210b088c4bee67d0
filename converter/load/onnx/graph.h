// SPDX-License-Identifier: Apache-2.0
// Turns the nodes of an ONNX graph into nodes of a ScriptProgram. Functions of the file are
// inlined; If, Loop and Scan become prim::If and prim::Loop.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "converter/load/onnx/file.h"
#include "converter/load/onnx/roles.h"

namespace hg::convert::onnx {

class GraphReader {
 public:
  // Inputs named in `opened` stay inputs even if the file has values for them.
  GraphReader(const file::ModelProto& model, Weights& weights, const std::set<std::string>& opened,
              ScriptProgram& program);
  // Reads the whole model; returns the values of its main graph by name. Throws Failure.
  std::unordered_map<std::string, ScriptId> read();

 private:
  using Attributes = std::map<std::string, const file::AttributeProto*>;
  // The context of a node: the opsets that it is written for, and, in a function, the attributes of
  // the call.
  struct Place {
    const google::protobuf::RepeatedPtrField<file::OperatorSetIdProto>* opsets = nullptr;
    const Attributes* given = nullptr;
    std::string path;  // names of the enclosing function calls, for messages
    int depth = 0;     // number of enclosing function calls
  };
  using Scope = std::unordered_map<std::string, ScriptId>;

  ScriptId fresh() { return program_.value_count++; }
  ScriptId find(const std::string& name) const;
  void bind(const std::string& name, ScriptId id) { scopes_.back()[name] = id; }
  ScriptId constant(ScriptBlock& block, Item item);
  ScriptNode& add(ScriptBlock& block, std::string kind, std::vector<ScriptId> inputs,
                  std::vector<ScriptId> outputs, const Origin& origin);
  ScriptId number(ScriptBlock& block, ScriptId tensor, const Origin& origin);

  void read_inputs();
  void read_initializers(const file::GraphProto& graph, ScriptBlock& block);
  // If two layers share a weight and one of them transposes it, exporters write the transpose as a
  // second matrix. Training would change both independently. Returns whether the initializer is
  // such a matrix, and then binds it to the transposed original.
  bool bind_transposed(const std::string& name, const Item& item, ScriptBlock& block);
  std::string state_name(const std::string& name);
  Item tensor_item(const file::TensorProto& tensor, State::Kind kind);
  Item constant_item(TensorData data);
  Item sparse_item(const file::SparseTensorProto& tensor);
  Item attribute_item(const file::AttributeProto& attribute);
  Attributes attributes_of(const file::NodeProto& node, const Place& place) const;
  int64_t version_of(const std::string& domain, const Place& place) const;

  void read_nodes(const google::protobuf::RepeatedPtrField<file::NodeProto>& nodes,
                  ScriptBlock& block, const Place& place);
  void read_node(const file::NodeProto& node, ScriptBlock& block, const Place& place);
  void read_call(const file::NodeProto& node, const file::FunctionProto& function,
                 ScriptBlock& block, const Place& place);
  void read_constant(const file::NodeProto& node, const Attributes& attributes, ScriptBlock& block,
                     const Origin& origin);
  void read_if(const file::NodeProto& node, const Attributes& attributes, ScriptBlock& block,
               const Place& place, const Origin& origin);
  void read_loop(const file::NodeProto& node, const Attributes& attributes, ScriptBlock& block,
                 const Place& place, const Origin& origin);
  void read_scan(const file::NodeProto& node, const Attributes& attributes, ScriptBlock& block,
                 const Place& place, const Origin& origin);
  void scan(const file::NodeProto& node, const Attributes& attributes,
            const std::vector<ScriptId>& given, std::vector<ScriptId> outputs, ScriptBlock& block,
            const Place& place, const Origin& origin);
  std::vector<ScriptId> empty_lists(int count, ScriptBlock& block, const Origin& origin);
  // Reads the nodes of a body and returns its results.
  std::vector<ScriptId> read_body(const file::GraphProto& graph, ScriptBlock& block,
                                  const Place& place);
  std::vector<ScriptId> outputs_of(const file::NodeProto& node);

  const file::ModelProto& model_;
  Weights& weights_;
  ScriptProgram& program_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string, const file::FunctionProto*> functions_;
  Roles roles_;
  std::set<std::string> opened_;
  std::unordered_map<const file::TensorProto*, Item> items_;  // of initializers
  std::unordered_map<std::string, uint64_t> state_names_;     // and the next suffix of each
  int64_t inlined_ = 0;                                       // bytes of inlined nodes
  int64_t dense_ = 0;                                         // bytes of densified tensors
  std::vector<std::pair<ScriptId, int32_t>> matrices_;  // parameters and their program tensors
};

}  // namespace hg::convert::onnx
