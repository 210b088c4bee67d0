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

std::string_view name_of(Loss::Kind kind) { return word_name(kLosses, kind); }
Result<Loss::Kind> loss_named(std::string_view name) {
  return word_named<Loss::Kind>(kLosses, "loss", name);
}

std::string_view name_of(Metric::Kind kind) { return word_name(kMetrics, kind); }
Result<Metric::Kind> metric_named(std::string_view name) {
  return word_named<Metric::Kind>(kMetrics, "metric", name);
}

std::string_view name_of(Optimizer::Kind kind) { return word_name(kOptimizers, kind); }
Result<Optimizer::Kind> optimizer_named(std::string_view name) {
  return word_named<Optimizer::Kind>(kOptimizers, "optimizer", name);
}

std::string_view name_of(Schedule::Kind kind) { return word_name(kSchedules, kind); }
Result<Schedule::Kind> schedule_named(std::string_view name) {
  return word_named<Schedule::Kind>(kSchedules, "schedule", name);
}

}  // namespace hg
