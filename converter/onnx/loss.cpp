// SPDX-License-Identifier: Apache-2.0
// Classification losses: scores [n, c, spatial...] and classes [n, spatial...].
#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

Value likelihood_loss(Node& n, const Value& log_p, const Value& target, const Value& weight) {
  Graph& g = n.graph();
  const std::string reduction = n.string("reduction", "mean");
  Value at = cast(target, i64), ignored;
  if (n.has("ignore_index")) {
    ignored = eq(at, g.scalar(n.integer("ignore_index"), i64));
    at = where(ignored, g.scalar(int64_t{0}, i64), at);
  }
  if (at.rank() < 1) n.refuse(str_cat("its target is ", at.shape()));
  Shape column = at.shape();
  column.insert(column.begin() + 1, Dim(1));
  Value loss = -reshape(gather(log_p, reshape(at, column), 1), at.shape());
  Value counts;
  if (weight)
    counts = reshape(n.op("index_select", {weight, reshape(at, {count(at.shape())})}, {{"dim", 0}}),
                     at.shape());
  if (ignored) {
    const Value zero = constant_like(log_p, 0);
    counts = counts ? where(ignored, zero, counts) : cast(logical_not(ignored), log_p.dtype());
    // The scores of ignored elements may have any value, including infinity.
    loss = where(ignored, zero, loss);
  }
  if (counts) loss = loss * counts;
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum(loss);
  if (reduction != "mean") n.refuse(str_cat("attribute 'reduction' is '", reduction, "'"));
  return counts ? sum(loss) / sum(counts) : mean(loss);
}

void negative_log_likelihood(Node& n) {
  n.give(likelihood_loss(n, n.in(0), n.in(1), n.in_or_none(2)));
}

void softmax_cross_entropy(Node& n) {
  const Value log_p = log_softmax(n.in(0), 1);
  n.give({likelihood_loss(n, log_p, n.in(1), n.in_or_none(2)), log_p});
}

constexpr Builtin kRows[] = {
    {"onnx::NegativeLogLikelihoodLoss", row<negative_log_likelihood>},
    {"onnx::SoftmaxCrossEntropyLoss", row<softmax_cross_entropy>},
};

}  // namespace

Rows loss_rows() { return kRows; }

}  // namespace hg::convert::onnx
