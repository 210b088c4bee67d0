// SPDX-License-Identifier: Apache-2.0
// Runs the converted model beside libtorch on seeded inputs and compares every output.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "converter/interpret.h"
#include "converter/load.h"
#include "converter/options.h"
#include "hg/model.h"

namespace hg::convert {

struct CheckedOutput {
  std::string name;
  std::string type;  // "f32[2, 10]"
  enum class Verdict { equal, different, unchecked } verdict = Verdict::equal;
  double largest_error = 0, allowed = 0;
  std::string reason;  // of a difference, or of not checking
};

struct CheckedCase {
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<CheckedOutput> outputs;
};

struct WrongNode {
  std::string op;
  Origin origin;
  std::string difference;
  double largest_error = 0;
};

struct CheckResult {
  Exit exit = Exit::ok;
  std::string message;  // one sentence, when exit is not ok
  std::vector<CheckedCase> cases;
  std::vector<WrongNode> wrong_nodes;  // the first one, when it was found
  std::vector<std::string> warnings;
};

// `trace` belongs to the model's graph; its nodes are those of `loaded.program`. `progress` is told
// what happens now.
CheckResult check_model(const Loaded& loaded, const Model& model, std::span<const Executed> trace,
                        const Job& job, const std::function<void(const std::string&)>& progress);

// Why libtorch refuses seeded inputs of these types at the first check sizes; empty when it takes
// some of them, or when it fails in an op that the converter has no row for.
std::string input_trouble(const Loaded& loaded, std::span<const InputSpec> specs, const Job& job);

// " in module 'layer1.0' (model.py:12)"
std::string describe_origin(const Origin& origin);

}  // namespace hg::convert
