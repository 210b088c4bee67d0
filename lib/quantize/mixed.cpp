// SPDX-License-Identifier: Apache-2.0
// Errors of single weights are measured. As errors of several weights add about as squares do, the
// steps to fewer bits are sorted by squared error per saved byte. Models along these steps are
// measured, and bisection finds where the error exceeds the limit. Then some later steps are tried.
#include "lib/quantize/mixed.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "lib/graph/element.h"
#include "lib/quantize/model_error.h"

namespace hg {
namespace {

constexpr double kLargestHalf = 65504;
constexpr int kEvenSteps = 8;  // measured for the picture, beside those of the bisection

// The weight in f16, unless it is not larger or some number is.
Result<std::optional<Rounded>> as_halves(const Tensor& weight) {
  if (weight.dtype != f32 && weight.dtype != f64) return std::optional<Rounded>();
  Rounded out;
  out.bits = 16;
  HG_TRY_ASSIGN(out.levels, TensorData::allocate(f16, weight.shape));
  double wrong = 0, all = 0;
  for (int64_t i = 0; i < weight.count(); ++i) {
    const double x = element(weight, i);
    if (!(std::abs(x) <= kLargestHalf)) return std::optional<Rounded>();
    const Half half(static_cast<float>(x));
    out.levels.tensor.as<Half>()[i] = half;
    const double off = static_cast<double>(static_cast<float>(half)) - x;
    wrong += off * off;
    all += x * x;
  }
  out.error = all == 0 ? 0 : std::sqrt(wrong / all);
  return std::optional(std::move(out));
}

constexpr int kTries = 16;  // of later steps

// A weight with fewer bits, and the model's errors if it alone has them.
struct Fewer {
  Choice choice;
  int64_t bytes = 0;
  ModelError::Errors errors = {};
};

// From one number of bits of a weight to a smaller one.
struct Step {
  size_t weight = 0;
  int to = 0;  // an index of its Fewer
  double cost = 0;
};

class Mixer {
 public:
  Mixer(const Model& model, Samples samples, const QuantizeOptions& options,
        const SessionOptions& session, ModelError error)
      : model_(model),
        samples_(samples),
        options_(options),
        session_(session),
        error_(std::move(error)) {}

  Result<Quantized> run() {
    HG_TRY(round_all());
    HG_TRY(measure_weights());
    sort_steps();
    Mix mix(fewer_.size(), -1);
    mixes_.push_back({bytes_of(mix), 0});  // the float model itself
    HG_TRY_ASSIGN(const int64_t taken, find_steps());
    mix = mix_after(taken);
    double error = errors_.at(taken);
    HG_TRY(try_later_steps(taken, mix, error));
    HG_TRY_ASSIGN(Quantized out, build(mix));
    out.error = error;
    std::stable_sort(mixes_.begin(), mixes_.end(),
                     [](const MeasuredMix& a, const MeasuredMix& b) { return a.bytes < b.bytes; });
    out.mixes = std::move(mixes_);
    return out;
  }

 private:
  // Per weight, the index of its Fewer, or -1.
  using Mix = std::vector<int>;

  Status round_all() {
    Graph graph = copy_with_bodies(model_.graph());
    Graph* const graphs[] = {&graph};
    HG_TRY_ASSIGN(const std::vector<Weight> weights, find_weights(graphs, options_));
    QuantizeOptions quiet = options_;
    quiet.progress = {};
    const int bits[] = {8, 4};
    HG_TRY_ASSIGN(std::vector<std::vector<Choice>> choices,
                  round_by_samples(model_, graph, weights, bits, samples_, quiet, session_));
    for (size_t i = 0; i < weights.size(); ++i) {
      const Tensor& tensor = weights[i].data.tensor;
      names_.push_back({.name = weights[i].name,
                        .module_path = weights[i].module_path,
                        .elements = tensor.count(),
                        .bits = static_cast<int>(8 * size_of(tensor.dtype)),
                        .bytes_before = tensor.bytes(),
                        .bytes = tensor.bytes()});
      std::vector<Fewer>& fewer = fewer_.emplace_back();
      int64_t bytes = tensor.bytes();
      const auto add = [&](Choice choice) {
        const int64_t needed = choice.rounded.bytes();
        if (needed < bytes) fewer.push_back({std::move(choice), needed, 0});
        bytes = std::min(bytes, needed);
      };
      HG_TRY_ASSIGN(std::optional<Rounded> halves, as_halves(tensor));
      if (halves) add({*std::move(halves), {}, {}});
      for (Choice& choice : choices[i]) add(std::move(choice));
      all_ += static_cast<int64_t>(fewer.size());
    }
    return {};
  }

