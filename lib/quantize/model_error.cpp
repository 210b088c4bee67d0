// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize/model_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/graph/element.h"

namespace hg {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The numbers of a contiguous tensor; two for each complex one.
Tensor parts_of(Tensor tensor) {
  if (tensor.dtype == c64 || tensor.dtype == c128) {
    tensor.dtype = tensor.dtype == c64 ? f32 : f64;
    tensor.shape = {2 * tensor.shape.count()};
    tensor.strides = {1};
  }
  return tensor;
}

bool is_all_finite(const Tensor& tensor) {
  const Tensor x = parts_of(tensor);
  for (int64_t i = 0; i < x.count(); ++i)
    if (!std::isfinite(element(x, i))) return false;
  return true;
}

Sizes without_dim(const Sizes& shape, int dim) {
  Sizes out;
  for (int d = 0; d < shape.rank(); ++d)
    if (d != dim) out.push_back(shape[d]);
  return out;
}

// The dim of the classes in outputs of this shape; -1 if the target fits none.
int class_dim(const Sizes& shape, const Tensor& target) {
  const int usual = shape.rank() >= 4 ? 1 : shape.rank() - 1;
  if (shape.rank() < 2) return -1;
  if (is_float(target.dtype)) return target.shape == shape ? usual : -1;
  for (const int dim : {usual, 1, shape.rank() - 1})
    if (target.shape == without_dim(shape, dim)) return dim;
  return -1;
}

// Calls each(place, class) with the class of the largest number along the dim.
template <class Each>
void for_classes(const Tensor& y, int dim, const Each& each) {
  const int64_t classes = y.shape[dim], inner = contiguous_strides(y.shape)[dim];
  for (int64_t i = 0; i < y.count() / std::max<int64_t>(classes, 1); ++i) {
    const int64_t from = i / inner * inner * classes + i % inner;
    int64_t best = 0;
    for (int64_t k = 1; k < classes; ++k)
      if (element(y, from + k * inner) > element(y, from + best * inner)) best = k;
    each(i, best);
  }
}

}  // namespace

template <class Take>
Status ModelError::run(const Model& model, const Take& take) const {
  HG_TRY_ASSIGN(Session session, Session::create(model, *session_));
  for (size_t i = 0; i < samples_.size(); ++i) {
    HG_TRY(set_inputs(session, samples_, i));
    HG_TRY(session.run());
    for (int k = 0; k < session.output_count(); ++k) {
      HG_TRY_ASSIGN(const Tensor y, session.output(k));
      HG_TRY_ASSIGN(const TensorData copy, TensorData::copy_of(y));
      HG_TRY(take(i, k, copy));
    }
  }
  return {};
}

Result<ModelError> ModelError::create(const Model& floats, Samples samples,
                                      const QuantizeOptions& options,
                                      const SessionOptions& session) {
  ModelError made(samples, options, session);
  const Graph& graph = floats.graph();
  const auto& outputs = graph.outputs();
  if (options.metric) {
    HG_CHECK(options.targets.empty() || options.targets.size() == samples.size(),
             "quantize: ", uint64_t{samples.size()}, " samples have ",
             uint64_t{options.targets.size()}, " targets");
    const auto found = options.metric->output.empty()
                           ? outputs.begin()
                           : std::find_if(outputs.begin(), outputs.end(), [&](const auto& output) {
                               return output.first == options.metric->output;
                             });
    HG_CHECK(found != outputs.end(), "quantize: the model has no output '", options.metric->output,
             "' for the metric");
    made.judged_ = static_cast<int>(found - outputs.begin());
  } else {
    HG_CHECK(options.targets.empty(), "quantize: there are targets, but no metric");
  }
  const auto counts = [&](const auto& output) {
    const DType dtype = graph.value_info(output.second).type.dtype;
    made.counts_.push_back(is_float(dtype) || is_complex(dtype));
    return made.counts_.back();
  };
  const auto counted = std::count_if(outputs.begin(), outputs.end(), counts);
  HG_CHECK(options.metric || counted > 0,
           "quantize: `max_error` limits the error of floats, and the model's outputs are none; "
           "a `metric` can judge them");
  made.floats_.resize(samples.size());
  HG_TRY(made.run(floats, [&](size_t i, int k, const TensorData& y) -> Status {
    HG_CHECK(is_all_finite(y.tensor), "quantize: output '", outputs[static_cast<size_t>(k)].first,
             "' of the float model has a NaN or infinity for sample ", int64_t(i));
    made.floats_[i].push_back(y);
    return {};
  }));
  if (!options.metric) return made;
  for (size_t i = 0; i < samples.size(); ++i) {
    const TensorData& y = made.floats_[i][static_cast<size_t>(made.judged_)];
    made.targets_.push_back(y);
    if (!options.targets.empty()) {
      HG_TRY_ASSIGN(made.targets_.back(), TensorData::copy_of(options.targets[i]));
    }
    HG_TRY(made.add_metric(i, y.tensor, made.metric_));
  }
  return made;
}

