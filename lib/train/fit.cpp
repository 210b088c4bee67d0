// SPDX-License-Identifier: Apache-2.0
// Epochs over a data set: order, batches, rates, validation, early stopping.
#include <algorithm>
#include <numeric>

#include "lib/graph/border.h"
#include "lib/graph/clock.h"
#include "lib/graph/readable.h"
#include "lib/graph/split_mix.h"
#include "lib/train/trainer.h"

namespace hg {
namespace {

// Fisher and Yates 1938.
void shuffle(std::vector<int64_t>& order, uint64_t seed, uint64_t epoch) {
  uint64_t state = seed * kSplitMixStep + epoch;
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[split_mix(state) % i]);
}

template <class AnyTensor>
AnyTensor row_of(const AnyTensor& tensor, int64_t row) {
  AnyTensor out = tensor;
  out.shape.erase(0);
  out.strides.erase(0);
  out.data = tensor.template as<std::byte>() + row * tensor.strides[0] * size_of(tensor.dtype);
  return out;
}

}  // namespace

// -- Batches --------------------------------------------------------------------------------------

Status Batches::prepare(const Dataset& data, int64_t batch) {
  inputs_ = data.inputs.size();
  all_ = data.inputs;
  all_.insert(all_.end(), data.targets.begin(), data.targets.end());
  if (batch == 0) tensors_ = all_;
  for (const ConstTensor& tensor : all_) {
    if (batch == 0) break;
    Sizes shape = tensor.shape;
    shape[0] = batch;
    HG_TRY_ASSIGN(TensorData memory, TensorData::allocate(tensor.dtype, shape));
    tensors_.push_back(memory.tensor);
    memory_.push_back(std::move(memory));
  }
  return {};
}

void Batches::take(const std::vector<int64_t>& order, int64_t first, int64_t count) {
  for (size_t i = 0; i < memory_.size(); ++i) {
    Tensor to = memory_[i].tensor;
    to.shape[0] = count;
    tensors_[i] = to;
    if (order.empty() && all_[i].is_contiguous()) {
      tensors_[i].data = row_of(all_[i], first).data;
      continue;
    }
    for (int64_t k = 0; k < count; ++k)
      copy_elements(row_of(all_[i], order.empty() ? first + k : order[first + k]), row_of(to, k));
  }
}

namespace {

// Checks validation data now: a wrong tensor could otherwise fail after hours of training.
Status check_data(const Session& session, int input, const ConstTensor& tensor, bool is_whole) {
  const std::string_view name = session.input_name(input);
  const TensorType& type = session.input_type(input);
  HG_CHECK(is_whole || tensor.rank() > 0, "the first dim of data counts samples, but '", name,
           "' has no dims");
  bool fits = tensor.dtype == type.dtype && tensor.rank() == type.rank();
  for (int d = is_whole ? 0 : 1; fits && d < type.rank(); ++d)
    fits = !type.shape[d].is_constant() || type.shape[d].constant() == tensor.shape[d];
  HG_CHECK(fits, "input '", name, "' takes ", type, ", not data of ", tensor.dtype, tensor.shape);
  HG_CHECK(is_readable(tensor), "input '", name, "' is given ", unreadable_part(tensor));
  return {};
}

}  // namespace

Result<int64_t> count_samples(const Trainer::Body& body, const Dataset& data, int64_t batch) {
  HG_CHECK(static_cast<int>(data.inputs.size()) == body.first_target() &&
               data.targets.size() == body.step.targets.size(),
           "the data has ", int64_t(data.inputs.size()), " inputs and ",
           int64_t(data.targets.size()), " targets; the model takes ", body.first_target(), " and ",
           int64_t(body.step.targets.size()));
  int64_t samples = -1;
  int at = 0;
  for (const auto* list : {&data.inputs, &data.targets})
    for (const ConstTensor& tensor : *list) {
      HG_TRY(check_data(*body.session, at++, tensor, batch == 0));
      if (batch == 0) continue;
      if (samples < 0) samples = tensor.shape[0];
      HG_CHECK(tensor.shape[0] == samples, "one tensor of the data has ", samples,
               " samples, another ", tensor.shape[0]);
    }
  if (batch == 0) return 1;
  HG_CHECK(samples > 0, "there are no samples");
  return samples;
}

