// SPDX-License-Identifier: Apache-2.0
// Graphs of random ops, inputs and sizes (0, 1, primes), for tests that compare ways to run them.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "kernels/reference/reference.h"

namespace hg::test {

struct RandomInput {
  std::string name;
  TensorData data;
};

struct RandomGraph {
  Graph graph;
  std::vector<RandomInput> inputs;
  // Outputs that rounding may change: results of comparisons or casts of rounded numbers.
  std::set<std::string> unsteady;
};

// The same seed gives the same graph.
RandomGraph random_graph(uint64_t seed);

}  // namespace hg::test
