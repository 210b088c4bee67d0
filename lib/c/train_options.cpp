// SPDX-License-Identifier: Apache-2.0
// Losses, optimizers, schedules and rules of hg/c.h.
#include <cmath>
#include <limits>

#include "hg/train.h"
#include "lib/c/handles.h"
#include "lib/c/structs.h"

namespace hg::c {
namespace {

std::string text_or(const char* given, std::string_view otherwise) {
  return std::string(given != nullptr ? std::string_view(given) : otherwise);
}

Status check_kind(int32_t kind, int32_t last, std::string_view name) {
  HG_CHECK(kind >= 0 && kind <= last, name, ".kind is ", kind, "; it is between 0 and ", last);
  return {};
}

hg_loss default_loss() {
  const Loss from;
  hg_loss loss{};
  loss.kind = HG_MSE;
  loss.weight = from.weight;
  loss.beta = from.beta;
  loss.ignore_index = from.ignore_index;
  return loss;
}

Optimizer optimizer_of(int32_t kind) {
  switch (kind) {
    case HG_ADAM:
      return adam();
    case HG_ADAMW:
      return adamw();
    case HG_RMSPROP:
      return rmsprop();
    default:
      return sgd();
  }
}

hg_optimizer default_optimizer(int32_t kind) {
  const Optimizer from = optimizer_of(kind);
  hg_optimizer o{};
  o.kind = kind;
  o.lr = from.lr;
  o.weight_decay = from.weight_decay;
  o.momentum = from.momentum;
  o.dampening = from.dampening;
  o.beta1 = from.beta1;
  o.beta2 = from.beta2;
  o.alpha = from.alpha;
  o.eps = from.eps;
  return o;
}

hg_schedule default_schedule() {
  const Schedule from;
  hg_schedule s{};
  s.kind = HG_CONSTANT_RATE;
  s.period = from.period;
  s.patience = from.patience;
  s.gamma = from.gamma;
  s.min_lr = from.min_lr;
  s.start = from.start;
  s.end = from.end;
  s.rise = from.rise;
  s.div_factor = from.div_factor;
  s.final_div_factor = from.final_div_factor;
  s.threshold = from.threshold;
  return s;
}

hg_parameter_rule default_rule() {
  hg_parameter_rule rule{};
  rule.frozen = -1;
  rule.lr = rule.weight_decay = std::numeric_limits<double>::quiet_NaN();
  return rule;
}

hg_train_options default_train_options() {
  hg_train_options options{};
  options.accumulate = 1;
  options.compute = HG_F32;
  options.resume = 1;
  return options;
}

Result<Loss> read_loss(const hg_loss* given) {
  HG_TRY_ASSIGN(const hg_loss all, read_struct(given, default_loss(), "hg_loss"));
  HG_TRY(check_kind(all.kind, HG_OUTPUT_LOSS, "hg_loss"));
  HG_CHECK(all.reduction == HG_REDUCTION_MEAN || all.reduction == HG_REDUCTION_SUM,
           "hg_loss.reduction is ", all.reduction, ", which is not a reduction");
  HG_CHECK(all.class_weights != nullptr || all.class_count == 0, "hg_loss.class_weights is null");
  Loss loss;
  loss.kind = static_cast<Loss::Kind>(all.kind);
  loss.output = text_or(all.output, "");
  loss.target = text_or(all.target, "target");
  loss.weight = all.weight;
  loss.reduction = all.reduction == HG_REDUCTION_SUM ? Reduction::sum : Reduction::mean;
  loss.beta = all.beta;
  loss.label_smoothing = all.label_smoothing;
  loss.ignore_index = all.ignore_index;
  loss.log_target = all.log_target != 0;
  if (all.class_count > 0)
    loss.class_weights.assign(all.class_weights, all.class_weights + all.class_count);
  return loss;
}

Result<Optimizer> read_optimizer(const hg_optimizer* given) {
  HG_TRY_ASSIGN(const hg_optimizer all,
                read_struct(given, default_optimizer(HG_SGD), "hg_optimizer"));
  HG_TRY(check_kind(all.kind, HG_RMSPROP, "hg_optimizer"));
  return Optimizer{.kind = static_cast<Optimizer::Kind>(all.kind),
                   .lr = all.lr,
                   .weight_decay = all.weight_decay,
                   .momentum = all.momentum,
                   .dampening = all.dampening,
                   .nesterov = all.nesterov != 0,
                   .beta1 = all.beta1,
                   .beta2 = all.beta2,
                   .amsgrad = all.amsgrad != 0,
                   .alpha = all.alpha,
                   .centered = all.centered != 0,
                   .eps = all.eps,
                   .maximize = all.maximize != 0};
}

Result<Schedule> read_schedule(const hg_schedule* given) {
  HG_TRY_ASSIGN(const hg_schedule all, read_struct(given, default_schedule(), "hg_schedule"));
  HG_TRY(check_kind(all.kind, HG_PLATEAU, "hg_schedule"));
  return Schedule{.kind = static_cast<Schedule::Kind>(all.kind),
                  .by_epoch = all.by_epoch != 0,
                  .warmup = all.warmup,
                  .total = all.total,
                  .period = all.period,
                  .gamma = all.gamma,
                  .min_lr = all.min_lr,
                  .start = all.start,
                  .end = all.end,
                  .rise = all.rise,
                  .div_factor = all.div_factor,
                  .final_div_factor = all.final_div_factor,
                  .patience = all.patience,
                  .cooldown = all.cooldown,
                  .threshold = all.threshold,
                  .maximize = all.maximize != 0};
}

Result<ParameterRule> read_rule(const hg_parameter_rule* given) {
  HG_TRY_ASSIGN(const hg_parameter_rule all,
                read_struct(given, default_rule(), "hg_parameter_rule"));
  HG_CHECK(all.pattern != nullptr, "hg_parameter_rule.pattern is null");
  ParameterRule rule{.pattern = all.pattern};
  if (!std::isnan(all.lr)) rule.lr = all.lr;
  if (!std::isnan(all.weight_decay)) rule.weight_decay = all.weight_decay;
  if (all.frozen >= 0) rule.frozen = all.frozen != 0;
  return rule;
}

Result<Metric> read_metric(const hg_metric* given) {
  HG_TRY_ASSIGN(const hg_metric all, read_struct(given, hg_metric(), "hg_metric"));
  HG_TRY(check_kind(all.kind, HG_MEAN_ERROR, "hg_metric"));
  return Metric{.kind = static_cast<Metric::Kind>(all.kind),
                .output = text_or(all.output, ""),
                .target = text_or(all.target, "target")};
}

// Reads each struct of a list with `read`.
template <class From, class To>
Status read_list(const From* from, size_t count, Result<To> (*read)(const From*),
                 std::string_view name, std::vector<To>& to) {
  HG_CHECK(from != nullptr || count == 0, "the list of ", name, " is null and has ",
           uint64_t{count}, " entries");
  to.clear();
  for (size_t i = 0; i < count; ++i) {
    HG_TRY_ASSIGN(To one, read(element(from, i)));
    to.push_back(std::move(one));
  }
  return {};
}

}  // namespace

Result<TrainOptions> read_train_options(const hg_train_options* given, std::unique_ptr<CLog>& log) {
  HG_TRY_ASSIGN(const hg_train_options all,
                read_struct(given, default_train_options(), "hg_train_options"));
  HG_CHECK(all.mode == HG_TRAINING || all.mode == HG_AS_TRACED, "hg_train_options.mode is ",
           all.mode, ", which is not a mode");
  HG_CHECK(all.compute >= 0 && all.compute < kDTypeCount, "hg_train_options.compute is ",
           all.compute, ", which is not a dtype");
  TrainOptions options;
  if (all.loss_count > 0)
    HG_TRY(read_list(all.losses, all.loss_count, read_loss, "losses", options.losses));
  HG_TRY(read_list(all.metrics, all.metric_count, read_metric, "metrics", options.metrics));
  HG_TRY(read_list(all.rules, all.rule_count, read_rule, "rules", options.rules));
  HG_TRY_ASSIGN(options.optimizer, read_optimizer(all.optimizer));
  HG_TRY_ASSIGN(options.schedule, read_schedule(all.schedule));
  HG_TRY_ASSIGN(options.session, read_session_options(all.session, log));
  options.clip_norm = all.clip_norm;
  options.clip_value = all.clip_value;
  options.accumulate = all.accumulate;
  options.mode =
      all.mode == HG_TRAINING ? TrainOptions::Mode::training : TrainOptions::Mode::as_traced;
  options.compute = static_cast<DType>(all.compute);
  options.resume = all.resume != 0;
  return options;
}

}  // namespace hg::c

extern "C" {

void hg_loss_init(hg_loss* loss, size_t struct_size) {
  hg::c::write_defaults(loss, struct_size, hg::c::default_loss());
}
void hg_optimizer_init(hg_optimizer* optimizer, size_t struct_size, int32_t kind) {
  hg::c::write_defaults(optimizer, struct_size, hg::c::default_optimizer(kind));
}
void hg_schedule_init(hg_schedule* schedule, size_t struct_size) {
  hg::c::write_defaults(schedule, struct_size, hg::c::default_schedule());
}
void hg_parameter_rule_init(hg_parameter_rule* rule, size_t struct_size) {
  hg::c::write_defaults(rule, struct_size, hg::c::default_rule());
}
void hg_metric_init(hg_metric* metric, size_t struct_size) {
  hg::c::write_defaults(metric, struct_size, hg_metric());
}
void hg_train_options_init(hg_train_options* options, size_t struct_size) {
  hg::c::write_defaults(options, struct_size, hg::c::default_train_options());
}

}  // extern "C"