// -- fit ------------------------------------------------------------------------------------------

namespace {

class Fit {
 public:
  Fit(Trainer::Body& body, Trainer& trainer, const Dataset& data, const FitOptions& options)
      : b_(body), trainer_(trainer), data_(data), options_(options), c_(body.counters) {}

  Status run() {
    HG_TRY(prepare());
    while (c_.epochs < last_epoch_ && !lost_patience()) {
      const auto start = Clock::now();
      bool stopped = false;
      HG_TRY(epoch(stopped));
      if (stopped) break;
      HG_TRY(end_epoch(ms_since(start), stopped));
      if (stopped) break;
    }
    b_.schedule_total = 0;
    return {};
  }

 private:
  Status prepare() {
    HG_CHECK(options_.epochs > 0, "epochs is ", options_.epochs);
    HG_CHECK(options_.patience >= 0, "patience is ", options_.patience);
    HG_CHECK(options_.batch >= 0, "batch is ", options_.batch);
    HG_CHECK(!maximizes() || (options_.validation != nullptr && !b_.options.metrics.empty()),
             "a plateau schedule that maximizes judges the first metric on validation data; there ",
             options_.validation == nullptr ? "are no validation data" : "is no metric");
    const bool whole = options_.batch == 0;
    HG_TRY_ASSIGN(samples_, count_samples(b_, data_, options_.batch));
    if (options_.validation != nullptr)
      HG_TRY(count_samples(b_, *options_.validation, options_.batch).status());
    batch_ = whole ? 1 : std::min(options_.batch, samples_);
    const auto& inputs = b_.base.graph().inputs();
    if (!inputs.empty() && !whole) {
      const TensorType& type = b_.base.graph().value_info(inputs[0]).type;
      if (type.rank() > 0 && type.shape[0].is_constant()) fixed_ = type.shape[0].constant();
    }
    if (fixed_ > 0) {
      HG_CHECK(samples_ >= fixed_, "the model takes batches of ", fixed_, " samples, there are ",
               samples_);
      HG_CHECK(options_.batch == fixed_ || samples_ < options_.batch, "the model takes batches of ",
               fixed_, " samples, batch is ", options_.batch,
               "; convert it with a symbol for the first size");
      batch_ = fixed_;
      if (samples_ % fixed_ != 0)
        b_.step.notes.push_back(str_cat("each epoch leaves out ", samples_ % fixed_, " of ",
                                        samples_, " samples: the model takes batches of ", fixed_,
                                        " only"));
      samples_ -= samples_ % fixed_;
    }
    batches_ = (samples_ + batch_ - 1) / batch_;
    const double done = c_.epochs;
    const auto batches = static_cast<double>(batches_);
    if (options_.finish) {
      HG_CHECK(
          c_.batch_in_epoch == 0 || c_.batches_per_epoch == 0 || c_.batches_per_epoch == batches,
          "the interrupted epoch has ", c_.batches_per_epoch, " batches, but these data have ",
          batches_, "; finish with the same data and the same batch, or without `finish`");
    } else {
      c_.begin_epoch();
      if (c_.gathered != 0) HG_TRY(b_.drop_gradients());
      c_.first_epoch = done;
      c_.first_update = static_cast<double>(b_.updates);
      c_.epochs_since_best = 0;
    }
    c_.batches_per_epoch = batches;
    last_epoch_ = c_.first_epoch + static_cast<double>(options_.epochs);
    const int64_t each = b_.options.accumulate;
    const int64_t updates = (batches_ + each - 1) / each;
    b_.schedule_total = b_.options.schedule.by_epoch ? options_.epochs : options_.epochs * updates;
    order_.resize(options_.shuffle && batches_ > 1 ? static_cast<size_t>(samples_) : 0);
    return rows_.prepare(data_, whole ? 0 : batch_);
  }

