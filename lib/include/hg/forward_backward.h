// SPDX-License-Identifier: Apache-2.0
// Splits a model into a forward graph and a backward graph, for hosts that run their own code
// between the two, such as PyTorch's autograd. The host owns the parameters and keeps the values
// that `backward` needs. Trainer (hg/train.h) does all of this in the library.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hg/model.h"
#include "hg/train.h"

namespace hg {

struct ForwardBackwardOptions {
  // training: dropout is active and batch_norm uses batch statistics, except in layers that a rule
  // freezes. inference: neither. as_traced: as recorded in the model.
  enum class Mode : uint8_t { training, inference, as_traced } mode = Mode::training;
  std::vector<ParameterRule> rules = {};
  // Indices of the inputs to differentiate; nullopt: all float inputs.
  std::optional<std::vector<int>> inputs = {};
  // Indices of the outputs whose gradients are passed to `backward`; nullopt: all that can have
  // one. Omitting an output is not the same as passing zeros, which produce NaN where a derivative
  // is infinite.
  std::optional<std::vector<int>> outputs = {};
};

// A value of `forward` that `backward` reads.
struct KeptValue {
  // Identifies the value across splits of one model that differ only in `outputs`: equal numbers
  // are equal values. -1: the value occurs in no other split.
  int value = -1;
  // The input of `forward` that the value equals; the host keeps that input. -1: `forward` outputs
  // the value. This includes states that the run updates.
  int input = -1;
  bool for_size = false;  // only its shape is read, not its elements
};

struct ForwardBackward {
  // Inputs: those of the model, then `states`. Outputs: those of the model, the new contents of
  // `updated`, and the values of `kept` that are not inputs.
  Model forward;
  // Inputs: the values of `kept` in order, then the gradient of each of `differentiable_outputs`.
  // Outputs: the gradient of each of `differentiable_inputs`, then of each of `trained`; zeros if
  // nothing depends on it.
  Model backward;
  std::vector<std::string> states;   // names of parameters and buffers
  std::vector<std::string> updated;  // subset of `states` that a run updates, such as running means
  std::vector<std::string> trained;  // subset of `states` that has a gradient
  // Indices of the differentiated inputs, and of the outputs that depend on them or on `trained`.
  std::vector<int> differentiable_inputs, differentiable_outputs;
  // For each output of `backward`: the positions in `differentiable_outputs` that it is a gradient
  // of. If none of these has a gradient, it is zero, where PyTorch has no gradient.
  std::vector<std::vector<int>> moved_outputs;
  std::vector<KeptValue> kept;
  std::vector<std::string> notes;  // as in Trainer
};

// Fails with all ops on the path that have no gradient. Random ops run only in `forward`.
Result<ForwardBackward> split_gradients(const Model& model,
                                        const ForwardBackwardOptions& options = {});

// Returns the model with copies of these contents of parameters and buffers, as the host's
// optimizer has made them; other states stay. Fails if there is no such state, or if its dtype or
// shape differ.
Result<Model> with_states(const Model& model,
                          std::span<const std::pair<std::string, ConstTensor>> contents);

}  // namespace hg
