// SPDX-License-Identifier: Apache-2.0
// A program in TorchScript's terms, independent of libtorch. Readers of file formats fill it
// (load/load.h, load/exported/exported.h), and all later stages work on it. All method calls are
// inlined.
#pragma once

#include <cstdint>
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
  std::vector<int> outs;  // the inputs that results are written to, in their order
  std::vector<ScriptId> outputs;
  std::vector<std::string> output_types;  // as TorchScript prints them: "Tensor", "int[]"
  std::vector<ScriptBlock> blocks;
  std::string attribute;  // of prim::GetAttr and prim::SetAttr; else see interpret/autocast.h
  Item constant;          // of prim::Constant; a tensor is a ScriptTensorIndex
  std::string trouble;    // why the reader has no words for the node; the import refuses it so
  Origin origin;
};

// A parameter, buffer or constant tensor. Views of one memory that are not the same tensor are
// listed apart; equal ones (tied parameters) once, with all names.
struct ScriptTensor {
  std::vector<std::string> names;  // "encoder.weight"; empty for constants
  State::Kind kind = State::Kind::constant;
  TensorData data;
  bool row_major = true;  // as libtorch holds it
  bool complex = false;   // `data` holds pairs of reals, [..., 2]
  bool requires_grad = true;
};

struct ScriptInput {
  std::string name;  // "x"
  std::string type;  // "Tensor", "Tuple[Tensor, int]", "Dict[str, Tensor]"
  bool has_default = false;
  Item default_value;        // meaningful with has_default; a tensor is a ScriptTensorIndex
  bool is_constant = false;  // always has the default value: no --input is for it
  std::optional<TensorType> known = std::nullopt;  // where the file says the type
  // Of a number, where the file says its smallest and largest one.
  std::optional<std::pair<int64_t, int64_t>> numbers = std::nullopt;
};

// What the file says of a symbol in the types of its inputs.
struct SymbolRange {
  std::string symbol;
  int64_t smallest = 0, largest = INT64_MAX;
  int64_t example = 0;  // its size in the inputs that the program was made with; 0 where not said
};

struct ScriptProgram {
  ScriptBlock body;  // input 0 is the module itself
  ScriptId value_count = 0;
  std::vector<ScriptInput> inputs;  // without the module
  std::shared_ptr<Object> root;     // the module; its tensors are Item(ScriptTensorIndex)
  std::vector<ScriptTensor> tensors;
  std::vector<SymbolRange> ranges;
  std::vector<std::pair<std::string, int64_t>> asked_sizes;  // of symbols: --check-size
  std::vector<std::optional<int>> output_ranks;  // of the outputs, where the file says them
  std::vector<std::string> notes;                // of the reader, for the report
  bool traced_in_training_mode = false;
  std::string libtorch_version;
};

}  // namespace hg::convert
