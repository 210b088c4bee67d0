// SPDX-License-Identifier: Apache-2.0
// A program in TorchScript's terms, independent of libtorch. Readers of file formats fill it
// (load/load.h, load/exported/exported.h), and all later stages work on it. All method calls are
// inlined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "converter/core/item.h"

namespace hg::convert {

using ScriptId = int32_t;  // a value of the program, numbered over all blocks

struct ScriptNode;

struct ScriptBlock {
  std::vector<ScriptId> inputs;
  std::vector<ScriptNode> nodes;
  std::vector<ScriptId> outputs;
};

struct ScriptNode {
  std::string kind;                         // "aten::conv2d", "prim::If"
  std::string overload;                     // "Tensor"; empty for prim
  std::vector<std::string> argument_names;  // of the schema, for aten and custom ops
  std::vector<ScriptId> inputs;
  std::vector<int> outs;  // the inputs that results are written to, in the order of the results
  std::vector<ScriptId> outputs;
  std::vector<std::string> output_types;  // as printed by TorchScript: "Tensor", "int[]"
  std::vector<ScriptBlock> blocks;
  std::string attribute;  // of prim::GetAttr and prim::SetAttr; others: interpret/autocast.h
  std::string numbers;    // of aten::tensor and as_tensor of a list: "int", "float" or "bool"
  Item constant;          // of prim::Constant; for a tensor, a ScriptTensorIndex
  std::string trouble;    // why the reader cannot express the node; refused at import
  Origin origin;
};

// A parameter, buffer or constant tensor. Different views of one memory are separate entries. Equal
// views (tied parameters) are one entry with all names.
struct ScriptTensor {
  std::vector<std::string> names;  // "encoder.weight"; empty for constants
  State::Kind kind = State::Kind::constant;
  TensorData data;
  bool row_major = true;  // whether libtorch stores it row-major
  bool complex = false;   // `data` holds pairs of reals, [..., 2]
  bool requires_grad = true;
};

struct ScriptInput {
  std::string name;  // "x"
  std::string type;  // "Tensor", "Tuple[Tensor, int]", "Dict[str, Tensor]"
  bool has_default = false;
  Item default_value;        // valid if has_default; for a tensor, a ScriptTensorIndex
  bool is_constant = false;  // always has the default value; no --input may set it
  std::optional<TensorType> known = std::nullopt;  // if the file states the type
  // For a number, its smallest and largest value, if the file states them.
  std::optional<std::pair<int64_t, int64_t>> numbers = std::nullopt;
};

// What the file states about a symbol in the types of its inputs.
struct SymbolRange {
  std::string symbol;
  int64_t smallest = 0, largest = INT64_MAX;
  int64_t example = 0;  // the symbol's size in the program's example inputs; 0 if not stated
};

// A value that the program computes only as integers: (levels - zero) * scale.
struct LevelsOf {
  ScriptId levels = -1;
  double scale = 1, zero = 0;
};

struct ScriptProgram {
  ScriptBlock body;  // input 0 is the module itself
  ScriptId value_count = 0;
  std::vector<ScriptInput> inputs;  // without the module itself
  std::shared_ptr<Object> root;     // the module; its tensors are Item(ScriptTensorIndex)
  std::vector<ScriptTensor> tensors;
  std::vector<SymbolRange> ranges;
  std::vector<std::pair<std::string, int64_t>> asked_sizes;  // --check-size of symbols
  std::vector<std::optional<int>> output_ranks;              // if the file states them
  std::map<ScriptId, LevelsOf> levels;  // of values of the original program (load/levels.h)
  std::vector<std::string> notes;       // the reader's notes for the report
  std::string libtorch_version;
};

}  // namespace hg::convert
