// SPDX-License-Identifier: Apache-2.0
// Inputs and results of an import: the input types, the graph and the trace that it was made from,
// and the ops that are not supported.
#pragma once

#include <string>
#include <vector>

#include "converter/core/script.h"
#include "hg/graph.h"

namespace hg::convert {

// One input tensor. Inputs that are tuples, lists or dicts of the script take several, in order.
struct InputSpec {
  std::string name;  // empty: the script's own name
  TensorType type;
};

// One execution of a node of the script (a node in a loop has several), in the order of execution.
struct Executed {
  int64_t sequence = 0;
  const ScriptNode* node = nullptr;
  std::vector<ValueId> outputs;  // one per output of the node; kNoValue where it is not a tensor
};

// What the converter cannot express, once for each op, place and reason.
struct Unsupported {
  std::string op;  // "aten::foo.Tensor"
  int64_t count = 1;
  Origin origin;
  std::string reason;
  std::string suggestion;
};

// A read of an attribute that still has the value of the file.
struct AttributeRead {
  std::string path;     // "encoder.scale"
  ScriptId value = -1;  // result of the node
};

// Two ways of the program that give results of other ranks, as sizes decide. One is imported, under
// a guard.
struct Fork {
  std::string key;     // of the condition at this place
  std::string reason;  // "squeeze"
  Origin origin;
  Dim condition;          // 0 or 1
  bool taken = false;     // what the condition is assumed to be
  bool is_known = false;  // as it was for the inputs that the program was made with
};

struct Imported {
  Graph graph;
  // Only nodes of the outermost graph: values inside data-dependent branches are not reachable.
  std::vector<Executed> trace;
  // When this is not empty the graph is incomplete and must not be used.
  std::vector<Unsupported> unsupported;
  std::vector<Fork> forks;
  std::vector<std::string> notes;  // "dropout runs in training mode, as traced"
  std::vector<std::string> warnings;
  // See interpret/attributes.h. Changes of tensors with names are not listed: the graph assigns
  // these states.
  std::vector<AttributeRead> attribute_reads;
  std::vector<std::string> changed_attributes;  // "encoder.scale"
};

}  // namespace hg::convert
