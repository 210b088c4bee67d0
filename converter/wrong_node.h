// SPDX-License-Identifier: Apache-2.0
// A difference in an output leads to a second run that keeps every value, beside libtorch's run
// node by node: the first node whose result differs is where the conversion is wrong.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "converter/check_inputs.h"
#include "converter/interpret.h"
#include "converter/load.h"
#include "hg/session.h"

namespace hg::convert {

struct WrongNode {
  std::string op;
  Origin origin;
  std::string difference;
  double largest_error = 0;
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

Result<Session> run_with_all_values(const Trial& trial);
std::optional<WrongNode> find_wrong_node(const Trial& trial, const Session& kept);
// The values of a sort are right, but equal ones may come from other places.
bool is_tie(const WrongNode& wrong);

// Equal bytes have equal fingerprints.
uint64_t fingerprint(const TensorData& data);
// " in module 'layer1.0' (model.py:12)"
std::string describe_origin(const Origin& origin);

}  // namespace hg::convert
