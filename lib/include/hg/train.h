// SPDX-License-Identifier: Apache-2.0
// Training: gradients as graphs, losses, optimizers, schedules, and the Trainer, which runs
// forward, backward and update as one planned graph.
//
//   hg::TrainOptions options;
//   options.losses = {{.kind = hg::Loss::Kind::cross_entropy}};
//   options.optimizer = hg::adamw(1e-3);
//   HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(model, options));
//   HG_TRY(trainer.fit({{images}, {labels}}, {.epochs = 10, .batch = 32}));
//   HG_TRY(trainer.save("trained.hgm"));
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
#include "hg/model.h"
#include "hg/session.h"
#include "hg/words.h"

namespace hg {

// -- Gradients ------------------------------------------------------------------------------------

// The vector-Jacobian products sum_k seeds[k] * d ys[k] / d wrt[i], one for each of `wrt`, in its
// dtype and shape; zeros where nothing depends on it. `wrt` may hold any float values: inputs,
// parameters, intermediate results. A seed has the type of its y; an empty Value, or no seeds at
// all, stand for ones. On ops without a gradient between `wrt` and `ys` the graph fails with the
// names of all of them, and the result is empty. They are ordinary nodes of the same graph:
// printed, optimised, planned and differentiated again like all others.
std::vector<Value> gradients(std::span<const Value> ys, std::span<const Value> wrt,
                             std::span<const Value> seeds = {});

inline std::vector<Value> gradients(const Value& y, std::initializer_list<Value> wrt,
                                    const Value& seed = {}) {
  return gradients(std::span(&y, 1), std::span(wrt.begin(), wrt.size()), std::span(&seed, 1));
}

// d y[i] / d x[j] in the shape of y followed by the shape of x. One walk back for each element of
// y, whose number must be known.
Value jacobian(const Value& y, const Value& x);
// How the ys move where the values of `wrt` move along `directions`: sum over i of d ys[k] / d
// wrt[i] directions[i], in the type of ys[k]. directions[i] has the type of wrt[i].
std::vector<Value> jacobian_vector_product(std::span<const Value> ys, std::span<const Value> wrt,
                                           std::span<const Value> directions);
// The product of the second derivatives of `y`, a single number, by the directions: sum over j of
// d2 y / (d wrt[i] d wrt[j]) directions[j], for each i. directions[j] has the type of wrt[j].
std::vector<Value> hessian_vector_product(const Value& y, std::span<const Value> wrt,
                                          std::span<const Value> directions);

// -- What is minimised ----------------------------------------------------------------------------

// Patterns name parameters: '*' stands for any characters and '?' for one. A layer without
// parameters of its own, such as dropout, goes by its module path.

// One term of the sum that training minimises. hg/ops/loss.h has the formulas.
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
    output,  // the model's output is the loss already, as an application may build it
  };
  Kind kind = Kind::mse;
  std::string output = "";        // of the model; empty: the first
  std::string target = "target";  // the input that is added for it; two losses may share one
  // Of the target. Empty: the output's, with f32 for 16 bits, and for cross_entropy and nll i64
  // class indices, with the classes along dim 1 of the output.
  std::optional<TensorType> target_type = {};
  double weight = 1;
  Reduction reduction = Reduction::mean;  // or sum
  double beta = 1;                        // smooth_l1's beta, huber's delta
  // Of cross_entropy and nll. class_dim is the output's dim of classes: 1, or -1 when the target's
  // shape is the output's without its last dim; empty: whichever of the two the target fits.
  std::optional<int> class_dim = {};
  double label_smoothing = 0;
  int64_t ignore_index = -100;
  std::vector<double> class_weights = {};
  bool log_target = false;  // of kl_div
};

std::string_view name_of(Loss::Kind kind);
Result<Loss::Kind> loss_named(std::string_view name);

// Adds l1 * sum |w| + l2 * sum w^2 to the loss, for the parameters that match.
struct Penalty {
  std::string pattern = "*";
  double l1 = 0, l2 = 0;
};

struct Metric {
  enum class Kind : uint8_t {
    accuracy,    // share of equal classes
    mean_error,  // mean |output - target|
  };
  Kind kind = Kind::accuracy;
  std::string output = "";        // as of Loss
  std::string target = "target";  // of one of the losses
};
std::string_view name_of(Metric::Kind kind);
Result<Metric::Kind> metric_named(std::string_view name);

// -- How it is minimised --------------------------------------------------------------------------

// torch.optim's optimizers and their defaults. Every one takes its steps in the dtype of the
// parameter, as torch's does; losses and rates are f64 where a trained parameter or the output of a
// loss is, else f32.
struct Optimizer {
  enum class Kind : uint8_t { sgd, adam, adamw, rmsprop };
  Kind kind = Kind::sgd;
  double lr = 1e-3;
  double weight_decay = 0;            // adamw: decoupled from the gradient
  double momentum = 0;                // sgd and rmsprop
  double dampening = 0;               // sgd
  bool nesterov = false;              // sgd
  double beta1 = 0.9, beta2 = 0.999;  // adam and adamw
  bool amsgrad = false;
  double alpha = 0.99;    // rmsprop
  bool centered = false;  // rmsprop
  double eps = 1e-8;
  bool maximize = false;
};
std::string_view name_of(Optimizer::Kind kind);
Result<Optimizer::Kind> optimizer_named(std::string_view name);
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

