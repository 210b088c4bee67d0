// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/loss.cpp.
#pragma once

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// (x - target)^2
inline Value mse_loss(const Value& x, const Value& target, Reduction reduction = Reduction::mean) {
  return x.graph()->call("mse_loss", {x, target}, {{"reduction", reduction}});
}
// |x - target|
inline Value l1_loss(const Value& x, const Value& target, Reduction reduction = Reduction::mean) {
  return x.graph()->call("l1_loss", {x, target}, {{"reduction", reduction}});
}
// Quadratic below beta, linear above.
inline Value smooth_l1_loss(const Value& x, const Value& target, double beta = 1,
                            Reduction reduction = Reduction::mean) {
  return x.graph()->call("smooth_l1_loss", {x, target}, {{"beta", beta}, {"reduction", reduction}});
}
// Quadratic up to delta, linear above.
inline Value huber_loss(const Value& x, const Value& target, double delta = 1,
                        Reduction reduction = Reduction::mean) {
  return x.graph()->call("huber_loss", {x, target}, {{"delta", delta}, {"reduction", reduction}});
}

struct CrossEntropyOptions {
  Value weight = {};  // [classes]
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};
// x: [n, classes, ...]; target: [n, ...] class indices, or probabilities in the shape of x.
inline Value cross_entropy(const Value& x, const Value& target, const CrossEntropyOptions& o = {}) {
  return x.graph()->call("cross_entropy", {x, target, o.weight},
                         {{"ignore_index", o.ignore_index},
                          {"label_smoothing", o.label_smoothing},
                          {"reduction", o.reduction}});
}
// x: [n, classes, ...] log probabilities; target: [n, ...] class indices.
inline Value nll_loss(const Value& x, const Value& target, const Value& weight = {},
                      int64_t ignore_index = -100, Reduction reduction = Reduction::mean) {
  const std::vector<Value> out = x.graph()->calls(
      "nll_loss", {x, target, weight}, {{"ignore_index", ignore_index}, {"reduction", reduction}});
  return out.empty() ? Value() : out[0];
}
// x and target: probabilities.
inline Value binary_cross_entropy(const Value& x, const Value& target, const Value& weight = {},
                                  Reduction reduction = Reduction::mean) {
  return x.graph()->call("binary_cross_entropy", {x, target, weight}, {{"reduction", reduction}});
}
// x: any numbers, of which sigmoid makes probabilities.
inline Value binary_cross_entropy_with_logits(const Value& x, const Value& target,
                                              const Value& weight = {},
                                              const Value& pos_weight = {},
                                              Reduction reduction = Reduction::mean) {
  return x.graph()->call("binary_cross_entropy_with_logits", {x, target, weight, pos_weight},
                         {{"reduction", reduction}});
}
// x: log probabilities; target: probabilities, or their logarithms with log_target.
inline Value kl_div(const Value& x, const Value& target, bool log_target = false,
                    Reduction reduction = Reduction::mean) {
  return x.graph()->call("kl_div", {x, target},
                         {{"log_target", log_target}, {"reduction", reduction}});
}

}  // namespace hg
