// SPDX-License-Identifier: Apache-2.0
// Finds the origin of a loss that is not finite by running the forward pass again with all values
// kept. Also finds target classes that the model does not have.
#include <cmath>

#include "lib/graph/access.h"
#include "lib/train/trainer.h"

namespace hg {
namespace {

struct Content {
  bool has_nan = false, has_infinity = false;
};

template <class T>
Content content_of(const T* data, int64_t count) {
  Content content;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(static_cast<float>(data[i]));
    content.has_nan |= std::isnan(value);
    content.has_infinity |= std::isinf(value);
  }
  return content;
}

Content content_of(const Session& session, const Graph& graph, ValueId id) {
  const ValueInfo& info = graph.value_info(id);
  if (!is_float(info.type.dtype)) return {};
  const Result<Tensor> tensor = session.value(info.name);
  if (!tensor.ok() || tensor->count() == 0) return {};
  Result<TensorData> rows = TensorData::copy_of(*tensor);
  if (!rows.ok()) return {};
  const int64_t count = tensor->count();
  switch (info.type.dtype) {
    case f32:
      return content_of(rows->tensor.as<float>(), count);
    case f64:
      return content_of(rows->tensor.as<double>(), count);
    case f16:
      return content_of(rows->tensor.as<Half>(), count);
    default:
      return content_of(rows->tensor.as<BFloat16>(), count);
  }
}

Result<TensorData> labels_of(const ConstTensor& target) {
  HG_TRY_ASSIGN(TensorData labels, TensorData::allocate(i64, target.shape));
  copy_elements(target, labels.tensor);
  return labels;
}

// The mean is 0 / 0 if every label is ignored or has class weight 0.
Status check_counted(const ClassTarget& target, const ConstTensor& given, std::string_view what) {
  HG_TRY_ASSIGN(const TensorData labels, labels_of(given));
  bool is_ignored = true, has_weight = false;
  for (int64_t i = 0; i < given.count(); ++i) {
    const int64_t label = labels.tensor.as<int64_t>()[i];
    if (label == target.ignored) continue;
    is_ignored = false;
    const auto weights = static_cast<int64_t>(target.weights.size());
    has_weight |= label < 0 || label >= weights || target.weights[static_cast<size_t>(label)] != 0;
  }
  if (given.count() == 0 || has_weight) return {};
  if (is_ignored)
    return invalid_argument(what, "all ", given.count(), " labels of the target '", target.name,
                            "' are ", target.ignored, ", which ignore_index ignores, so the mean ",
                            "of the loss has no terms");
  return invalid_argument(what, "all labels of the target '", target.name,
                          "' are ignored or have the class weight 0, so the mean of the loss ",
                          "divides by 0");
}

}  // namespace

// Walks from the loss to the first result that has a NaN (or an infinity) although its inputs have
// none. Infinities that a mask creates on purpose are not on this path.
Status Trainer::Body::diagnose(std::span<const ConstTensor> inputs,
                               std::span<const ConstTensor> targets, double loss) {
  const std::string what = str_cat("the loss of batch ", static_cast<int64_t>(counters.batches) + 1,
                                   " is ", std::isnan(loss) ? std::abs(loss) : loss, ": ");
  for (const ClassTarget& target : step.classes)
    if (std::isnan(loss) && target.is_mean)
      HG_TRY(check_counted(target, targets[target.index], what));
  HG_TRY_ASSIGN(Graph forward, with_present_weights(step.forward));
  HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(forward)));
  SessionOptions again = options.session;
  again.memory_limit = 0;
  again.checkpoint = Checkpoint::none;
  again.profile = false;
  again.keep_all_values = true;
  again.first_run = static_cast<uint64_t>(counters.batches);
  HG_TRY_ASSIGN(Session traced, Session::create(model, again));
  int at = 0;
  for (const ConstTensor& input : inputs) HG_TRY(traced.set_input(at++, input));
  for (const ConstTensor& target : targets) HG_TRY(traced.set_input(at++, target));
  HG_TRY(traced.run());
  HG_TRY_ASSIGN(const Tensor own, traced.output(0));
  if (reducer != nullptr && std::isfinite(number_in(own)))
    return invalid_argument(what, "it is finite here, and not on another rank");
  const Graph& graph = traced.compiled_graph();
  const auto is_bad = [&](ValueId id, bool nan) {
    if (id == kNoValue) return false;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.inputs()[i] != id || !is_float(graph.value_info(id).type.dtype)) continue;
      const ConstTensor& given = i < inputs.size() ? inputs[i] : targets[i - inputs.size()];
      Result<TensorData> rows = TensorData::copy_of(given);
      if (!rows.ok()) return false;
      const Content c = given.dtype == f64   ? content_of(rows->tensor.as<double>(), given.count())
                        : given.dtype == f32 ? content_of(rows->tensor.as<float>(), given.count())
                                             : Content();
      return nan ? c.has_nan : c.has_infinity;
    }
    const Content c = content_of(traced, graph, id);
    return nan ? c.has_nan : c.has_infinity;
  };
  ValueId current = graph.outputs()[0].second;
  bool nan = std::isnan(loss);
  ValueId made_nan = kNoValue;  // first NaN caused by the infinities
  const auto first = [&](ValueId id) {
    const ValueInfo& info = graph.value_info(id);
    const Node& node = graph.nodes()[info.node];
    return invalid_argument(what, label(graph, node), " (value '", info.name, "'",
                            node.origin.source.empty() ? "" : ", ", node.origin.source,
                            ") is the first that is not finite");
  };
  for (;;) {
    const ValueInfo& info = graph.value_info(current);
    if (info.state >= 0 && graph.states()[info.state].kind == State::Kind::constant) {
      if (made_nan != kNoValue) return first(made_nan);  // the constant is a mask
      return invalid_argument(what, "the constant '", info.name, "' is not finite");
    }
    if (info.state >= 0)
      return invalid_argument(what, "the parameter '", info.name,
                              "' is no longer finite; a "
                              "lower learning rate or clipping may help");
    if (info.node < 0) return invalid_argument(what, "the data of '", info.name, "' is not finite");
    const Node& node = graph.nodes()[info.node];
    ValueId next = kNoValue;
    for (const bool kind : {nan, false}) {
      for (const ValueId id : node.inputs) {
        if (next != kNoValue || !is_bad(id, kind)) continue;
        // An infinity that never caused a NaN is intended, unless the loss is infinite.
        if (!kind && nan && id != kNoValue && graph.value_info(id).node < 0) continue;
        if (nan && !kind) made_nan = current;
        next = id;
        nan = kind;
      }
      if (next != kNoValue) break;
    }
    if (next == kNoValue) return first(current);
    current = next;
  }
}

Status Trainer::Body::explain(Status failed, std::span<const ConstTensor> targets) const {
  if (failed.code() != Code::invalid_argument) return failed;
  for (const ClassTarget& target : step.classes) {
    const ConstTensor& given = targets[target.index];
    if (!target.classes.is_constant()) continue;
    HG_TRY_ASSIGN(const TensorData labels, labels_of(given));
    for (int64_t i = 0; i < given.count(); ++i) {
      const int64_t label = labels.tensor.as<int64_t>()[i], classes = target.classes.constant();
      if (label == target.ignored || (label >= 0 && label < classes)) continue;
      return invalid_argument("the target '", target.name, "' has the class ", label,
                              ", the output has the classes 0 to ", classes - 1);
    }
  }
  return failed;
}

}  // namespace hg
