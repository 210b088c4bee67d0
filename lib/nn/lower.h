// SPDX-License-Identifier: Apache-2.0
// A named model as a graph: parameters and states are inputs of it, and every value that a path
// names is known.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/named.h"

namespace hg::nn {

// What decides the graph of a model, of all options.
struct LowerOptions {
  DType dtype = f32;
  bool training = false;
  std::vector<std::string> frozen, trainable, gradients_of;
  NamedArrays constants;
  const Registry* registry = nullptr;
};

// A parameter or state: an input of the graph, unless it is constant.
struct NamedState {
  std::string name;
  DType dtype = f32;
  Sizes shape;
  init::Rule rule;
  int64_t zero_row = -1;
  bool is_parameter = true, is_trainable = true, is_constant = false;
  ValueId value = kNoValue;  // none of a state that only counts
  ValueId moved = kNoValue;  // what it becomes
  bool counts = false;       // calls, in training
};

// A line of the summary.
struct SummaryRow {
  int depth = 0;
  std::string path, layer, output;
  int64_t parameters = 0, trainable = 0;  // elements, of groups those of their blocks
};

struct Lowered {
  Graph graph;  // with the model's outputs, and all values that only hooks may want
  std::vector<std::string> data;                       // inputs of the model
  std::vector<NamedState> states;                      // in the order in which layers start
  std::map<std::string, ValueId, std::less<>> values;  // by path
  std::vector<ValueId> gradients_of;
  std::vector<SummaryRow> rows;
};

Result<Lowered> lower(const Block& model, const LowerOptions& options);

// The rows as a table.
std::string table_of(const Lowered& lowered);

}  // namespace hg::nn
