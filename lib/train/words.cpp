// SPDX-License-Identifier: Apache-2.0
// Names of losses, metrics, optimizers and schedules.
#include "hg/train.h"
#include "lib/graph/word_table.h"

namespace hg {

HG_WORDS(Loss::Kind, parse_loss, "loss", "mse", "l1", "smooth_l1", "huber", "cross_entropy", "nll",
         "bce", "bce_with_logits", "kl_div", "output")
HG_WORDS(Metric::Kind, parse_metric, "metric", "accuracy", "mean_error")
HG_WORDS(Optimizer::Kind, parse_optimizer, "optimizer", "sgd", "adam", "adamw", "rmsprop")
HG_WORDS(Schedule::Kind, parse_schedule, "schedule", "constant", "step", "exponential", "linear",
         "cosine", "one_cycle", "plateau")

}  // namespace hg
