// SPDX-License-Identifier: Apache-2.0
#include "lib/train/objective.h"

#include <algorithm>

#include "hg/ops.h"
#include "lib/graph/ends.h"
#include "lib/train/mode.h"

namespace hg {
namespace {

using Kind = Loss::Kind;

bool takes_classes(const Loss& loss) {
  return loss.kind == Kind::cross_entropy || loss.kind == Kind::nll;
}

bool may_fit(const Dim& a, const Dim& b) { return a == b || !a.is_constant() || !b.is_constant(); }

// The shape without dim `at`.
Shape without(Shape shape, int at) {
  shape.erase(shape.begin() + (at < 0 ? at + static_cast<int>(shape.size()) : at));
  return shape;
}

bool may_fit(const Shape& a, const Shape& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) { return may_fit(x, y); });
}

class ObjectiveBuilder {
 public:
  ObjectiveBuilder(Graph& graph, const TrainOptions& options) : graph_(graph), options_(options) {}

  Result<Objective> build() {
    HG_CHECK(!options_.losses.empty(), "there is no loss to minimize");
    HG_TRY(choose_dtype());
    for (const Loss& loss : options_.losses) HG_TRY(add_loss(loss));
    for (const Penalty& penalty : options_.penalties) HG_TRY(add_penalty(penalty));
    graph_.set_origin({});
    const Value& mean = result_.mean;
    const Value& sum = result_.sum;
    result_.total = mean && sum ? mean + sum : mean ? mean : sum;
    for (const Metric& metric : options_.metrics) HG_TRY(add_metric(metric));
    HG_TRY(graph_.take_status());
    return std::move(result_);
  }

 private:
  Status choose_dtype() {
    bool wide = false;
    for (const State& state : graph_.states())
      wide = wide || (state.data.tensor.dtype == f64 && is_trained(options_.rules, state));
    for (const Loss& loss : options_.losses) {
      HG_TRY_ASSIGN(const Value y, find_output(loss.output));
      wide = wide || y.dtype() == f64;
    }
    result_.dtype = wide ? f64 : f32;
    return {};
  }

  Result<Value> find_output(const std::string& name) {
    HG_CHECK(!graph_.outputs().empty(), "the model has no output");
    if (name.empty()) return graph_.value(graph_.outputs()[0].second);
    std::string known;
    for (const auto& [output, id] : graph_.outputs()) {
      if (output == name) return graph_.value(id);
      known += str_cat(known.empty() ? "" : ", ", output);
    }
    return not_found("the model has no output '", name, "'; the outputs are ", known);
  }

  Value find_target(const std::string& name) {
    const std::vector<std::string>& known = result_.targets;
    if (std::find(known.begin(), known.end(), name) == known.end()) return {};
    const ValueId id = input_named(graph_, name);
    return id == kNoValue ? Value() : graph_.value(id);
  }

  // The class dim of the output, for class indices as targets.
  static Result<int> class_dim(const Loss& loss, const Value& y, const Shape& target) {
    for (const int dim : {1, -1})
      if (loss.class_dim.value_or(dim) == dim && may_fit(without(y.shape(), dim), target))
        return dim;
    return invalid_argument(
        to_string(loss.kind), ": the output '", y.name(), "' is ", y.shape(), ", the target '",
        loss.target, "' is ", target, "; expected class indices in the output's shape without dim ",
        loss.class_dim.value_or(1), loss.class_dim ? "" : " or without the last");
  }