Status ModelError::add_metric(size_t sample, const Tensor& y, Mean& mean) const {
  const Tensor& target = targets_[sample].tensor;
  if (options_->metric->kind == Metric::Kind::mean_error) {
    HG_CHECK(target.shape == y.shape, "quantize: metric mean_error: the output is ", y.shape,
             ", the target is ", target.shape);
    for (int64_t i = 0; i < y.count(); ++i)
      mean.sum += std::abs(element(y, i) - element(target, i));
    mean.count += y.count();
    return {};
  }
  const int dim = class_dim(y.shape, target);
  HG_CHECK(dim >= 0, "quantize: metric accuracy: the output is ", y.shape, ", the target is ",
           target.dtype, target.shape, "; an output of scores per class fits its targets");
  std::vector<int64_t> classes;
  for_classes(y, dim, [&](int64_t, int64_t best) { classes.push_back(best); });
  mean.count += static_cast<int64_t>(classes.size());
  const auto compare = [&](int64_t i, double wanted) {
    mean.sum += static_cast<double>(classes[static_cast<size_t>(i)]) == wanted;
  };
  if (is_float(target.dtype)) {
    for_classes(target, dim,
                [&](int64_t i, int64_t best) { compare(i, static_cast<double>(best)); });
  } else {
    for (int64_t i = 0; i < target.count(); ++i) {
      const double wanted = element(target, i);
      HG_CHECK(wanted >= 0 && wanted < static_cast<double>(y.shape[dim]),
               "quantize: metric accuracy: element ", i, " of the target of sample ",
               static_cast<int64_t>(sample), " is ", wanted, ", the output has ", y.shape[dim],
               " classes");
      compare(i, wanted);
    }
  }
  return {};
}

Result<ModelError::Errors> ModelError::measure(const Model& model) const {
  std::vector<double> wrong(floats_[0].size(), 0), all = wrong;
  Mean metric;
  bool is_wrong = false;
  HG_TRY(run(model, [&](size_t i, int k, const TensorData& data) -> Status {
    const auto output = static_cast<size_t>(k);
    const Tensor& want = floats_[i][output].tensor;
    if (data.tensor.shape != want.shape || !is_all_finite(data.tensor)) {
      is_wrong = true;
      return {};
    }
    const Tensor y = parts_of(data.tensor), f = parts_of(want);
    for (int64_t e = 0; counts_[output] && e < y.count(); ++e) {
      const double off = element(y, e) - element(f, e);
      wrong[output] += off * off;
      all[output] += element(f, e) * element(f, e);
    }
    return options_->metric && k == judged_ ? add_metric(i, data.tensor, metric) : Status();
  }));
  if (is_wrong) return Errors{kInfinity, kInfinity};
  Errors errors;
  for (size_t k = 0; k < wrong.size(); ++k)
    if (wrong[k] > 0)
      errors.outputs =
          std::max(errors.outputs, all[k] == 0 ? kInfinity : std::sqrt(wrong[k] / all[k]));
  errors.limited = errors.outputs;
  if (options_->metric) {
    const double more = metric.value() - metric_.value();
    errors.limited = std::max(0.0, options_->metric->kind == Metric::Kind::accuracy ? -more : more);
  }
  return errors;
}

}  // namespace hg
