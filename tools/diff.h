// SPDX-License-Identifier: Apache-2.0
// The differences between two models: lines of their graphs, and their weights by name.
#pragma once

#include <string>
#include <vector>

#include "hg/model.h"

namespace hg::tools {

struct LineChange {
  bool added = false;  // otherwise removed
  std::string line;
};

struct StateChange {
  std::string name;
  std::string a, b;      // its type in each; empty if missing
  int64_t elements = 0;  // elements that differ, if both have one type
  double largest = 0;    // largest difference; infinite if one of two is not finite
  double relative = 0;   // norm of the difference divided by the norm of a
};

struct ModelDiff {
  std::vector<LineChange> graph;  // in order
  std::vector<StateChange> states;
  bool is_equal() const { return graph.empty() && states.empty(); }
};

// Compares lines by the longest common subsequence, and weights bit by bit. Equal weights are
// omitted.
ModelDiff diff_models(const Model& a, const Model& b);

// The differences as text, at most `most` lines of each kind; 0: all.
std::string diff_text(const ModelDiff& diff, size_t most);

}  // namespace hg::tools
