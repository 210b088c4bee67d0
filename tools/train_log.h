// SPDX-License-Identifier: Apache-2.0
// The history of a training, as JSON and as a curve.
#pragma once

#include <string>
#include <vector>

#include "hg/train.h"
#include "tools/command_line/cli.h"

namespace hg::tools {

struct TrainLog {
  struct Step {
    int64_t step, epoch;
    double loss, ms, lr;
  };
  struct Epoch {
    int64_t epoch, last_step;
    double loss, ms, lr;
    bool has_validation = false;
    Evaluation validation = {};
  };
  std::vector<Step> steps;
  std::vector<Epoch> epochs;
  std::vector<std::string> metric_names, trained, notes;
  Memory memory;
  double flops = 0;
  std::string stopped = "finished";  // or interrupted, early, failed

  void add(const Progress& progress);
};

Outcome write_json(const TrainLog& log, const std::string& path);
Outcome write_svg(const TrainLog& log, const std::string& title, const std::string& path);

}  // namespace hg::tools
