// SPDX-License-Identifier: Apache-2.0
// The graph of one training step: forward, backward, clipping and the optimizer's updates.
#pragma once

#include <string>
#include <vector>

#include "lib/graph/training_state.h"
#include "lib/train/all_reduce.h"
#include "lib/train/objective.h"

namespace hg {

// What training adds to a model are buffers under this name; they hold all that resuming needs:
//   train/progress              counters, see trainer.cpp
//   train/step                  i64: updates so far
//   train/scale                 f32[2]: factor of the loss in f16, and good steps since it changed
//   train/KIND/STATE/PARAMETER  a moment or buffer of the optimizer
//   train/sum/PARAMETER         gradients that are being accumulated
struct StepGraph {
  Graph graph;                              // gives the loss, then the number of updates so far
  Graph forward;                            // as far as the loss, which is its output
  std::vector<std::string> targets;         // names of inputs, which follow the model's
  std::vector<ClassTarget> classes;         // those of them that are class indices
  std::vector<double> rates;                // of the groups, in the order of the input train/lr
  DType dtype = f32;                        // of the loss, the rates and the weight of a batch
  bool has_go = false, has_weight = false;  // inputs, used when gradients are accumulated
  std::vector<std::string> trained, notes;
};

// `model` has no training state; `saved` holds what a file had, by name. `reducer` may be null.
Result<StepGraph> build_step(const Graph& model, const TrainOptions& options,
                             const std::vector<State>& saved, const Reducer* reducer);

}  // namespace hg
