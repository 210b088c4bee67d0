// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/optimizer.cpp: one update of one parameter, with torch.optim's formulas, to
// be assigned. hg/train.h builds whole training steps of them.
#pragma once

#include <optional>
#include <vector>

#include "hg/graph.h"

namespace hg {

// What an update is given: g = the gradient, plus what was accumulated; g *= scale; g is limited to
// [-clip_value, clip_value]; g = -g with maximize; g += weight_decay x.
struct StepOptions {
  Value accumulated = {};  // of x's type: earlier gradients that are not used yet
  Value scale = {};        // one float
  Value go = {};           // bool of rank 0: where false, nothing changes but `accumulated`
  int group = 0;           // of lr
  Dim first = 0;           // the gradient may be that of the rows of x from here on
  double weight_decay = 0;
  std::optional<double> clip_value = {};
  bool maximize = false;
};

struct SgdOptions {
  Value momentum_buffer = {};
  double momentum = 0, dampening = 0;
  bool nesterov = false;
};
struct AdamOptions {
  Value largest = {};  // of amsgrad: the largest square so far
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool decoupled = false;  // adamw: weight_decay shrinks x, not the gradient
};
struct RmspropOptions {
  Value mean = {};  // of the centered form
  Value momentum_buffer = {};
  double alpha = 0.99, eps = 1e-8, momentum = 0;
};

// Each gives the new contents of x and of the states that are given, in the order of the op's
// inputs; `accumulated` comes last. States have x's type. gradient: x's type, or some of its rows;
// lr: floats[groups]; step: i64 of rank 0, the number of this update, from 1.
//
// buffer = momentum buffer + (1 - dampening) g, and g in the first step; x -= lr buffer, or with
// nesterov lr (g + momentum buffer).
std::vector<Value> sgd_step(const Value& x, const Value& gradient, const Value& lr,
                            const Value& step, const SgdOptions& sgd = {},
                            const StepOptions& options = {});
// mean += (1 - beta1) (g - mean); square = beta2 square + (1 - beta2) g^2;
// x -= lr / (1 - beta1^step) mean / (sqrt(square / (1 - beta2^step)) + eps).
std::vector<Value> adam_step(const Value& x, const Value& mean, const Value& square,
                             const Value& gradient, const Value& lr, const Value& step,
                             const AdamOptions& adam = {}, const StepOptions& options = {});
// square = alpha square + (1 - alpha) g^2; d = g / (sqrt(square - mean^2) + eps), with the running
// mean of g where it is given; x -= lr d, or lr buffer with buffer = momentum buffer + d.
std::vector<Value> rmsprop_step(const Value& x, const Value& square, const Value& gradient,
                                const Value& lr, const Value& step,
                                const RmspropOptions& rmsprop = {},
                                const StepOptions& options = {});

}  // namespace hg
