// SPDX-License-Identifier: Apache-2.0
// The graph of one training step: forward, backward, clipping and the optimizer's updates.
#pragma once

#include <string>
#include <vector>

#include "lib/graph/training_state.h"
#include "lib/train/all_reduce.h"
#include "lib/train/objective.h"

namespace hg {

// Buffers that training adds to a model. They hold everything needed to resume:
//   train/progress              counters, see trainer.cpp
//   train/step                  i64: updates so far
//   train/scale                 f32[2]: loss scale in f16, and good steps since it changed
//   train/KIND/STATE/PARAMETER  a moment or buffer of the optimizer
//   train/sum/PARAMETER         gradients being accumulated
struct StepGraph {
  Graph graph;                              // outputs: the loss, then the number of updates so far
  Graph forward;                            // the part that computes the loss, its output
  std::vector<std::string> targets;         // names of inputs, after those of the model
  std::vector<ClassTarget> classes;         // the targets that are class indices
  std::vector<double> rates;                // per group, in the order of the input train/lr
  DType dtype = f32;                        // of the loss, the rates and the weight of a batch
  bool has_go = false, has_weight = false;  // whether these inputs exist, for accumulation
  std::vector<std::string> trained, notes;
};

// `model` must have no training state; `saved` holds that of a file, by name. `reducer` may be
// null.
Result<StepGraph> build_step(const Graph& model, const TrainOptions& options,
                             const std::vector<State>& saved, const Reducer* reducer);

}  // namespace hg
