// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize/by_samples.h"

#include <cmath>
#include <utility>

#include "lib/graph/border.h"
#include "lib/graph/element.h"
#include "lib/quantize/second_order.h"

namespace hg {
namespace {

// Limit of the second moments that one pass over the samples collects, unless one weight has more.
constexpr int64_t kMomentsAtOnce = int64_t{32} << 20;

class SampleRounder {
 public:
  SampleRounder(std::span<const Weight> weights, std::span<const int> bits,
                const QuantizeOptions& options, const SessionOptions& session)
      : weights_(weights),
        bits_(bits),
        options_(options),
        session_(session),
        choices_(weights.size()) {}

  Status round_without_samples(size_t i) {
    const Weight& weight = weights_[i];
    for (const int bits : bits_) {
      HG_TRY_ASSIGN(Rounded rounded, round_to_levels(weight.name, weight.data.tensor, weight.blocks,
                                                     bits, options_.rounding != Rounding::nearest));
      choices_[i].push_back({std::move(rounded), {}, {}});
    }
    tell_progress();
    return {};
  }

  Status round_with(size_t i, const WeightMatrix& matrix, const InputSums& inputs) {
    if (!inputs.is_finite) return round_without_samples(i);
    const Weight& weight = weights_[i];
    for (const int bits : bits_) {
      HG_TRY_ASSIGN(SecondOrder made,
                    round_second_order(weight.name, weight.data.tensor, weight.blocks, bits, matrix,
                                       inputs, session_));
      choices_[i].push_back({std::move(made.rounded), made.nearest_error, made.error});
    }
    tell_progress();
    return {};
  }

  std::vector<std::vector<Choice>> take() { return std::move(choices_); }

 private:
  void tell_progress() {
    if (options_.progress) options_.progress(++done_, static_cast<int64_t>(weights_.size()));
  }

  std::span<const Weight> weights_;
  std::span<const int> bits_;
  const QuantizeOptions& options_;
  const SessionOptions& session_;
  std::vector<std::vector<Choice>> choices_;
  int64_t done_ = 0;
};

}  // namespace

Status check_samples(Samples samples) {
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t k = 0; k < samples[i].size(); ++k) {
      if (!is_float(samples[i][k].dtype)) continue;
      HG_TRY_ASSIGN(const TensorData copy, TensorData::copy_of(samples[i][k]));
      for (int64_t e = 0; e < copy.tensor.count(); ++e)
        HG_CHECK(!std::isnan(element(copy.tensor, e)), "quantize: element ", e, " of input ",
                 int64_t(k), " of sample ", int64_t(i), " is NaN");
    }
  return {};
}

Result<std::vector<std::vector<Choice>>> round_by_samples(const Model& model, const Graph& graph,
                                                          std::span<const Weight> weights,
                                                          std::span<const int> bits,
                                                          Samples samples,
                                                          const QuantizeOptions& options,
                                                          const SessionOptions& session) {
  SampleRounder rounder(weights, bits, options, session);
  std::vector<size_t> together;
  std::vector<WeightMatrix> matrices;
  int64_t moments = 0;
  const auto round_together = [&]() -> Status {
    if (together.empty()) return {};
    std::vector<const Weight*> observed;
    for (const size_t i : together) observed.push_back(&weights[i]);
    HG_TRY_ASSIGN(const std::vector<InputSums> sums,
                  observe_inputs(model, graph, observed, samples, session));
    for (size_t k = 0; k < together.size(); ++k)
      HG_TRY(rounder.round_with(together[k], matrices[k], sums[k]));
    together.clear();
    matrices.clear();
    moments = 0;
    return {};
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::optional<WeightMatrix> matrix =
        options.rounding == Rounding::second_order ? matrix_of(graph, weights[i]) : std::nullopt;
    if (!matrix) {
      HG_TRY(rounder.round_without_samples(i));
      continue;
    }
    const int64_t more = matrix->groups * matrix->columns * matrix->columns;
    if (moments + more > kMomentsAtOnce) HG_TRY(round_together());
    together.push_back(i);
    matrices.push_back(*matrix);
    moments += more;
  }
  HG_TRY(round_together());
  return rounder.take();
}

Result<Quantized> quantize_by_samples(const Model& model, Samples samples,
                                      const QuantizeOptions& options,
                                      const SessionOptions& session) {
  Graph graph = copy_with_bodies(model.graph());
  Graph* const graphs[] = {&graph};
  HG_TRY_ASSIGN(const std::vector<Weight> weights, find_weights(graphs, options));
  const int bits[] = {options.bits};
  HG_TRY_ASSIGN(std::vector<std::vector<Choice>> choices,
                round_by_samples(model, graph, weights, bits, samples, options, session));
  Model::Info info = model.info();
  const auto round = [&](size_t i) -> Result<std::optional<Rounded>> {
    return std::optional(choices[i][0].rounded);
  };
  Quantized out;
  HG_TRY_ASSIGN(out.weights, replace_weights(graphs, weights, round, info));
  for (size_t i = 0; i < weights.size(); ++i) {
    out.weights[i].nearest_output_error = choices[i][0].nearest_output_error;
    out.weights[i].output_error = choices[i][0].output_error;
  }
  HG_TRY_ASSIGN(out.model, Model::from_graph(std::move(graph)));
  out.model.set_info(std::move(info));
  return out;
}

}  // namespace hg