// What holds for the parameters that match, where several do: the last that says it.
struct ParameterRule {
  std::string pattern;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
  // Neither trained nor differentiated. batch_norm and dropout of a frozen layer run as in
  // inference. Parameters that no such rule matches are trained unless the model says that they do
  // not require a gradient (State::requires_grad), which leaves the mode of their layer alone:
  // {.pattern = "*", .frozen = false} trains all.
  std::optional<bool> frozen = {};
};

// torch.optim.lr_scheduler's schedules; learning_rate() is their formula. A tick is an update, or
// an epoch where by_epoch. `warmup` ticks before them raise the rate linearly from lr / (warmup +
// 1).
struct Schedule {
  enum class Kind : uint8_t { constant, step, exponential, linear, cosine, one_cycle, plateau };
  Kind kind = Kind::constant;
  bool by_epoch = false;  // plateau always goes by epochs
  int64_t warmup = 0;
  // Ticks of linear, cosine, one_cycle, after which the last rate stays (torch's cosine would rise
  // again); 0: all of one fit().
  int64_t total = 0;
  int64_t period = 30;              // step: ticks between two drops
  double gamma = 0.1;               // step and exponential: the factor of a drop; plateau: too
  double min_lr = 0;                // cosine and plateau
  double start = 1.0 / 3, end = 1;  // linear: factors
  double rise = 0.3, div_factor = 25, final_div_factor = 1e4;  // one_cycle, whose top is lr
  int64_t patience = 10, cooldown = 0;                         // plateau: in epochs
  double threshold = 1e-4;  // plateau: what counts as better, as a part of the best loss
};
std::string_view name_of(Schedule::Kind kind);
Result<Schedule::Kind> schedule_named(std::string_view name);
// The rate of tick `t`, counted from 0, of every kind but plateau, which depends on losses and
// stays at `lr` here.
double learning_rate(const Schedule& schedule, double lr, int64_t t);

// Data-parallel training: several ranks, in processes or threads, each with a trainer of the same
// model and options, whose gradients are summed while the backward pass goes on. With batches of
// one size on all ranks they train as one rank does with all of their samples, to rounding:
// step() returns the loss of them all, and a loss that is not finite on one rank stops all. The
// ranks begin with equal weights, which is the host's to see to. Running statistics of batch_norm
// are each rank's own; a checkpoint is what one of them saves. Evaluation is each rank's own, too:
// where it decides when fit() ends, it must be of equal data.
struct AllReduce {
  int ranks = 1;
  // Sums `data` over all ranks, in place: the gradient of the parameter `name`, the loss ("loss"),
  // or several of them one behind the other ("loss, fc.bias, fc.weight"). It may return before that
  // is done: the memory then stays as it is until wait() returned. Called in each batch as soon as
  // a value is ready, in the same order on all ranks, by one thread at a time, which may be another
  // one than the caller's of step(). An error ends the step, which has then changed nothing, and is
  // what that returns. Throws nothing.
  std::function<Status(std::string_view name, const Tensor& data)> begin = {};
  // Returns when all begun sums are done, those of a step that fails, too; empty: begin() waits.
  std::function<Status()> wait = {};
  // What is smaller is summed together, in the order in which it becomes ready: a sum begins when
  // so many bytes are there, and at the end of the backward pass. 0: each on its own.
  int64_t bucket_bytes = 1 << 20;
};

struct TrainOptions {
  std::vector<Loss> losses = {Loss()};
  std::vector<Penalty> penalties = {};
  std::vector<Metric> metrics = {};
  Optimizer optimizer = {};
  std::vector<ParameterRule> rules = {};
  Schedule schedule = {};
  double clip_norm = 0;   // of all gradients together, as clip_grad_norm_; 0: none
  double clip_value = 0;  // of each element, after clip_norm; 0: none
  int accumulate = 1;     // batches whose gradients make one update
  // training: dropout drops and batch_norm takes the statistics of the batch and moves the running
  // ones, whatever the trace says, but in frozen layers. as_traced: as the model has them.
  enum class Mode : uint8_t { training, as_traced } mode = Mode::training;
  // Of matrix products and convolutions: f32, bf16 or f16, with parameters, optimizer and
  // everything else in f32. f16 scales the loss, and skips the updates in which a gradient
  // overflowed.
  DType compute = f32;
  AllReduce all_reduce = {};  // without a function: no other ranks
  // Continue with the moments and counters that the model's file has of the same kind of optimizer.
  bool resume = true;
  // Device, threads, memory_limit, seed of dropout and of shuffling, ...
  SessionOptions session = {};
};