  Status add_loss(const Loss& loss) {
    HG_CHECK(loss.reduction != Reduction::none, "loss ", to_string(loss.kind),
             ": training needs the reduction mean or sum, not 'none'");
    HG_TRY_ASSIGN(Value y, find_output(loss.output));
    const std::string& name = loss.output.empty() ? graph_.outputs()[0].first : loss.output;
    graph_.set_origin({"", str_cat("the ", to_string(loss.kind), " loss of '", name, "'")});
    HG_CHECK(is_float(y.dtype()), "loss ", to_string(loss.kind), ": the output '", y.name(),
             "' is ", y.dtype(), ", not a float");
    if (y.dtype() != f64) y = as_type(y, f32);
    HG_TRY_ASSIGN(Value value, value_of(loss, y));
    if (loss.weight != 1) value = value * loss.weight;
    HG_TRY(graph_.take_status());
    Value& sum = loss.reduction == Reduction::sum ? result_.sum : result_.mean;
    value = as_type(value, result_.dtype);
    sum = sum ? sum + value : value;
    return {};
  }

  Result<Value> value_of(const Loss& loss, const Value& y) {
    if (loss.kind == Kind::output) {
      if (y.rank() == 0) return y;
      return loss.reduction == Reduction::mean ? mean(y) : sum(y);
    }
    HG_TRY_ASSIGN(Value target, target_of(loss, y));
    if (takes_classes(loss)) return class_loss(loss, y, target);
    HG_CHECK(may_fit(y.shape(), target.shape()), "loss ", to_string(loss.kind), ": the output '",
             y.name(), "' is ", y.shape(), ", the target '", loss.target, "' is ", target.shape());
    target = as_type(target, y.dtype());
    const Reduction r = loss.reduction;
    if (loss.kind == Kind::mse) return mse_loss(y, target, r);
    if (loss.kind == Kind::l1) return l1_loss(y, target, r);
    if (loss.kind == Kind::smooth_l1) return smooth_l1_loss(y, target, loss.beta, r);
    if (loss.kind == Kind::huber) return huber_loss(y, target, loss.beta, r);
    if (loss.kind == Kind::bce) return binary_cross_entropy(y, target, {}, r);
    if (loss.kind == Kind::bce_with_logits)
      return binary_cross_entropy_with_logits(y, target, {}, {}, r);
    return kl_div(y, target, loss.log_target, r);
  }

  Result<Value> target_of(const Loss& loss, const Value& y) {
    if (const Value known = find_target(loss.target)) return known;
    TensorType type{y.dtype(), y.shape()};
    if (loss.target_type) {
      type = *loss.target_type;
    } else if (takes_classes(loss)) {
      HG_CHECK(y.rank() >= 2, to_string(loss.kind), ": the output '", y.name(), "' is ", y.shape(),
               "; expected [n, classes, ...]");
      type = {i64, without(y.shape(), loss.class_dim.value_or(1))};
    }
    const Value target = graph_.input(loss.target, type.dtype, type.shape);
    HG_TRY(graph_.take_status());
    result_.targets.push_back(loss.target);
    return target;
  }

  Result<Value> class_loss(const Loss& loss, Value y, Value target) {
    const bool indices = is_integer(target.dtype());
    HG_CHECK(y.rank() >= 2, to_string(loss.kind), ": the output '", y.name(), "' is ", y.shape(),
             "; expected [n, classes, ...]");
    HG_CHECK(indices || loss.kind == Kind::cross_entropy, "nll: the target '", loss.target, "' is ",
             target.dtype(), "; expected class indices");
    int dim = loss.class_dim.value_or(1);
    if (indices) {
      HG_TRY_ASSIGN(dim, class_dim(loss, y, target.shape()));
    } else {
      HG_CHECK(may_fit(y.shape(), target.shape()) && (dim == 1 || dim == -1), to_string(loss.kind),
               ": the output '", y.name(), "' is ", y.shape(), ", the target '", loss.target,
               "' is ", target.shape(), " of ", target.dtype(),
               ": class indices must be integers, class probabilities have the output's shape");
      target = as_type(target, y.dtype());
    }
    if (indices) {
      const auto found = std::find(result_.targets.begin(), result_.targets.end(), loss.target);
      result_.classes.push_back({static_cast<size_t>(found - result_.targets.begin()), loss.target,
                                 y.dim(dim), loss.ignore_index, loss.class_weights,
                                 loss.reduction == Reduction::mean});
    }
    if (dim == -1 && y.rank() > 2) {  // rows of classes
      const Dim rows = count(without(y.shape(), -1)), classes = y.dim(-1);
      y = reshape(y, {rows, classes});
      target = indices ? reshape(target, {rows}) : reshape(target, {rows, classes});
    }
    Value weight;
    if (!loss.class_weights.empty()) {
      const auto classes = static_cast<int64_t>(loss.class_weights.size());
      HG_CHECK(may_fit(y.dim(1), Dim(classes)), to_string(loss.kind), ": there are ", classes,
               " class weights, and ", y.dim(1), " classes");
      HG_TRY_ASSIGN(const TensorData data,
                    TensorData::copy_of(view(loss.class_weights, {classes})));
      weight = as_type(graph_.constant(data), y.dtype());
    }
    if (loss.kind == Kind::nll)
      return nll_loss(y, target, weight, loss.ignore_index, loss.reduction);
    return cross_entropy(y, target,
                         {weight, loss.ignore_index, loss.label_smoothing, loss.reduction});
  }