  Status epoch(bool& stopped) {
    if (!order_.empty()) {
      if (fixed_ > 0) order_.resize(data_.inputs[0].shape[0]);
      std::iota(order_.begin(), order_.end(), 0);
      shuffle(order_, b_.options.session.seed, static_cast<uint64_t>(c_.epochs));
    }
    const int64_t each = b_.options.accumulate;
    for (auto i = static_cast<int64_t>(c_.batch_in_epoch); i < batches_ && !stopped; ++i) {
      const auto start = Clock::now();
      const int64_t first = i * batch_, count = std::min(batch_, samples_ - first);
      // Weights the batches of one update by their samples.
      const int64_t group = i / each * each * batch_;
      const int64_t group_end = std::min(group + each * batch_, samples_);
      const bool go = first + count == group_end;
      rows_.take(order_, first, count);
      HG_TRY(b_.set_rates());
      const double part = static_cast<double>(count) / static_cast<double>(group_end - group);
      HG_TRY_ASSIGN(const double loss,
                    b_.run_batch(rows_.inputs(), rows_.targets(), go, part, options_.stop));
      c_.batch_in_epoch = static_cast<double>(i + 1);
      c_.loss_sum += loss * static_cast<double>(count);
      c_.samples += static_cast<double>(count);
      Progress progress = describe(loss, ms_since(start));
      stopped = !report(progress);
    }
    // The rest of a stopped epoch runs when training is resumed.
    if (stopped && c_.batch_in_epoch >= static_cast<double>(batches_)) {
      stopped = false;
      stop_after_epoch_ = true;
    }
    return {};
  }

  Progress describe(double loss, double ms) const {
    Progress p;
    p.step = static_cast<int64_t>(c_.batches);
    const double left = (last_epoch_ - c_.epochs) * static_cast<double>(batches_);
    p.steps = p.step + static_cast<int64_t>(left - c_.batch_in_epoch);
    p.epoch = static_cast<int64_t>(c_.epochs) + 1;
    p.epochs = static_cast<int64_t>(last_epoch_);
    p.loss = loss;
    p.lr = trainer_.lr();
    p.ms = ms;
    return p;
  }

  bool report(const Progress& progress) const {
    return !options_.on_progress || options_.on_progress(progress);
  }

  Status end_epoch(double ms, bool& stopped) {
    Progress progress = describe(c_.loss_sum / c_.samples, ms);
    progress.is_epoch = true;
    Evaluation validation;
    double judged = progress.loss;
    if (options_.validation != nullptr) {
      HG_TRY_ASSIGN(validation, b_.evaluate(*options_.validation, options_.batch == 0 ? 0 : batch_,
                                            options_.stop));
      progress.validation = &validation;
      judged = validation.loss;
    }
    progress.is_best = judged < c_.best_loss;
    trainer_.end_epoch(maximizes() ? validation.metrics[0] : judged);
    if (progress.is_best) {
      c_.best_loss = judged;
      c_.epochs_since_best = 0;
      if (!options_.best_path.empty()) HG_TRY(trainer_.save(options_.best_path));
    } else {
      c_.epochs_since_best += 1;
    }
    stopped = !report(progress) || stop_after_epoch_;
    return {};
  }

  bool maximizes() const {
    const Schedule& s = b_.options.schedule;
    return s.kind == Schedule::Kind::plateau && s.maximize;
  }

  bool lost_patience() const {
    return options_.patience > 0 && c_.epochs_since_best >= static_cast<double>(options_.patience);
  }

  Trainer::Body& b_;
  Trainer& trainer_;
  const Dataset& data_;
  const FitOptions& options_;
  Counters& c_;
  Batches rows_;
  std::vector<int64_t> order_;
  int64_t samples_ = 0, batch_ = 0, batches_ = 0, fixed_ = 0;
  double last_epoch_ = 0;
  bool stop_after_epoch_ = false;
};

}  // namespace

Status Trainer::fit(const Dataset& data, const FitOptions& options) {
  return or_no_memory([&]() -> Status { return Fit(*body_, *this, data, options).run(); });
}

}  // namespace hg
