// SPDX-License-Identifier: Apache-2.0
// A named model as a graph: its parameters and states are inputs, and every value that has a path
// is recorded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/named.h"

namespace hg::nn {

// The options that determine the graph of a model.
struct LowerOptions {
  DType dtype = f32;
  DType compute = f32;  // of ops that sum products
  bool training = false;
  std::vector<std::string> frozen, trainable, gradients_of;
  NamedArrays constants;
  const Registry* registry = nullptr;
};

// A parameter or state: a graph input, unless it is constant.
struct NamedState {
  std::string name;
  DType dtype = f32;
  Sizes shape;
  init::Rule rule;
  int64_t zero_row = -1;
  bool is_parameter = true, is_trainable = true, is_constant = false;
  ValueId value = kNoValue;  // none if the state only counts
  ValueId moved = kNoValue;  // its new contents
  bool counts = false;       // counts calls in training
};

// A line of the summary.
struct SummaryRow {
  int depth = 0;
  std::string path, layer, output;
  int64_t parameters = 0, trainable = 0;  // elements; for groups, the sums of their blocks
};

struct Lowered {
  Graph graph;                     // with the model's outputs and all values that hooks may need
  std::vector<std::string> data;   // inputs of the model
  std::vector<NamedState> states;  // in the order of initialization
  std::map<std::string, ValueId, std::less<>> values;  // by path
  std::vector<ValueId> gradients_of;
  std::vector<SummaryRow> rows;
};

Result<Lowered> lower(const Block& model, const LowerOptions& options);

// The rows as a table.
std::string table_of(const Lowered& lowered);

}  // namespace hg::nn
