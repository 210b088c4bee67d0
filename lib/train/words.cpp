// SPDX-License-Identifier: Apache-2.0
// Names of losses, metrics, optimizers and schedules.
#include "hg/train.h"
#include "lib/graph/word_table.h"

namespace hg {
namespace {

constexpr std::string_view kLosses[] = {"mse", "l1",  "smooth_l1",       "huber",  "cross_entropy",
                                        "nll", "bce", "bce_with_logits", "kl_div", "output"};
constexpr std::string_view kMetrics[] = {"accuracy", "mean_error"};
constexpr std::string_view kOptimizers[] = {"sgd", "adam", "adamw", "rmsprop"};
constexpr std::string_view kSchedules[] = {"constant", "step",      "exponential", "linear",
                                           "cosine",   "one_cycle", "plateau"};

}  // namespace

std::string_view to_string(Loss::Kind kind) { return word_name(kLosses, kind); }
Result<Loss::Kind> parse_loss(std::string_view name) {
  return parse_word<Loss::Kind>(kLosses, "loss", name);
}

std::string_view to_string(Metric::Kind kind) { return word_name(kMetrics, kind); }
Result<Metric::Kind> parse_metric(std::string_view name) {
  return parse_word<Metric::Kind>(kMetrics, "metric", name);
}

std::string_view to_string(Optimizer::Kind kind) { return word_name(kOptimizers, kind); }
Result<Optimizer::Kind> parse_optimizer(std::string_view name) {
  return parse_word<Optimizer::Kind>(kOptimizers, "optimizer", name);
}

std::string_view to_string(Schedule::Kind kind) { return word_name(kSchedules, kind); }
Result<Schedule::Kind> parse_schedule(std::string_view name) {
  return parse_word<Schedule::Kind>(kSchedules, "schedule", name);
}

}  // namespace hg
