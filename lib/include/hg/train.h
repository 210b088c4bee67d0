// SPDX-License-Identifier: Apache-2.0
// Training: gradients as graphs, losses, optimizers, schedules, and the Trainer. The Trainer runs
// forward, backward and update as one planned graph.
//
//     hg::TrainOptions options;
//     options.losses = {{.kind = hg::Loss::Kind::cross_entropy}};
//     options.optimizer = hg::adamw(1e-3);
//     HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(model, options));
//     HG_TRY(trainer.fit({{images}, {labels}}, {.epochs = 10, .batch = 32}));
//     HG_TRY(trainer.save("trained.hgm"));
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/metric.h"
#include "hg/model.h"
#include "hg/quantize.h"
#include "hg/session.h"
#include "hg/words.h"

namespace hg {

// -- Gradients ------------------------------------------------------------------------------------

// Vector-Jacobian products sum_k seeds[k] * d ys[k] / d wrt[i]. Returns one Value per element of
// `wrt`, of its dtype and shape; zeros if no y depends on it. `wrt` may contain any float value:
// inputs, parameters, intermediate results. seeds[k] has the type of ys[k]; an empty Value, or
// empty `seeds`, means ones.
//
// If an op between `wrt` and `ys` has no gradient, the graph fails with the names of all such ops,
// and the result is empty. Gradients are ordinary nodes of the same graph, which can be
// differentiated again.
std::vector<Value> grad(std::span<const Value> ys, std::span<const Value> wrt,
                        std::span<const Value> seeds = {});

inline std::vector<Value> grad(const Value& y, std::initializer_list<Value> wrt,
                               const Value& seed = {}) {
  return grad(std::span(&y, 1), std::span(wrt.begin(), wrt.size()), std::span(&seed, 1));
}

// d y[i] / d x[j], in the shape of y followed by that of x. Adds one backward pass per element of
// y. y must have a constant number of elements.
Value jacobian(const Value& y, const Value& x);
// Jacobian-vector products: for each k, sum_i d ys[k] / d wrt[i] * directions[i], of the type of
// ys[k]. directions[i] has the type of wrt[i].
std::vector<Value> jvp(std::span<const Value> ys, std::span<const Value> wrt,
                       std::span<const Value> directions);
// Hessian-vector products: for each i, sum_j d2 y / (d wrt[i] d wrt[j]) * directions[j]. y has rank
// 0; directions[j] has the type of wrt[j].
std::vector<Value> hvp(const Value& y, std::span<const Value> wrt,
                       std::span<const Value> directions);

// -- Objective ------------------------------------------------------------------------------------

// Patterns match names of parameters: '*' matches any characters, '?' matches one. A layer without
// parameters, such as dropout, is matched by its module path.

// One term of the sum that training minimizes. hg/ops/loss.h has the formulas.
struct Loss {
  enum class Kind : uint8_t {
    mse,
    l1,
    smooth_l1,
    huber,
    cross_entropy,
    nll,
    bce,
    bce_with_logits,
    kl_div,
    output,  // the model's output is the loss itself
  };
  Kind kind = Kind::mse;
  std::string output = "";        // of the model; empty: the first
  std::string target = "target";  // name of the input added for the target; losses may share it
  // Type of the target. Default: that of the output, with f32 for 16-bit floats. For cross_entropy
  // and nll: i64 class indices, the classes being dim 1 of the output.
  std::optional<TensorType> target_type = {};
  double weight = 1;
  Reduction reduction = Reduction::mean;  // mean or sum
  double beta = 1;                        // beta of smooth_l1, delta of huber
  // For cross_entropy and nll. class_dim is the dim of the classes in the output: 1, or -1 if the
  // target has the shape of the output without its last dim. Default: whichever matches the target.
  std::optional<int> class_dim = {};
  double label_smoothing = 0;
  int64_t ignore_index = -100;
  std::vector<double> class_weights = {};
  bool log_target = false;  // kl_div
};

std::string_view to_string(Loss::Kind kind);
Result<Loss::Kind> parse_loss(std::string_view name);

// Adds l1 * sum |w| + l2 * sum w^2 to the loss, for the matching parameters.
struct Penalty {
  std::string pattern = "*";
  double l1 = 0, l2 = 0;
};

// -- Optimization ---------------------------------------------------------------------------------

// The optimizers of torch.optim, with their defaults. Updates are computed in the dtype of the
// parameter, as in torch. Losses and rates are f64 if a trained parameter or the output of a loss
// is f64, otherwise f32.
struct Optimizer {
  enum class Kind : uint8_t { sgd, adam, adamw, rmsprop };
  Kind kind = Kind::sgd;
  double lr = 1e-3;
  double weight_decay = 0;            // adamw: decoupled from the gradient
  double momentum = 0;                // sgd and rmsprop
  double dampening = 0;               // sgd
  bool nesterov = false;              // sgd
  double beta1 = 0.9, beta2 = 0.999;  // adam and adamw
  bool amsgrad = false;               // adam and adamw
  double alpha = 0.99;                // rmsprop
  bool centered = false;              // rmsprop
  double eps = 1e-8;
  bool maximize = false;
};
std::string_view to_string(Optimizer::Kind kind);
Result<Optimizer::Kind> parse_optimizer(std::string_view name);
inline Optimizer sgd(double lr = 1e-3, double momentum = 0, double weight_decay = 0,
                     bool nesterov = false) {
  return {.kind = Optimizer::Kind::sgd,
          .lr = lr,
          .weight_decay = weight_decay,
          .momentum = momentum,
          .nesterov = nesterov};
}
inline Optimizer adam(double lr = 1e-3, double weight_decay = 0) {
  return {.kind = Optimizer::Kind::adam, .lr = lr, .weight_decay = weight_decay};
}
inline Optimizer adamw(double lr = 1e-3, double weight_decay = 0.01) {
  return {.kind = Optimizer::Kind::adamw, .lr = lr, .weight_decay = weight_decay};
}
inline Optimizer rmsprop(double lr = 1e-2, double momentum = 0, double weight_decay = 0) {
  return {.kind = Optimizer::Kind::rmsprop,
          .lr = lr,
          .weight_decay = weight_decay,
          .momentum = momentum};
}

// Settings of the matching parameters. If several rules set the same field, the last one applies.
struct ParameterRule {
  std::string pattern;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
  // True: not trained and not differentiated, and batch_norm and dropout of the layer run as in
  // inference. By default, parameters are trained if the model says so (State::requires_grad),
  // which does not affect the mode of their layer. To train all parameters: {.pattern = "*",
  // .frozen = false}.
  std::optional<bool> frozen = {};
};

// The schedules of torch.optim.lr_scheduler; learning_rate() is the formula. A tick is an update,
// or an epoch if by_epoch is true. The first `warmup` ticks raise the rate linearly from lr /
// (warmup + 1).
struct Schedule {
  enum class Kind : uint8_t { constant, step, exponential, linear, cosine, one_cycle, plateau };
  Kind kind = Kind::constant;
  bool by_epoch = false;  // plateau always counts epochs
  int64_t warmup = 0;
  // linear, cosine, one_cycle: ticks including warmup, after which the rate stays constant (torch's
  // cosine rises again). 0: the ticks of one fit().
  int64_t total = 0;
  int64_t period = 30;              // step: ticks between drops
  double gamma = 0.1;               // step, exponential and plateau: factor of a drop
  double min_lr = 0;                // cosine and plateau
  double start = 1.0 / 3, end = 1;  // linear: factors of lr
  double rise = 0.3, div_factor = 25, final_div_factor = 1e4;  // one_cycle; the peak is lr
  int64_t patience = 10, cooldown = 0;                         // plateau: in epochs
  double threshold = 1e-4;  // plateau: least improvement, relative to the best number
  // plateau: larger numbers are better, as mode="max" of PyTorch. end_epoch() then takes such a
  // number, and fit() judges the first of TrainOptions::metrics on validation data.
  bool maximize = false;
};
std::string_view to_string(Schedule::Kind kind);
Result<Schedule::Kind> parse_schedule(std::string_view name);
// Returns the rate of tick `t`, counted from 0. Returns the rate before any drop for plateau, which
// depends on losses.
double learning_rate(const Schedule& schedule, double lr, int64_t t);

// Data-parallel training. Several ranks (processes or threads) train the same model with equal
// options. Their gradients are summed during the backward pass. If all ranks have batches of one
// size, the result equals that of one rank with all samples, up to rounding.
//
// - step() returns the loss over all ranks. A loss that is not finite on one rank fails the step on
//   all ranks.
// - The host must start all ranks with equal weights.
// - Running statistics of batch_norm are per rank. Save a checkpoint from one rank.
// - Evaluation is per rank. If it decides when fit() ends, all ranks must evaluate equal data.
struct AllReduce {
  int ranks = 1;
  // Sums `data` over all ranks in place: the gradient of parameter `name`, the loss ("loss"), or
  // several of them concatenated ("loss, fc.bias, fc.weight"). May return before the sum is
  // complete; the library keeps the memory and does not access it until wait() returns.
  //
  // Called in each batch as values become ready, in the same order on all ranks. One thread at a
  // time calls it, which may differ from the thread that called step(). If it fails, step() returns
  // its error and changes nothing. Must not throw.
  std::function<Status(std::string_view name, const Tensor& data)> begin = {};
  // Waits for all sums begun, including those of a failed step. Empty: begin() returns only when
  // its sum is complete.
  std::function<Status()> wait = {};
  // Values smaller than this are concatenated in the order in which they become ready. A sum begins
  // when this many bytes are ready, and at the end of the backward pass. 0: each value separately.
  int64_t bucket_bytes = 1 << 20;
};

struct TrainOptions {
  std::vector<Loss> losses = {Loss()};
  std::vector<Penalty> penalties = {};
  std::vector<Metric> metrics = {};
  Optimizer optimizer = {};
  std::vector<ParameterRule> rules = {};
  Schedule schedule = {};
  double clip_norm = 0;   // limit of the norm of all gradients, as clip_grad_norm_; 0: off
  double clip_value = 0;  // limit of each gradient element, after clip_norm; 0: off
  int accumulate = 1;     // batches per update
  // training: dropout is active, and batch_norm uses batch statistics and updates the running ones,
  // except in frozen layers. as_traced: as recorded in the model.
  enum class Mode : uint8_t { training, as_traced } mode = Mode::training;
  // The dtype of matrix products and convolutions: f32, bf16 or f16. Parameters, optimizer and all
  // other ops stay f32. f16 scales the loss, skips updates in which a gradient overflowed, and
  // requires accumulate == 1.
  DType compute = f32;
  // Quantization-aware training: forward passes and evaluate() use the weights that quantize() with
  // these options would make, and gradients pass through the rounding unchanged. The trained model
  // keeps its float weights; quantize() it with the same options. `progress` is not called. Weights
  // are rounded to the nearest level; options that need samples and other `rounding` are rejected.
  std::optional<QuantizeOptions> quantize = {};
  AllReduce all_reduce = {};  // default: a single rank
  // Resumes with the moments and counters in the model's file, if an optimizer of the same kind
  // wrote them.
  bool resume = true;
  // Device, threads, memory_limit, seed of dropout and shuffling, and other session options.
  SessionOptions session = {};
};

// -- The trainer ----------------------------------------------------------------------------------

// Training data. The first dim of each tensor counts samples. One tensor per input, and one per
// target in the order in which the losses name them. The memory is borrowed.
struct Dataset {
  std::vector<ConstTensor> inputs, targets;
};

struct Evaluation {
  double loss = 0;
  std::vector<double> metrics;  // in the order of TrainOptions::metrics
};

// Passed to FitOptions::on_progress after each batch and each epoch.
struct Progress {
  int64_t step = 0;   // batches since training began, from 1
  int64_t steps = 0;  // value of `step` when this fit() ends
  int64_t epoch = 0;  // from 1
  int64_t epochs = 0;
  double loss = 0;  // before the update; for an epoch, the mean
  double lr = 0;
  double ms = 0;                           // of the batch or epoch
  const Evaluation* validation = nullptr;  // at the end of an epoch; null without validation data
  bool is_best = false;                    // lowest loss so far, on validation data if given
  bool is_epoch = false;                   // true for the call at the end of an epoch
};

struct FitOptions {
  int64_t epochs = 1;
  // Samples per step. 0: each step uses all data as it is. The first dims may then differ, as for
  // the nodes and edges of a graph.
  int64_t batch = 32;
  bool shuffle = true;  // order depends on SessionOptions::seed and the epoch
  // If true, completes an interrupted call: `epochs` counts from its start, and the interrupted
  // epoch continues with its next batch. The data must have as many batches as before. Otherwise
  // the epochs are additional, and the rest of the interrupted epoch is skipped.
  bool finish = false;
  const Dataset* validation = nullptr;
  // Stops after this many consecutive epochs without a new best loss. 0: never.
  int64_t patience = 0;
  std::string best_path = "";  // where to save the model after each best epoch
  // Called after each batch and each epoch. Returning false ends the training in a state that can
  // be saved and resumed.
  std::function<bool(const Progress&)> on_progress = {};
  // Stops fit() with `cancelled`, from any thread. The current batch is either done or has not
  // changed anything, so the state can be saved and resumed.
  std::stop_token stop = {};
};

class Trainer {
 public:
  // Builds and compiles the graph of a step. The model is copied. Fails if a parameter cannot be
  // differentiated (naming all ops without a gradient), a pattern matches nothing, or an output
  // does not exist.
  static Result<Trainer> create(const Model& model, TrainOptions options);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  // Trains on one batch: forward, backward and, after `accumulate` batches, the update. Returns the
  // loss before the update. Allocates nothing once the batch size is planned.
  //
  // A loss that is not finite fails the step and names the first node that produced such a number.
  // Weights do not change, but accumulated gradients are dropped. A step stopped by `stop`, as in
  // Session::run(), changes nothing.
  Result<double> step(std::span<const ConstTensor> inputs, std::span<const ConstTensor> targets,
                      std::stop_token stop = {});
  // Forward and backward only, for hosts with their own optimizer. Adds the gradients of the batch
  // to the values session().value("train/sum/NAME"), NAME being an element of trained(), and
  // returns the loss. Requires TrainOptions::accumulate >= 2. On the CPU, the host may write to
  // these values and to parameters between calls.
  Result<double> backward(std::span<const ConstTensor> inputs, std::span<const ConstTensor> targets,
                          std::stop_token stop = {});
  // Trains for several epochs. The last batch of an epoch may be smaller; if the model has a fixed
  // batch size, it is skipped.
  Status fit(const Dataset& data, const FitOptions& options);
  // Returns loss and metrics with the current weights, in inference mode unless the mode is
  // as_traced. `batch` as in FitOptions.
  Result<Evaluation> evaluate(const Dataset& data, int64_t batch = 32, std::stop_token stop = {});

