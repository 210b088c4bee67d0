// SPDX-License-Identifier: Apache-2.0
// The error of a model beside the float model, measured with samples.
#pragma once

#include <vector>

#include "lib/quantize/observe.h"

namespace hg {

class ModelError {
 public:
  // Runs the float model. Fails if an output is not finite, or the metric does not fit.
  static Result<ModelError> create(const Model& floats, Samples samples,
                                   const QuantizeOptions& options, const SessionOptions& session);

  struct Errors {
    double limited = 0;  // the one that QuantizeOptions::max_error limits
    double outputs = 0;  // of the outputs, also with a metric
  };
  // The errors of a model with the same inputs and outputs. Infinite if an output has a NaN or
  // infinity, or another shape.
  Result<Errors> measure(const Model& model) const;

 private:
  ModelError(Samples samples, const QuantizeOptions& options, const SessionOptions& session)
      : samples_(samples), options_(&options), session_(&session) {}
  // Calls take(sample, output, tensor) for the outputs of all samples.
  template <class Take>
  Status run(const Model& model, const Take& take) const;
  // A metric as a mean.
  struct Mean {
    double sum = 0;
    int64_t count = 0;
    double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };
  Status add_metric(size_t sample, const Tensor& y, Mean& mean) const;

  Samples samples_;
  const QuantizeOptions* options_;
  const SessionOptions* session_;
  int judged_ = 0;                               // the metric's output
  std::vector<bool> counts_;                     // per output: whether it has floats
  std::vector<std::vector<TensorData>> floats_;  // per sample and output
  std::vector<TensorData> targets_;              // per sample, of the metric
  Mean metric_;                                  // of the float model
};

}  // namespace hg
