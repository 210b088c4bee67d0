// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize/observe.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace hg {
namespace {

constexpr int kSteps = 2048;  // bins of a histogram

// Statistics of a value: its range from a first pass over the samples, and a histogram of its
// numbers from a second one.
struct Observed {
  Range range;
  std::vector<int64_t> steps;

  void widen(std::span<const float> numbers) {
    if (!range.is_finite || numbers.empty()) return;
    float low = numbers[0], high = low;
    for (const float x : numbers) {
      if (!std::isfinite(x)) {
        range.is_finite = false;
        return;
      }
      low = std::min(low, x);
      high = std::max(high, x);
    }
    range.low = range.count == 0 ? low : std::min<double>(range.low, low);
    range.high = range.count == 0 ? high : std::max<double>(range.high, high);
    range.count += static_cast<int64_t>(numbers.size());
  }
  double step() const { return (range.high - range.low) / kSteps; }
  void count(std::span<const float> numbers) {
    if (!range.is_finite || !(step() > 0)) return;
    steps.resize(kSteps);
    for (const float x : numbers) {
      const double at = (x - range.low) / step();  // NaN if a run differs from the first one
      if (at >= 0) ++steps[static_cast<size_t>(std::min<double>(at, kSteps - 1))];
    }
  }
  // Leaves this many numbers outside the range at each end.
  void cut(int64_t outside) {
    if (steps.empty()) return;
    int low = 0, high = kSteps;
    for (int64_t below = steps[0]; below <= outside && low + 1 < high; below += steps[low]) ++low;
    for (int64_t above = steps[kSteps - 1]; above <= outside && low + 1 < high;
         above += steps[high - 1])
      --high;
    const double start = range.low, width = step();
    if (high < kSteps) range.high = start + high * width;
    if (low > 0) range.low = start + low * width;
  }
};

class Observer {
 public:
  Observer(const Model& model, Samples samples, const QuantizeOptions& options, Session session)
      : graph_(model.graph()), samples_(samples), options_(options), session_(std::move(session)) {}

  void watch(ValueId id) { observed_.try_emplace(graph_.value_info(id).name); }

  Result<std::unordered_map<ValueId, Range>> run(std::span<const ValueId> values) {
    HG_TRY(walk([](Observed& value, std::span<const float> x) { value.widen(x); }));
    const double outside = (100 - options_.percentile) / 200;
    if (outside > 0) {
      HG_TRY(walk([](Observed& value, std::span<const float> x) { value.count(x); }));
      for (auto& [name, value] : observed_)
        value.cut(static_cast<int64_t>(outside * static_cast<double>(value.range.count)));
    }
    std::unordered_map<ValueId, Range> ranges;
    for (const ValueId id : values) ranges[id] = observed_[graph_.value_info(id).name].range;
    return ranges;
  }

 private:
  template <class See>
  Status see(std::string_view name, const ConstTensor& tensor, const See& see) {
    const auto found = observed_.find(std::string(name));
    if (found == observed_.end() || tensor.dtype != f32) return {};
    ConstTensor numbers = tensor;
    TensorData copy;
    if (!tensor.is_contiguous()) {
      HG_TRY_ASSIGN(copy, TensorData::copy_of(tensor));
      numbers = copy.tensor;
    }
    see(found->second, {numbers.as<float>(), static_cast<size_t>(numbers.count())});
    return {};
  }

  // Passes all observed values to the callback, sample by sample.
  template <class Each>
  Status walk(const Each& each) {
    return observe_runs(
        session_, samples_,
        [&](std::string_view name, const ConstTensor& tensor) { return see(name, tensor, each); },
        [&] {
          ++done_;
          const int64_t walks = options_.percentile < 100 ? 2 : 1;
          if (options_.progress)
            options_.progress(done_, walks * static_cast<int64_t>(samples_.size()));
        });
  }

  const Graph& graph_;
  Samples samples_;
  const QuantizeOptions& options_;
  Session session_;
  std::unordered_map<std::string, Observed> observed_;
  int64_t done_ = 0;
};

}  // namespace

Result<Session> create_observed(const Model& model, const SessionOptions& options) {
  SessionOptions stepwise = options;
  stepwise.device = Device::cpu;  // where each value can be read
  stepwise.gpu = {};
  stepwise.disabled_passes = {"*"};
  return Session::create(model, stepwise);
}

Status set_inputs(Session& session, Samples samples, size_t i) {
  const std::vector<ConstTensor>& inputs = samples[i];
  HG_CHECK(static_cast<int>(inputs.size()) == session.input_count(), "quantize: sample ",
           int64_t(i), " has ", int64_t(inputs.size()), " tensors, the model has ",
           session.input_count(), " inputs");
  for (int k = 0; k < session.input_count(); ++k)
    if (const Status status = session.set_input(k, inputs[static_cast<size_t>(k)]); !status.ok())
      return Status(status.code(),
                    str_cat("quantize: sample ", int64_t(i), ": ", status.message()));
  return {};
}

Status observe_runs(Session& session, Samples samples, const See& see,
                    const std::function<void()>& after) {
  for (size_t i = 0; i < samples.size(); ++i) {
    HG_TRY(set_inputs(session, samples, i));
    for (int k = 0; k < session.input_count(); ++k)
      HG_TRY(see(session.input_name(k), samples[i][static_cast<size_t>(k)]));
    for (;;) {
      HG_TRY_ASSIGN(const std::optional<StepRow> row, session.step());
      if (!row) break;
      for (const auto& [name, tensor] : row->outputs) HG_TRY(see(name, tensor));
    }
    after();
  }
  return {};
}

Result<std::unordered_map<ValueId, Range>> observe(const Model& model,
                                                   std::span<const ValueId> values, Samples samples,
                                                   const QuantizeOptions& options,
                                                   const SessionOptions& session) {
  HG_TRY_ASSIGN(Session made, create_observed(model, session));
  Observer observer(model, samples, options, std::move(made));
  for (const ValueId id : values) observer.watch(id);
  return observer.run(values);
}

}  // namespace hg