  // Ends an epoch of step() calls, for schedules that count epochs or use the loss (validation loss
  // if available; with Schedule::maximize, a number to maximize). fit() calls it itself.
  void end_epoch(double loss);

  // Sets the optimizer's rate, from which schedules then start. Rates of rules keep their ratio to
  // it, unless it was 0. The rate is saved. A trainer that resumes uses the saved rate if its
  // options have the same rate as the options of this trainer; otherwise it uses its own.
  void set_lr(double lr);
  double lr() const;        // of the last update, or of the next if there was none
  int64_t updates() const;  // since training began, including resumed training
  // trained(): names of the trained parameters. notes(): remarks, such as layers that training mode
  // could not change, skipped samples, or state that was not resumed.
  const std::vector<std::string>& trained() const;
  const std::vector<std::string>& notes() const;

  // Plans for these sizes. session().memory() is then exact before the first step.
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  // The session that runs steps: inputs, compiled graph, memory, profile, values. Its views are
  // invalid after the next step.
  const Session& session() const;
  // Returns a copy of the model in its original mode, with the current weights and running
  // statistics. The optimizer's state is included as buffers; training resumes from it bit by bit.
  Result<Model> model() const;
  Status save(const std::string& path) const;  // as model().save(path), without a copy
  // Returns a copy of the trained adapter (hg/adapter.h): as take_adapter(model()), without a copy
  // of the base, and with the optimizer's state.
  Result<Model> adapter() const;

  struct Body;  // lib/train/trainer.h

 private:
  explicit Trainer(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