// -- The trainer ----------------------------------------------------------------------------------

// Tensors whose first dims count samples: one for each input, and one for each target in the order
// in which the losses name them. Borrowed.
struct Dataset {
  std::vector<ConstTensor> inputs, targets;
};

struct Evaluation {
  double loss = 0;
  std::vector<double> metrics;  // in the order of TrainOptions::metrics
};

// What fit() tells after each batch and each epoch.
struct Progress {
  int64_t step = 0;   // batches since training began, from 1
  int64_t steps = 0;  // at which this fit() ends
  int64_t epoch = 0;  // from 1
  int64_t epochs = 0;
  double loss = 0;  // of the batch before its update; of the epoch: the mean
  double lr = 0;
  double ms = 0;                           // of the batch, or of the epoch
  const Evaluation* validation = nullptr;  // at the end of an epoch, where there is one
  bool is_best = false;                    // the lowest loss so far, on validation data if given
  bool is_epoch = false;
};

struct FitOptions {
  int64_t epochs = 1;
  // Samples of one step. 0: each step takes all data as it is, whose first dims may then differ, as
  // those of the nodes and the edges of a graph do.
  int64_t batch = 32;
  bool shuffle = true;  // by SessionOptions::seed and the epoch's number
  // `epochs` counts from where the training of a resumed file began, so that the call that was
  // interrupted is finished; otherwise they are trained in addition.
  bool finish = false;
  const Dataset* validation = nullptr;
  // Ends when so many epochs in a row brought no loss below the best; 0: never.
  int64_t patience = 0;
  std::string best_path = "";  // where the model goes whenever an epoch is the best
  // Called after each batch and each epoch; false ends the training, in a state that can be saved
  // and resumed.
  std::function<bool(const Progress&)> on_progress = {};
  // Asked to stop, by any thread, fit() ends as Session::run() does, with `cancelled`: the batch at
  // hand was not begun or is done, and what there is can be saved and resumed.
  std::stop_token stop = {};
};

class Trainer {
 public:
  // Builds and compiles the graph of a step. Fails when a parameter cannot be differentiated (with
  // all ops in the way), a pattern matches nothing, or an output is missing. The model is copied.
  static Result<Trainer> create(const Model& model, TrainOptions options);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  // One batch: forward, backward and, unless gradients are still being accumulated, the update.
  // Returns the loss before it. Allocates nothing once the batch's size is planned. A loss that is
  // not finite fails with the first node that produced such a number, and changes nothing, but that
  // gradients that wait for an update are dropped. `stop`, as of Session::run(), changes nothing.
  Result<double> step(std::span<const ConstTensor> inputs, std::span<const ConstTensor> targets,
                      std::stop_token stop = {});
  // Forward and backward alone, for a host with an optimizer of its own: adds the gradients of one
  // batch to what session().value("train/sum/NAME") shows for each of trained(), and returns the
  // loss. Needs TrainOptions::accumulate of 2 or more. On the CPU the host may write to those
  // values, and to parameters, between calls.
  Result<double> backward(std::span<const ConstTensor> inputs, std::span<const ConstTensor> targets,
                          std::stop_token stop = {});
  // Epochs over a data set. The last batch of an epoch may be smaller, where the model's first dim
  // is a symbol; otherwise it is left out.
  Status fit(const Dataset& data, const FitOptions& options);
  // Loss and metrics in inference mode, with the weights as they are now; `batch` as of FitOptions.
  Result<Evaluation> evaluate(const Dataset& data, int64_t batch = 32, std::stop_token stop = {});

  // For a host that feeds batches by step(): an epoch has ended, of this loss, which is that of
  // validation data where there are such. Schedules by epoch and plateau go on; fit() does it
  // itself.
  void end_epoch(double loss);

  // Sets the optimizer's rate; those of rules keep their proportion to it, unless it was 0.
  // Schedules go on from it. It is saved: a trainer of that file goes on with it where its options
  // have the rate that the options of this one had, and begins with its own where they have
  // another.
  void set_lr(double lr);
  double lr() const;        // of the last update, or the first to come
  int64_t updates() const;  // since training began, in earlier files too
  // Parameters that are trained, and what one should know: layers that training mode could not
  // change, samples that are left out, state that was not resumed.
  const std::vector<std::string>& trained() const;
  const std::vector<std::string>& notes() const;

  // Plans for these sizes; then session().memory() is exact before the first step.
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  // The step: inputs, compiled graph, memory, profile, and views of values, which end with it.
  const Session& session() const;
  // The model as given, in its own mode, with the present weights and running statistics, and with
  // the optimizer's state as further buffers, from which training resumes bit by bit.
  Result<Model> model() const;
  Status save(const std::string& path) const;  // of model(), without a copy

  struct Body;  // lib/train/trainer.h

 private:
  explicit Trainer(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
