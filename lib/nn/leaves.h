// SPDX-License-Identifier: Apache-2.0
// Blocks other than groups: the nodes, parameters and states that each adds to the graph.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "lib/nn/lower.h"

namespace hg::nn {

// A value and the block that made it.
struct Source {
  Value value;
  std::string from;  // "'fc1' (Linear)"
};

// Joins two paths: "encoder.hidden"; either may be empty.
std::string join(const std::string& path, const std::string& name);
// Returns "'encoder.hidden' (Linear)".
std::string label(const std::string& path, const Block& block);
// True for parameters and constants, which do not connect consecutive blocks.
bool is_beside(const Block& block);

class Leaves {
 public:
  Leaves(const LowerOptions& options, Lowered& lowered) : options_(options), lowered_(lowered) {}

  bool takes_inputs(const Block& block) const;
  // Adds a block and returns its values, at least one; fills the row.
  Result<std::vector<Value>> add(const Block& block, const std::string& path,
                                 const std::vector<Source>& sources, SummaryRow& row);
  // Call after all blocks: checks the patterns and names in the options.
  Status check_patterns() const;
  Status find_gradients();

 private:
  Graph& graph() { return lowered_.graph; }
  // Replaces f32 by the dtype of the program.
  DType of(DType dtype) const { return dtype == f32 ? options_.dtype : dtype; }
  Result<std::vector<Value>> add_input(const Block& block, const std::string& path);
  Result<std::vector<Value>> add_parameter(const Block& block, const std::string& path,
                                           SummaryRow& row);
  Result<std::vector<Value>> add_constant(const Block& block, const std::string& path);
  Result<std::vector<Value>> add_call(const Block& block, const std::string& who,
                                      const std::vector<Source>& sources, SummaryRow& row);
  Result<std::vector<Value>> add_layer(const Block& block, const std::string& path,
                                       const std::string& who, const std::vector<Source>& sources,
                                       SummaryRow& row);
  bool matches_any(const std::vector<std::string>& patterns, std::string_view name,
                   std::set<std::string>& used);
  bool is_frozen_path(const std::string& path);
  // Adds a call of an op, in the dtype `compute` if it sums products. `promotes`: promotes dtypes.
  std::vector<Value> call(const Op& op, std::span<const Value> inputs, const NamedAttrs& attrs,
                          bool promotes);
  // Returns the value of the state: a new input, or the existing value if shared.
  Result<Value> add_state(NamedState state, const std::string& who, SummaryRow& row);

  const LowerOptions& options_;
  Lowered& lowered_;
  size_t state_index_ = 0;  // that add_state() added or found
  std::set<std::string> used_frozen_, used_trainable_;
  int64_t streams_ = 0;  // of dropout
};

}  // namespace hg::nn
