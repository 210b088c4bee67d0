// SPDX-License-Identifier: Apache-2.0
// The differences between two models: lines of their graphs, and their weights by name.
#pragma once

#include <string>
#include <vector>

#include "hg/model.h"

namespace hg::tools {

struct LineChange {
  bool added = false;  // else removed
  std::string line;
};

struct StateChange {
  std::string name;
  std::string a, b;      // its type in each; empty where it is not there
  int64_t elements = 0;  // that differ, where both have one type
  double largest = 0;    // difference; infinite where one of two is not finite
  double relative = 0;   // norm of the difference by that of a
};

struct ModelDiff {
  std::vector<LineChange> graph;  // in order
  std::vector<StateChange> states;
  bool is_equal() const { return graph.empty() && states.empty(); }
};

// Lines by the longest common subsequence; weights bit for bit, and of equal bits nothing is said.
ModelDiff diff_models(const Model& a, const Model& b);

// As text, at most `most` lines of each kind; 0: all.
std::string diff_text(const ModelDiff& diff, size_t most);

}  // namespace hg::tools
