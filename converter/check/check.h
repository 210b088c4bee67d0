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
  std::string reason;  // of the difference, or why the output is unchecked
};

struct CheckedCase {
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::string values;  // "all values 100"; empty: the default values
  std::vector<CheckedOutput> outputs;
  std::string_view beside = "libtorch's";  // source of the expected outputs
  std::string entry = {};                  // empty: the only entry
};

struct CheckResult {
  Exit exit = Exit::ok;
  std::string message;  // one sentence, when exit is not ok
  std::vector<CheckedCase> cases;
  std::vector<WrongNode> wrong_nodes;  // the first one, if found
  std::vector<std::string> warnings;
  std::vector<std::string> not_exercised;  // "the else of `if` at model.py:12"
  std::vector<std::string> drawn;          // "'n' from 0 to 5": integers without a given range
};

// `graph` is the imported graph, and `trace` its nodes of `loaded.program`. `written` is called
// after libtorch has run; it returns the model with that graph as read back from the file, which is
// then run. `progress` receives a description of each stage.
CheckResult check_model(const Loaded& loaded, const Graph& graph,
                        const std::function<const Model&()>& written,
                        std::span<const Executed> trace, const Job& job,
                        const std::function<void(const std::string&)>& progress);

// Returns why libtorch rejects seeded inputs of these types at the first check sizes. Empty if it
// accepts some of them, or if it fails in an op without a row.
std::string input_trouble(const Loaded& loaded, std::span<const InputSpec> specs, const Job& job);

}  // namespace hg::convert
