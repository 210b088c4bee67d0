// SPDX-License-Identifier: Apache-2.0
// The data of a Trainer. Its counters are saved with the model, so that training resumes exactly.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "lib/train/all_reduce.h"
#include "lib/train/step_graph.h"

namespace hg {

// The state of training besides weights and moments. Saved as doubles in this order; append new
// members.
struct Counters {
  double batches = 0;                        // batches run so far
  double epochs = 0;                         // completed epochs
  double batch_in_epoch = 0;                 // batches done in the current epoch
  double loss_sum = 0, samples = 0;          // of the current epoch
  double gathered = 0;                       // batches whose gradients wait for the next update
  double first_epoch = 0, first_update = 0;  // at the start of fit(); schedules count from there
  double plateau_best = std::numeric_limits<double>::infinity();
  double plateau_bad = 0, plateau_cooldown = 0, plateau_drops = 0;
  double best_loss = std::numeric_limits<double>::infinity();
  double epochs_since_best = 0;
  // The rate that set_lr() set, if any, and the options' rate that it replaces.
  double set_lr = std::numeric_limits<double>::quiet_NaN(), options_lr = 0;
  double batches_per_epoch = 0;  // of the current epoch; 0: not known

  void begin_epoch() { batch_in_epoch = loss_sum = samples = 0; }
};
inline constexpr int kCounterCount = sizeof(Counters) / sizeof(double);

// An element of type f32 or f64, which StepGraph::dtype selects.
inline double number_in(const Tensor& x) {
  return x.dtype == f64 ? *x.as<double>() : *x.as<float>();
}
inline void set_number(const Tensor& x, int64_t at, double number) {
  if (x.dtype == f64)
    x.as<double>()[at] = number;
  else
    x.as<float>()[at] = static_cast<float>(number);
}

struct Trainer::Body {
  Model base;  // the given model, without training state
  TrainOptions options;
  std::unique_ptr<Reducer> reducer;  // with several ranks
  StepGraph step;                    // without its graph, which the session owns
  std::unique_ptr<Session> session;
  // The states of base, in order, then those added by training, as of fetch_states().
  std::vector<Tensor> states;
  std::vector<std::pair<std::string, Tensor>> training_states;
  Counters counters;
  int64_t updates = 0;        // since training began
  double lr_factor = 1;       // factor of all rates, set by set_lr()
  std::vector<double> rates;  // of the next update
  // The contents of the inputs train/lr, train/go and train/weight.
  TensorData shown_rates, shown_weight;
  bool go = true;
  int64_t schedule_total = 0;  // ticks of the current fit()

  int first_target() const { return static_cast<int>(base.graph().inputs().size()); }
  Status fetch_states();
  // Runs one batch. `go`: whether the update follows; `weight`: the batch's share of the gradient.
  Result<double> run_batch(std::span<const ConstTensor> inputs,
                           std::span<const ConstTensor> targets, bool go, double weight,
                           std::stop_token stop);
  // Sets the rates of the next update.
  Status set_rates();
  void after_epoch(double loss);  // the plateau schedule
  Status drop_gradients();        // gathered for the next update
  // The model with the current weights, borrowed from the session. Valid until its next run.
  Result<Graph> with_present_weights(const Graph& graph);
  Status diagnose(std::span<const ConstTensor> inputs, std::span<const ConstTensor> targets,
                  double loss);
  // Explains a failed run if a target class does not exist; otherwise returns its error.
  Status explain(Status failed, std::span<const ConstTensor> targets) const;
  Result<Evaluation> evaluate(const Dataset& data, int64_t batch, std::stop_token stop);
  Result<Model> snapshot();  // borrowed
};

// Checks that each input and target has a tensor, and that all have the same first dim. With a
// batch of 0, all data are one sample.
Result<int64_t> count_samples(const Trainer::Body& body, const Dataset& data, int64_t batch);

// Batches of a data set: rows in an order, copied unless they are a slice. With a batch of 0, the
// data as they are.
class Batches {
 public:
  Status prepare(const Dataset& data, int64_t batch);
  // Rows order[first .. first + count), or first .. first + count if the order is empty.
  void take(const std::vector<int64_t>& order, int64_t first, int64_t count);
  std::span<const ConstTensor> inputs() const { return {tensors_.data(), inputs_}; }
  std::span<const ConstTensor> targets() const {
    return {tensors_.data() + inputs_, tensors_.size() - inputs_};
  }

 private:
  std::vector<ConstTensor> all_, tensors_;
  std::vector<TensorData> memory_;  // empty if the data are used in place
  size_t inputs_ = 0;
};

}  // namespace hg