  Status measure_weights() {
    Mix mix(fewer_.size(), -1);
    for (size_t i = 0; i < fewer_.size(); ++i) {
      for (size_t k = 0; k < fewer_[i].size(); ++k) {
        mix[i] = static_cast<int>(k);
        HG_TRY_ASSIGN(fewer_[i][k].errors, measure(mix));
      }
      mix[i] = -1;
      std::erase_if(fewer_[i],
                    [](const Fewer& fewer) { return !std::isfinite(fewer.errors.outputs); });
    }
    return {};
  }

  // The steps of a weight go to the bits whose squared error per saved byte is least, so later
  // steps cost at least as much.
  static double square_of(const Fewer& fewer) {
    return fewer.errors.outputs * fewer.errors.outputs;
  }
  void sort_steps() {
    for (size_t i = 0; i < fewer_.size(); ++i) {
      double square = 0, least = 0;
      int64_t bytes = names_[i].bytes;
      for (int at = -1; at + 1 < static_cast<int>(fewer_[i].size());) {
        Step best{i, -1, 0};
        for (int to = at + 1; to < static_cast<int>(fewer_[i].size()); ++to) {
          const Fewer& fewer = fewer_[i][static_cast<size_t>(to)];
          const double cost = std::max(
              (square_of(fewer) - square) / static_cast<double>(bytes - fewer.bytes), least);
          if (best.to < 0 || cost <= best.cost) best = {i, to, cost};
        }
        const Fewer& fewer = fewer_[i][static_cast<size_t>(best.to)];
        at = best.to;
        square = square_of(fewer);
        bytes = fewer.bytes;
        least = best.cost;
        steps_.push_back(best);
      }
    }
    std::stable_sort(steps_.begin(), steps_.end(),
                     [](const Step& a, const Step& b) { return a.cost < b.cost; });
  }

  // How many steps the result takes.
  Result<int64_t> find_steps() {
    const auto count = static_cast<int64_t>(steps_.size());
    errors_[0] = 0;
    int64_t low = 0, high = count + 1;
    for (int64_t i = 1; i <= kEvenSteps; ++i) {
      const int64_t at = count * i / kEvenSteps;
      HG_TRY_ASSIGN(const double error, error_after(at));
      if (error <= *options_.max_error) low = at;
    }
    for (const auto& [at, error] : errors_)
      if (at > low) high = std::min(high, at);
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      HG_TRY_ASSIGN(const double error, error_after(middle));
      (error <= *options_.max_error ? low : high) = middle;
    }
    return low;
  }

  Result<double> error_after(int64_t count) {
    const auto found = errors_.find(count);
    if (found != errors_.end()) return found->second;
    HG_TRY_ASSIGN(const double error, measure_mix(mix_after(count)));
    errors_[count] = error;
    return error;
  }

  // Takes later steps of weights that still allow them.
  Status try_later_steps(int64_t taken, Mix& mix, double& error) {
    std::vector<bool> is_done(mix.size(), false);
    int tries = 0;
    for (size_t k = static_cast<size_t>(taken); k < steps_.size() && tries < kTries; ++k) {
      const Step& step = steps_[k];
      if (is_done[step.weight]) continue;
      if (tries++ == 0) {  // exceeds the limit, as the bisection found
        is_done[step.weight] = true;
        continue;
      }
      Mix tried = mix;
      tried[step.weight] = step.to;
      HG_TRY_ASSIGN(const double now, measure_mix(tried));
      if (now <= *options_.max_error) {
        mix = std::move(tried);
        error = now;
      } else {
        is_done[step.weight] = true;
      }
    }
    return {};
  }

