// SPDX-License-Identifier: Apache-2.0
// The job that the command line of hg-train describes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hg/train.h"
#include "tools/command_line/cli.h"

namespace hg::tools {

struct TrainJob {
  std::string model, out, best, log, svg;
  std::string
      entry;  // of a file with several entries, which `out` then has as well; empty: the only one
  std::vector<std::string> lora, adapters;   // patterns of layers; files
  int64_t rank = 8;                          // of a new adapter
  std::optional<double> alpha;               // of a new adapter; default: the rank
  std::string weights;                       // file of weights for other programs; export_weights.h
  std::vector<std::string> inputs, targets;  // files
  std::vector<std::string> validation_inputs, validation_targets;
  double validation_split = 0;                                // fraction of the samples, at the end
  std::vector<std::string> losses = {"mse"};                  // [OUTPUT=]KIND[*WEIGHT]
  Loss loss;                                                  // settings that all losses share
  std::vector<std::string> metrics;                           // [OUTPUT=]KIND
  std::vector<std::string> l1, l2, lr_for, weight_decay_for;  // PATTERN[=NUMBER]
  TrainOptions options;
  FitOptions fit;
  int64_t save_every = 0;  // epochs; 0: at the end only
};

// Called once before the first step, with notes and the memory requirement.
using OnStart = std::function<void(const std::vector<std::string>& notes, const Memory&)>;
// Called for each batch and epoch; returning false stops the training.
using OnProgress = std::function<bool(const Progress&)>;

struct TrainSummary {
  int64_t steps = 0, epochs = 0;
  double first_loss = 0, last_loss = 0, ms_per_step = 0;  // last: mean of the last finished epoch
  bool was_stopped = false;                               // by OnProgress
  bool was_early = false;                                 // because of TrainJob::fit.patience
  int64_t best_epoch = 0;                                 // from 1; 0: no epoch has ended
  double best_loss = 0;
  std::string validation;  // of the last epoch: "loss 0.3, accuracy 0.9"; empty without data
  std::vector<ProfileRow> profile;  // of the last step, with SessionOptions::profile
};

// Loads, trains and saves. Writes nothing before every file is read and the plan is made. The file
// at `out` stays until the new model is complete.
Outcome train(const TrainJob& job, const OnStart& on_start, const OnProgress& on_progress,
              TrainSummary& summary);

}  // namespace hg::tools
