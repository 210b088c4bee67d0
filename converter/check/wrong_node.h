// SPDX-License-Identifier: Apache-2.0
// Finds the node behind a wrong output. A second run keeps every value and compares it with
// libtorch, node by node. The first node whose result differs is wrong, unless it decides by
// rounding or by its order. In that case libtorch continues from our result, and all later results
// must be equal again.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "converter/check/check_inputs.h"
#include "converter/core/imported.h"
#include "converter/load/load.h"
#include "hg/session.h"

namespace hg::convert {

struct WrongNode {
  std::string op;
  Origin origin;
  std::string difference;
  double largest_error = 0;
  // libtorch's own ops, given our inputs, disagree with our results here or before; otherwise it
  // may be that rounding has grown.
  bool sure = false;
};

// What both are to be run with.
struct Trial {
  const Loaded& loaded;
  const Model& model;
  std::span<const Executed> trace;  // of the model's graph
  const Inputs& inputs;
  uint64_t seed = 1;
  bool varies = false;  // libtorch's results may depend on the seed
};

struct NodeReport {
  std::optional<WrongNode> wrong;  // the first one
  // "equal values are ordered in another way by aten::sort (model.py:12)", of the first nodes.
  std::vector<std::string> open;
  // libtorch's outputs, where nodes that leave something open gave our results; none when the run
  // came to no end.
  std::vector<TensorData> outputs;
};

Result<Session> run_with_all_values(const Trial& trial);
NodeReport compare_nodes(const Trial& trial, const Session& kept);

// Equal bytes have equal fingerprints.
uint64_t fingerprint(const TensorData& data);
// " in module 'layer1.0' (model.py:12)"
std::string describe_origin(const Origin& origin);

}  // namespace hg::convert