  // Measures a mix of the picture.
  Result<double> measure_mix(const Mix& mix) {
    HG_TRY_ASSIGN(const ModelError::Errors errors, measure(mix));
    mixes_.push_back({bytes_of(mix), errors.limited});
    return errors.limited;
  }

  Mix mix_after(int64_t count) const {
    Mix mix(fewer_.size(), -1);
    for (int64_t k = 0; k < count; ++k) {
      const Step& step = steps_[static_cast<size_t>(k)];
      mix[step.weight] = step.to;
    }
    return mix;
  }

  int64_t bytes_of(const Mix& mix) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < mix.size(); ++i)
      bytes += mix[i] < 0 ? names_[i].bytes : fewer_[i][static_cast<size_t>(mix[i])].bytes;
    return bytes;
  }

  Result<ModelError::Errors> measure(const Mix& mix) {
    HG_TRY_ASSIGN(const Quantized made, build(mix));
    HG_TRY_ASSIGN(const ModelError::Errors error, error_.measure(made.model));
    ++done_;
    if (options_.progress) options_.progress(done_, std::max(all_ + kEvenSteps + kTries, done_));
    return error;
  }

  Result<Quantized> build(const Mix& mix) const {
    Graph graph = copy_with_bodies(model_.graph());
    Graph* const graphs[] = {&graph};
    HG_TRY_ASSIGN(const std::vector<Weight> weights, find_weights(graphs, options_));
    Model::Info info = model_.info();
    const auto round = [&](size_t i) -> Result<std::optional<Rounded>> {
      if (mix[i] < 0) return std::optional<Rounded>();
      return std::optional(fewer_[i][static_cast<size_t>(mix[i])].choice.rounded);
    };
    HG_TRY_ASSIGN(std::vector<QuantizedWeight> made, replace_weights(graphs, weights, round, info));
    Quantized out;
    out.weights = names_;
    size_t next = 0;
    for (size_t i = 0; i < mix.size(); ++i) {
      if (mix[i] < 0) continue;
      const Fewer& fewer = fewer_[i][static_cast<size_t>(mix[i])];
      QuantizedWeight& weight = out.weights[i] = std::move(made[next++]);
      weight.nearest_output_error = fewer.choice.nearest_output_error;
      weight.output_error = fewer.choice.output_error;
      weight.model_error = fewer.errors.limited;
    }
    HG_TRY_ASSIGN(out.model, Model::from_graph(std::move(graph)));
    out.model.set_info(std::move(info));
    return out;
  }

  const Model& model_;
  Samples samples_;
  const QuantizeOptions& options_;
  const SessionOptions& session_;
  ModelError error_;
  std::vector<QuantizedWeight> names_;  // as they are in the float model
  std::vector<std::vector<Fewer>> fewer_;
  std::vector<Step> steps_;
  std::map<int64_t, double> errors_;  // measured, by the number of steps
  std::vector<MeasuredMix> mixes_;
  int64_t done_ = 0, all_ = 0;
};

}  // namespace

Result<Quantized> quantize_to_limit(const Model& model, Samples samples,
                                    const QuantizeOptions& options, const SessionOptions& session) {
  HG_CHECK(*options.max_error >= 0, "quantize: `max_error` is ", *options.max_error,
           ", which is not at least 0");
  const auto is_empty = [](const ConstTensor& tensor) { return tensor.count() == 0; };
  for (size_t i = 0; i < samples.size(); ++i)
    HG_CHECK(samples[i].empty() || !std::all_of(samples[i].begin(), samples[i].end(), is_empty),
             "quantize: sample ", int64_t(i), " has no elements to measure an error with");
  HG_TRY_ASSIGN(ModelError error, ModelError::create(model, samples, options, session));
  return Mixer(model, samples, options, session, std::move(error)).run();
}

}  // namespace hg
