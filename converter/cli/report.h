// SPDX-License-Identifier: Apache-2.0
// Reports as JSON for --json, and the jobs of --batch.
#pragma once

#include <string>
#include <vector>

#include "converter/cli/convert.h"

namespace hg::convert {

std::string report_json(const Report& report);
// {"status": "ok", "message": ""}: one line.
std::string answer_json(Exit exit, const std::string& message);

// A job of a batch, or the error in its description.
struct BatchJob {
  Job job;
  std::string trouble;
};
std::vector<BatchJob> read_batch(const std::string& path);  // throws Failure

}  // namespace hg::convert
