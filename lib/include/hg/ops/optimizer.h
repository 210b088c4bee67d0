// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/optimizer.cpp: one update of one parameter, with torch.optim's formulas.
// Assign the results to the states. hg/train.h builds complete training steps.
#pragma once

#include <optional>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Preprocessing of the gradient: g = gradient + accumulated; g *= scale; g is clamped to
// [-clip_value, clip_value]; g = -g if maximize; g += weight_decay * x.
struct StepOptions {
  Value accumulated = {};  // of x's type: earlier gradients not yet used
  Value scale = {};        // one float
  Value go = {};           // bool of rank 0; if false, only `accumulated` changes
  int group = 0;           // index into lr
  Dim first = 0;           // the gradient may cover only the rows of x from here on
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
  Value largest = {};  // amsgrad: the largest square so far
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool decoupled = false;  // adamw: weight_decay shrinks x, not the gradient
};
struct RmspropOptions {
  Value mean = {};  // centered RMSprop: running mean of g
  Value momentum_buffer = {};
  double alpha = 0.99, eps = 1e-8, momentum = 0;
};

// Return the new contents of x and of the given states, in the order of the op's inputs,
// `accumulated` last. States have the type of x. gradient: the type of x, or some of its rows. lr:
// floats[groups]. step: i64 of rank 0, the number of this update, from 1.
//
// SGD: buffer = momentum * buffer + (1 - dampening) * g, or g in the first step. x -= lr * buffer;
// with nesterov, x -= lr * (g + momentum * buffer).
std::vector<Value> sgd_step(const Value& x, const Value& gradient, const Value& lr,
                            const Value& step, const SgdOptions& sgd = {},
                            const StepOptions& options = {});
// Adam: mean += (1 - beta1) * (g - mean); square = beta2 * square + (1 - beta2) * g^2; x -= lr / (1
// - beta1^step) * mean / (sqrt(square / (1 - beta2^step)) + eps).
std::vector<Value> adam_step(const Value& x, const Value& mean, const Value& square,
                             const Value& gradient, const Value& lr, const Value& step,
                             const AdamOptions& adam = {}, const StepOptions& options = {});
// RMSprop: square = alpha * square + (1 - alpha) * g^2; d = g / (sqrt(square - mean^2) + eps),
// where mean is 0 unless given. x -= lr * d, or x -= lr * buffer with buffer = momentum * buffer +
// d.
std::vector<Value> rmsprop_step(const Value& x, const Value& square, const Value& gradient,
                                const Value& lr, const Value& step,
                                const RmspropOptions& rmsprop = {},
                                const StepOptions& options = {});

}  // namespace hg