  Status add_penalty(const Penalty& penalty) {
    bool found = false;
    for (size_t i = 0; i < graph_.states().size(); ++i) {
      const State& state = graph_.states()[i];
      if (!matches(penalty.pattern, state) || !is_trained(options_.rules, state)) continue;
      found = true;
      const Value w = as_type(graph_.value(state.value), result_.dtype);
      const auto add = [&](const Value& term) {
        result_.mean = result_.mean ? result_.mean + term : term;
      };
      if (penalty.l1 != 0) add(sum(abs(w)) * penalty.l1);
      if (penalty.l2 != 0) add(sum(w * w) * penalty.l2);
    }
    HG_CHECK(found, "penalty: no trained parameter matches '", penalty.pattern, "'");
    return {};
  }

  Status add_metric(const Metric& metric) {
    HG_TRY_ASSIGN(const Value y, find_output(metric.output));
    const Value target = find_target(metric.target);
    if (!target)
      return not_found("metric ", to_string(metric.kind), ": no loss has a target '", metric.target,
                       "'");
    if (metric.kind == Metric::Kind::mean_error) {
      HG_CHECK(is_float(y.dtype()) && may_fit(y.shape(), target.shape()),
               "metric mean_error: the output is ", y.shape(), ", the target is ", target.shape());
      const Value error = as_type(y, result_.dtype) - as_type(target, result_.dtype);
      result_.metrics.push_back(mean(abs(error)));
      return {};
    }
    HG_TRY_ASSIGN(const Value right, is_right(metric, y, target));
    result_.metrics.push_back(mean(cast(right, result_.dtype)));
    return {};
  }

  Result<Value> is_right(const Metric& metric, const Value& y, const Value& target) {
    const auto found = std::find_if(options_.losses.begin(), options_.losses.end(),
                                    [&](const Loss& loss) { return loss.target == metric.target; });
    if (found->kind == Kind::bce || found->kind == Kind::bce_with_logits) {
      const double middle = found->kind == Kind::bce ? 0.5 : 0;
      return eq(gt(y, number_like(y, middle)), gt(target, number_like(target, 0.5)));
    }
    int dim = found->class_dim.value_or(1);
    if (y.rank() < 2) return invalid_argument("metric accuracy: the output is ", y.shape());
    if (is_float(target.dtype())) return eq(argmax(y, Dim(dim)), argmax(target, Dim(dim)));
    HG_TRY_ASSIGN(dim, class_dim(*found, y, target.shape()));
    return eq(argmax(y, Dim(dim)), as_type(target, i64));
  }

  Graph& graph_;
  const TrainOptions& options_;
  Objective result_;
};

}  // namespace

Result<Objective> add_objective(Graph& graph, const TrainOptions& options) {
  return ObjectiveBuilder(graph, options).build();
}

}  // namespace hg
