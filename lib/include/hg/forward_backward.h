// SPDX-License-Identifier: Apache-2.0
// A model as two: one computes, and one goes back from gradients of its outputs. A host whose own
// program lies between them, such as PyTorch's autograd, keeps what the first leaves for the
// second, and owns the parameters. Trainer (hg/train.h) is for hosts that leave all of that to the
// library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hg/model.h"
#include "hg/train.h"

namespace hg {

struct ForwardBackwardOptions {
  // training: dropout drops and batch_norm takes the statistics of the batch, but in layers that a
  // rule freezes. inference: neither does. as_traced: as the model has them.
  enum class Mode : uint8_t { training, inference, as_traced } mode = Mode::training;
  std::vector<ParameterRule> rules = {};
  // Inputs whose gradients are wanted, by index; without a value those of all floats.
  std::optional<std::vector<int>> inputs = {};
  // Outputs whose gradients are given, by index; without a value all that can have one. A gradient
  // of zeros is not the same: where a derivative is infinite, it gives NaN.
  std::optional<std::vector<int>> outputs = {};
};

// What `backward` needs of the run of `forward`.
struct KeptValue {
  // Of splits of one model that differ in `outputs` alone, equal numbers are equal values; -1 is
  // none of another one.
  int value = -1;
  // The input of `forward` that it is, which the host keeps as it is itself; -1: `forward` gives
  // it. A state that a run updates is given.
  int input = -1;
  bool for_size = false;  // its sizes alone are read, no element
};

struct ForwardBackward {
  // Inputs: the model's, then `states`. Outputs: the model's, then the new contents of `updated`,
  // then those of `kept` that are none of its inputs.
  Model forward;
  // Inputs: each of `kept`, in that order, then the gradient of each of
  // `differentiable_outputs`. Outputs: the gradient of each of `differentiable_inputs`, then of
  // each of `trained`; zeros where nothing depends on it.
  Model backward;
  std::vector<std::string> states;   // names of parameters and buffers
  std::vector<std::string> updated;  // those of them that a run updates, such as running means
  std::vector<std::string> trained;  // those that have a gradient
  // By index: inputs whose gradients are wanted, and outputs that these or `trained` move.
  std::vector<int> differentiable_inputs, differentiable_outputs;
  // Of each output of `backward`: the places in `differentiable_outputs` of those that it is a
  // gradient of. Where none of these has one, it is zero, and PyTorch has no gradient at all.
  std::vector<std::vector<int>> moved_outputs;
  std::vector<KeptValue> kept;
  std::vector<std::string> notes;  // as of Trainer
};

// Fails with all ops in the way that have no gradient. What runs at random runs in `forward` alone.
Result<ForwardBackward> split_gradients(const Model& model,
                                        const ForwardBackwardOptions& options = {});

}  // namespace hg
