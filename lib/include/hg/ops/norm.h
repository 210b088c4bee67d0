// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/norm.cpp.
#pragma once

#include <vector>

#include "hg/graph.h"

namespace hg {

// exp(x) / sum(exp(x)) along dim.
inline Value softmax(const Value& x, int dim = -1) {
  return x.graph()->call("softmax", {x}, {{"dim", dim}});
}
// x - log(sum(exp(x))) along dim.
inline Value log_softmax(const Value& x, int dim = -1) {
  return x.graph()->call("log_softmax", {x}, {{"dim", dim}});
}
// (x - mean) / sqrt(var + eps) * weight + bias over the trailing dims, which must have the sizes
// normalized_shape. weight and bias have that shape.
inline Value layer_norm(const Value& x, std::vector<Dim> normalized_shape, const Value& weight = {},
                        const Value& bias = {}, double eps = 1e-5) {
  return x.graph()->call("layer_norm", {x, weight, bias},
                         {{"normalized_shape", Attr(std::move(normalized_shape))}, {"eps", eps}});
}
// x / sqrt(mean(x^2) + eps) * weight over the trailing dims.
inline Value rms_norm(const Value& x, std::vector<Dim> normalized_shape, const Value& weight = {},
                      double eps = 1e-6) {
  return x.graph()->call("rms_norm", {x, weight},
                         {{"normalized_shape", Attr(std::move(normalized_shape))}, {"eps", eps}});
}
// Normalizes the channels of each group together. x: [n, c, ...], weight and bias: [c].
inline Value group_norm(const Value& x, const Dim& groups, const Value& weight = {},
                        const Value& bias = {}, double eps = 1e-5) {
  return x.graph()->call("group_norm", {x, weight, bias}, {{"groups", groups}, {"eps", eps}});
}
// Normalizes each channel of each sample.
inline Value instance_norm(const Value& x, const Value& weight = {}, const Value& bias = {},
                           double eps = 1e-5) {
  return group_norm(x, x.dim(1), weight, bias, eps);
}

struct BatchNorm {
  // after training, assign new_mean and new_var to the running statistics
  Value y, new_mean, new_var;
};
// x: [n, c, ...], all other inputs: [c]. If training, uses batch statistics, and the new running
// statistics are (1 - momentum) * old + momentum * batch. Otherwise uses the running statistics.
inline BatchNorm batch_norm(const Value& x, const Value& weight, const Value& bias,
                            const Value& running_mean, const Value& running_var,
                            bool training = false, double momentum = 0.1, double eps = 1e-5) {
  const std::vector<Value> out =
      x.graph()->calls("batch_norm", {x, weight, bias, running_mean, running_var},
                       {{"training", training}, {"momentum", momentum}, {"eps", eps}});
  if (out.size() != 3) return {};
  return {out[0], out[1], out[2]};
}

}  // namespace hg
