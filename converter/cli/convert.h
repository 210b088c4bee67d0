// SPDX-License-Identifier: Apache-2.0
// One conversion from file to file: load, import, verify, check, write. Nothing is written unless
// all steps succeed.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "converter/check/check.h"
#include "converter/cli/options.h"

namespace hg::convert {

struct Report {
  Exit exit = Exit::ok;
  std::string message;  // one sentence, if exit is not ok
  Job job;
  bool may_be_written = true;       // false if the file for it must be kept
  std::vector<std::string> inputs;  // "x: f32[n, 3]"
  std::vector<std::string> outputs;
  std::vector<DType> computed_in;                // by output, see precision.h
  std::vector<std::pair<std::string, int>> ops;  // of the graph, with their counts
  std::vector<Unsupported> unsupported;
  std::vector<std::string> warnings, notes;
  CheckResult check;
  std::string source_hash;
  std::string libtorch, onnxruntime;  // versions, if used
  int64_t parameters = 0;             // total elements
  int64_t weight_bytes = 0;
  std::vector<std::pair<std::string, double>> stage_ms;
};

// Never throws. `progress` receives the name of each stage.
Report convert(const Job& job, const std::function<void(const std::string&)>& progress);

std::string_view status_name(Exit exit);  // "unsupported"
// One line for a bug report: versions, the model's hash, and the error.
std::string summary_line(const Report& report);

}  // namespace hg::convert
