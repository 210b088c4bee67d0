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
  // Inputs named in `opened` stay inputs though the file has values for them.
  GraphReader(const file::ModelProto& model, Weights& weights, const std::set<std::string>& opened,
              ScriptProgram& program);
  // The whole model; the values of its main graph by name. Throws Failure.
  std::unordered_map<std::string, ScriptId> read();

 private:
  using Attributes = std::map<std::string, const file::AttributeProto*>;
  // Where a node stands: the names it sees, the opsets it is written for, and, in a function, the
  // attributes of the call.
  struct Place {
    const google::protobuf::RepeatedPtrField<file::OperatorSetIdProto>* opsets = nullptr;
    const Attributes* given = nullptr;
    std::string path;  // of function calls around, for messages
    int depth = 0;     // of function calls
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
  // Exporters write a weight that two layers share, and one of them turned, as a matrix of its own,
  // which a training would move away from the other. Whether the initializer is one.
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
  std::vector<ScriptId> empty_lists(int count, ScriptBlock& block, const Origin& origin);
  // Reads the nodes of a body; returns its results.
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
  std::unordered_map<std::string, uint64_t> state_names_;     // and the next number behind each
  int64_t inlined_ = 0;                                       // bytes of nodes of functions
  int64_t dense_ = 0;                                         // bytes of sparse tensors
  std::vector<std::pair<ScriptId, int32_t>> matrices_;  // parameters, and places in the program
  std::map<std::string, std::string> symbols_;          // by dim_param
};

}  // namespace hg::convert::onnx
