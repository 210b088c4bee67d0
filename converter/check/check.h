// SPDX-License-Identifier: Apache-2.0
// Runs the converted model and libtorch on seeded inputs and compares every output.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/check/wrong_node.h"
#include "converter/core/imported.h"
#include "converter/core/job.h"
#include "converter/load/load.h"
#include "hg/model.h"

namespace hg::convert {

struct CheckedOutput {
  static constexpr const char kNoElement[] = "it has no element";
  std::string name;
  std::string type;  // "f32[2, 10]"
  enum class Verdict { equal, different, unchecked, ill_conditioned } verdict = Verdict::equal;
  double largest_error = 0, allowed = 0;
  std::string reason;  // of a difference, or of not checking
};

struct CheckedCase {
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::string values;  // "all values 100"; empty: the usual ones
  std::vector<CheckedOutput> outputs;
  std::string_view beside = "libtorch's";  // whose outputs they were compared with
  std::string entry = {};                  // empty: the only one
};

struct CheckResult {
  Exit exit = Exit::ok;
  std::string message;  // one sentence, when exit is not ok
  std::vector<CheckedCase> cases;
  std::vector<WrongNode> wrong_nodes;  // the first one, when it was found
  std::vector<std::string> warnings;
  std::vector<std::string> not_exercised;  // "the else of `if` at model.py:12"
  std::vector<std::string> drawn;          // "'n' from 0 to 5": integers without a given range
};

// `graph` is the one that was imported, whose `trace` has the nodes of `loaded.program`; `written`
// is asked for the model with that graph as it was read back, which is what runs, once libtorch
// has run. `progress` is told what happens now.
CheckResult check_model(const Loaded& loaded, const Graph& graph,
                        const std::function<const Model&()>& written,
                        std::span<const Executed> trace, const Job& job,
                        const std::function<void(const std::string&)>& progress);

// Why libtorch refuses seeded inputs of these types at the first check sizes; empty when it takes
// some of them, or when it fails in an op that the converter has no row for.
std::string input_trouble(const Loaded& loaded, std::span<const InputSpec> specs, const Job& job);

}  // namespace hg::convert
