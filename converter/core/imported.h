// SPDX-License-Identifier: Apache-2.0
// Inputs and results of an import: the input types, the graph, the trace of the executed script
// nodes, and the unsupported ops.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "converter/core/script.h"
#include "hg/graph.h"

namespace hg::convert {

// What an op requires of integers that are an input of the model. The check draws such numbers.
struct NumberRule {
  enum class Kind : uint8_t {
    pivots,         // of an LU factorization, from 1
    paired_pivots,  // of an LDL factorization: a pair of rows has equal negative pivots
    parts,          // sizes that sum up to that of a dim
    offsets,        // from 0, rising
    order,          // of dims: a permutation
    distinct,       // places in an image
    lengths,        // of sequences, falling
  };
  std::optional<Kind> numbers = std::nullopt;
  std::string op = {};     // "linalg_ldl_solve"
  int64_t known = 0;       // the sum of constants beside the numbers
  int64_t limit = 1;       // that the model accepted last
  size_t group = 0;        // the numbers of one call share a limit
  std::string whole = {};  // the input of which the numbers are parts; empty: a computed tensor
  // Numbers that are single inputs: the place among them, and how many there are.
  size_t place = 0, of = 0;
  int image = 0;  // how many last dims of the input are one image, for distinct places
};

// One input tensor. A script input that is a tuple, list or dict has several specs, in order.
struct InputSpec {
  std::string name;  // empty: the name in the script
  TensorType type;
  NumberRule rule = {};
};

// One execution of a script node, in the order of execution. A node in a loop has several.
struct Executed {
  int64_t sequence = 0;
  const ScriptNode* node = nullptr;
  std::vector<ValueId> outputs;  // one per output of the node; kNoValue if it is not a tensor
};

// Something that the converter cannot express, once for each op, place and reason.
struct Unsupported {
  std::string op;  // "aten::foo.Tensor"
  int64_t count = 1;
  Origin origin;
  std::string reason;
  std::string suggestion;
};

// A read of an attribute that still has its value from the file.
struct AttributeRead {
  std::string path;     // "encoder.scale"
  ScriptId value = -1;  // result of the node
};

// A point where sizes decide between two variants of the program whose results differ in rank. One
// variant is imported, with a guard.
struct Fork {
  std::string key;     // the condition at this place
  std::string reason;  // "squeeze"
  Origin origin;
  Dim condition;          // 0 or 1
  bool taken = false;     // the assumed value of the condition
  bool is_known = false;  // `taken` is the value for the example inputs of the program
};

struct Imported {
  Graph graph;
  // Only nodes of the outermost graph: values in data-dependent branches are not reachable.
  std::vector<Executed> trace;
  // If not empty, the graph is incomplete and must not be used.
  std::vector<Unsupported> unsupported;
  std::vector<Fork> forks;
  std::vector<std::string> notes;  // "dropout runs in training mode, as traced"
  std::vector<std::string> warnings;
  // See interpret/attributes.h. Changes to named tensors are not listed: the graph assigns these
  // states.
  std::vector<AttributeRead> attribute_reads;
  std::vector<std::string> changed_attributes;  // "encoder.scale"
  // Sizes of inputs, as symbols, that are other sizes in every run.
  std::vector<std::pair<std::string, Dim>> equations;
  // Why outputs for equal inputs are not those of the original; empty if they are.
  std::string difference;
  std::set<std::string> masks;  // inputs that mark tokens with 1 and padding with 0
};

}  // namespace hg::convert
