// SPDX-License-Identifier: Apache-2.0
// Finds the node that causes a wrong output. A second run keeps every value and compares it with
// libtorch, node by node. The first node whose result differs is wrong, unless rounding or the
// order of equal elements decides its result. In that case libtorch continues from our result, and
// all later results must be equal again.
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
  // libtorch's own ops, applied to our inputs, differ from our results here or before. Otherwise
  // accumulated rounding may be the cause.
  bool sure = false;
};

// What both sides are run with.
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
  // For the first such nodes: "equal values are ordered in another way by aten::sort
  // (model.py:12)".
  std::vector<std::string> open;
  // libtorch's outputs after continuing from our results at nodes without a unique result; empty if
  // the run did not finish.
  std::vector<TensorData> outputs;
};

Result<Session> run_with_all_values(const Trial& trial);
NodeReport compare_nodes(const Trial& trial, const Session& kept);

// Equal bytes have equal fingerprints.
uint64_t fingerprint(const TensorData& data);
// " in module 'layer1.0' (model.py:12)"
std::string describe_origin(const Origin& origin);

}  // namespace hg::convert
