// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/loss.cpp and ctc_loss.cpp. Reduction::mean averages over all elements unless
// stated otherwise.
#pragma once

#include <vector>

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
// d^2 / (2 beta) where d = |x - target| < beta, otherwise d - beta / 2.
inline Value smooth_l1_loss(const Value& x, const Value& target, double beta = 1,
                            Reduction reduction = Reduction::mean) {
  return x.graph()->call("smooth_l1_loss", {x, target}, {{"beta", beta}, {"reduction", reduction}});
}
// d^2 / 2 where d = |x - target| <= delta, otherwise delta * (d - delta / 2).
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
// x: [n, classes, ...]. target: class indices [n, ...], or probabilities in the shape of x. For
// indices, the mean divides by the sum of their weights.
inline Value cross_entropy(const Value& x, const Value& target, const CrossEntropyOptions& o = {}) {
  return x.graph()->call("cross_entropy", {x, target, o.weight},
                         {{"ignore_index", o.ignore_index},
                          {"label_smoothing", o.label_smoothing},
                          {"reduction", o.reduction}});
}
// x: log probabilities [n, classes, ...]. target: class indices [n, ...]. The mean divides by the
// sum of their weights.
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
// x: logits, that is, sigmoid(x) are the probabilities.
inline Value binary_cross_entropy_with_logits(const Value& x, const Value& target,
                                              const Value& weight = {},
                                              const Value& pos_weight = {},
                                              Reduction reduction = Reduction::mean) {
  return x.graph()->call("binary_cross_entropy_with_logits", {x, target, weight, pos_weight},
                         {{"reduction", reduction}});
}
// x: log probabilities. target: probabilities, or log probabilities if log_target.
inline Value kl_div(const Value& x, const Value& target, bool log_target = false,
                    Reduction reduction = Reduction::mean) {
  return x.graph()->call("kl_div", {x, target},
                         {{"log_target", log_target}, {"reduction", reduction}});
}
// x where target is 1; max(0, margin - x) where it is -1.
inline Value hinge_embedding_loss(const Value& x, const Value& target, double margin = 1,
                                  Reduction reduction = Reduction::mean) {
  return x.graph()->call("hinge_embedding_loss", {x, target},
                         {{"margin", margin}, {"reduction", reduction}});
}
// max(0, margin - target * (x1 - x2)); target: 1 or -1.
inline Value margin_ranking_loss(const Value& x1, const Value& x2, const Value& target,
                                 double margin = 0, Reduction reduction = Reduction::mean) {
  return x1.graph()->call("margin_ranking_loss", {x1, x2, target},
                          {{"margin", margin}, {"reduction", reduction}});
}
// log(1 + e^(-target * x)); target: 1 or -1.
inline Value soft_margin_loss(const Value& x, const Value& target,
                              Reduction reduction = Reduction::mean) {
  return x.graph()->call("soft_margin_loss", {x, target}, {{"reduction", reduction}});
}
// 1 - cosine where target is 1; max(0, cosine - margin) where it is -1. x1, x2: [n, d] or [d].
inline Value cosine_embedding_loss(const Value& x1, const Value& x2, const Value& target,
                                   double margin = 0, Reduction reduction = Reduction::mean) {
  return x1.graph()->call("cosine_embedding_loss", {x1, x2, target},
                          {{"margin", margin}, {"reduction", reduction}});
}
// e^x - target * x if log_input, otherwise x - target * log(x + eps). full adds Stirling's
// approximation of log(target!) where target > 1.
inline Value poisson_nll_loss(const Value& x, const Value& target, bool log_input = true,
                              bool full = false, double eps = 1e-8,
                              Reduction reduction = Reduction::mean) {
  return x.graph()->call(
      "poisson_nll_loss", {x, target},
      {{"log_input", log_input}, {"full", full}, {"eps", eps}, {"reduction", reduction}});
}

struct TripletOptions {
  double margin = 1, p = 2, eps = 1e-6;
  // if the negative is nearer to the positive than to the anchor, uses that distance
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
// max(0, |anchor - positive| - |anchor - negative| + margin), with the p-norms of
// pairwise_distance.
inline Value triplet_margin_loss(const Value& anchor, const Value& positive, const Value& negative,
                                 const TripletOptions& o = {}) {
  return anchor.graph()->call("triplet_margin_loss", {anchor, positive, negative},
                              {{"margin", o.margin},
                               {"p", o.p},
                               {"eps", o.eps},
                               {"swap", o.swap},
                               {"reduction", o.reduction}});
}
// sum over j != target of weight[target] * max(0, margin - x[target] + x[j])^p / classes. x: [n,
// classes], target: [n], weight: [classes]. p is 1 or 2.
inline Value multi_margin_loss(const Value& x, const Value& target, const Value& weight = {},
                               double p = 1, double margin = 1,
                               Reduction reduction = Reduction::mean) {
  return x.graph()->call("multi_margin_loss", {x, target, weight},
                         {{"p", p}, {"margin", margin}, {"reduction", reduction}});
}
// sum of max(0, 1 - x[j] + x[i]) / classes over the targets j, up to the first -1, and the classes
// i that are not targets. x, target: [n, classes]. The second result marks the targets among the
// classes, in x's dtype.
inline std::vector<Value> multilabel_margin_loss(const Value& x, const Value& target,
                                                 Reduction reduction = Reduction::mean) {
  return x.graph()->calls("multilabel_margin_loss", {x, target}, {{"reduction", reduction}});
}
// Connectionist temporal classification (Graves et al. 2006): minus the log probability of all
// paths that produce the targets, [batch]. log_probs: [time, batch, classes], from log_softmax.
// targets: [batch, length], or concatenated in one row. Lengths: [batch]. All inputs but log_probs
// are i64. zero_infinity: 0 instead of infinity where no path is long enough.
inline Value ctc_loss(const Value& log_probs, const Value& targets, const Value& input_lengths,
                      const Value& target_lengths, Dim blank = 0, bool zero_infinity = false) {
  return log_probs.graph()->call("ctc_loss", {log_probs, targets, input_lengths, target_lengths},
                                 {{"blank", blank}, {"zero_infinity", zero_infinity}});
}

}  // namespace hg
