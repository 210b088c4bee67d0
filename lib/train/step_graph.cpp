// SPDX-License-Identifier: Apache-2.0
#include "lib/train/step_graph.h"

#include <algorithm>
#include <cmath>

#include "hg/ops.h"
#include "lib/graph/rewrite.h"
#include "lib/train/fake_quantize.h"
#include "lib/train/mode.h"
#include "lib/train/relu_late.h"

namespace hg {
namespace {

constexpr float kFirstScale = 65536, kGoodSteps = 2000;  // as torch's GradScaler
// Weight gradients of convolutions are computed in parts of about this many bytes, with at least
// this many rows, which suffices for fast matrix kernels.
constexpr int64_t kPartBytes = 2 << 20, kPartRows = 128;

struct Trained {
  ValueId value;
  std::string name;
  int64_t group = 0;
  double weight_decay = 0;
};

class StepBuilder {
 public:
  StepBuilder(const Graph& model, const TrainOptions& options, const std::vector<State>& saved,
              const Reducer* reducer)
      : options_(options), saved_(saved), reducer_(reducer) {
    step_.graph = model;
  }

  Result<StepGraph> build() {
    HG_TRY(check_options());
    Graph& g = step_.graph;
    const size_t inputs = g.inputs().size();
    if (options_.quantize) HG_TRY(fake_quantize(g, *options_.quantize));
    if (options_.mode == TrainOptions::Mode::training)
      HG_TRY(set_training(g, options_.rules, step_.notes));
    HG_TRY(relu_behind_max_pool(g));
    if (options_.compute != f32) HG_TRY(set_compute(g, options_.compute));
    HG_TRY_ASSIGN(const Objective objective, add_objective(g, options_));
    step_.dtype = objective.dtype;
    step_.targets = objective.targets;
    step_.classes = objective.classes;
    GraphAccess::body(g).outputs.clear();
    g.output("loss", objective.total);
    step_.forward = g;
    HG_TRY(choose_parameters(objective.total));
    add_inputs();
    // If it is known now, updates need not wait for other gradients than their own.
    if (reducer_ == nullptr) HG_TRY(add_conditions(objective.total));
    const Value part = rank_loss(objective);
    HG_TRY_ASSIGN(std::vector<Value> grads, differentiate(objective));
    if (reducer_ != nullptr) HG_TRY(sum_over_ranks(part, grads));
    HG_TRY_ASSIGN(const Value scale, clip(grads));
    HG_TRY(add_updates(grads, scale));
    HG_TRY(g.take_status());
    remove_dead_nodes(g);
    HG_CHECK(g.inputs().size() >= inputs, "inputs were lost");
    return std::move(step_);
  }

 private:
  Status check_options() const {
    const TrainOptions& o = options_;
    HG_CHECK(o.accumulate >= 1, "accumulate is ", o.accumulate, ", but must be 1 or more");
    const Optimizer& how = o.optimizer;
    const std::pair<const char*, double> none_negative[] = {{"learning rate", how.lr},
                                                            {"weight decay", how.weight_decay},
                                                            {"momentum", how.momentum},
                                                            {"eps", how.eps},
                                                            {"alpha", how.alpha}};
    for (const auto& [name, value] : none_negative)
      HG_CHECK(value >= 0 && std::isfinite(value), "the optimizer's ", name, " is ", value,
               ", but must be finite and 0 or more");
    for (const double beta : {how.beta1, how.beta2})
      HG_CHECK(beta >= 0 && beta < 1, "a beta of the optimizer is ", beta,
               ", but must be at least 0 and below 1");
    for (const ParameterRule& rule : o.rules) {
      const double lr = rule.lr.value_or(0), decay = rule.weight_decay.value_or(0);
      HG_CHECK(lr >= 0 && decay >= 0 && std::isfinite(lr) && std::isfinite(decay), "the rule for '",
               rule.pattern, "' has a learning rate of ", lr, " and a weight decay of ", decay,
               "; both must be finite and 0 or more");
    }
    HG_CHECK(o.clip_norm >= 0 && o.clip_value >= 0, "clipping to ", o.clip_norm, " and ",
             o.clip_value, " is not possible: neither may be negative");
    const Schedule& s = o.schedule;
    HG_CHECK(s.period > 0, "the schedule's period is ", s.period, ", but must be 1 or more");
    const std::pair<const char*, double> numbers[] = {{"warmup", static_cast<double>(s.warmup)},
                                                      {"total", static_cast<double>(s.total)},
                                                      {"patience", static_cast<double>(s.patience)},
                                                      {"cooldown", static_cast<double>(s.cooldown)},
                                                      {"gamma", s.gamma},
                                                      {"lowest rate", s.min_lr},
                                                      {"rise", s.rise}};
    for (const auto& [name, value] : numbers)
      HG_CHECK(value >= 0 && std::isfinite(value), "the schedule's ", name, " is ", value,
               ", but must be finite and 0 or more");
    HG_CHECK(s.rise <= 1, "the schedule's rise is ", s.rise, ", but must be at most 1");
    HG_CHECK(o.compute == f32 || o.compute == bf16 || o.compute == f16, "compute is ", o.compute,
             "; expected f32, bf16 or f16");
    if (o.compute == f16 && o.accumulate > 1)
      return unsupported("loss scaling of f16 does not go with gradients accumulated over ",
                         o.accumulate, " batches; use bf16");
    HG_CHECK(!o.optimizer.nesterov || (o.optimizer.momentum > 0 && o.optimizer.dampening == 0),
             "nesterov needs a momentum and no dampening; momentum is ", o.optimizer.momentum,
             ", dampening is ", o.optimizer.dampening);
    return {};
  }

  // -- Parameters ---------------------------------------------------------------------------------

  Status choose_parameters(const Value& loss) {
    Graph& g = step_.graph;
    for (const ParameterRule& rule : options_.rules) {
      const bool used = std::any_of(g.states().begin(), g.states().end(), [&](const State& state) {
        return state.kind == State::Kind::parameter && matches(rule.pattern, state);
      });
      HG_CHECK(used, "no parameter matches the pattern '", rule.pattern, "'",
               integers(rule.pattern));
    }
    const std::vector<bool> reach = reaching(loss);
    step_.rates.push_back(options_.optimizer.lr);
    std::string kept;
    int64_t kept_count = 0;
    for (const State& state : g.states()) {
      if (!is_trained(options_.rules, state)) {
        const bool by_file = state.kind == State::Kind::parameter && !state.requires_grad &&
                             is_float(state.data.tensor.dtype) && !is_frozen(options_.rules, state);
        if (by_file && kept_count++ == 0) kept = state.name;
        continue;
      }
      if (!reach[state.value]) {
        step_.notes.push_back(
            str_cat("the loss does not depend on '", state.name, "', which is not trained"));
        continue;
      }
      Trained t{state.value, state.name, 0, options_.optimizer.weight_decay};
      double lr = options_.optimizer.lr;
      for (const ParameterRule& rule : options_.rules) {
        if (!matches(rule.pattern, state)) continue;
        if (rule.lr) lr = *rule.lr;
        if (rule.weight_decay) t.weight_decay = *rule.weight_decay;
      }
      const auto found = std::find(step_.rates.begin(), step_.rates.end(), lr);
      t.group = found - step_.rates.begin();
      if (found == step_.rates.end()) step_.rates.push_back(lr);
      step_.trained.push_back(state.name);
      trained_.push_back(std::move(t));
    }
    if (kept_count > 0)
      step_.notes.push_back(
          str_cat(kept_count, kept_count == 1 ? " parameter is" : " parameters are",
                  " not trained, since the model has them with requires_grad=False: '", kept, "'",
                  kept_count == 1 ? "" : " and others", "; a rule that thaws them trains them"));
    HG_CHECK(!trained_.empty(), "there is no parameter to train: of ", int64_t(g.states().size()),
             " tensors the loss depends on none that is a parameter, a float and not frozen",
             kept_count > 0 ? "; the model has some with requires_grad=False, which a rule can thaw"
                            : "",
             integers("*"));
    return {};
  }

  // "; 'fc.weight' is i8[10, 64]: ...", for a tensor that a pattern matches, such as quantized
  // weights.
  std::string integers(std::string_view pattern) const {
    for (const State& state : step_.graph.states())
      if (state.kind == State::Kind::buffer && size_of(state.data.tensor.dtype) == 1 &&
          matches(pattern, state))
        return str_cat("; '", state.name, "' is ", state.data.tensor.dtype, state.data.tensor.shape,
                       ": integers, as quantized weights are, are not trained");
    return "";
  }

  // The values from which `y` is computed through ops with gradients.
  std::vector<bool> reaching(const Value& y) const {
    const Graph& g = step_.graph;
    std::vector<bool> reach(g.value_count(), false);
    reach[y.id()] = true;
    for (size_t i = g.nodes().size(); i-- > 0;) {
      const Node& node = g.nodes()[i];
      if (node.op->def.traits & kNoGradient) continue;
      bool used = false;
      for (const ValueId id : node.outputs) used |= reach[id];
      if (!used) continue;
      for (const ValueId id : node.inputs)
        if (id != kNoValue) reach[id] = true;
    }
    return reach;
  }

  // -- Inputs and counters ------------------------------------------------------------------------

  const State* saved(const std::string& name, DType dtype, const Sizes& shape) const {
    for (const State& state : saved_)
      if (state.name == name && state.data.tensor.dtype == dtype &&
          state.data.tensor.shape == shape)
        return &state;
    return nullptr;
  }

  // A buffer that a file may have saved; otherwise initialized with `number`.
  Value buffer(const std::string& name, DType dtype, const Sizes& shape, double number = 0) {
    Graph& g = step_.graph;
    if (const State* state = saved(name, dtype, shape)) return g.buffer(name, state->data);
    Result<TensorData> data = TensorData::allocate(dtype, shape);
    if (!data.ok()) return g.fail(data.status());
    if (number != 0) data->tensor.as<float>()[0] = static_cast<float>(number);
    return g.buffer(name, *std::move(data));
  }

  void add_inputs() {
    Graph& g = step_.graph;
    lr_ = g.input("train/lr", step_.dtype, {static_cast<int64_t>(step_.rates.size())});
    if (options_.accumulate > 1) {
      step_.has_go = step_.has_weight = true;
      go_ = g.input("train/go", boolean, {});
      weight_ = g.input("train/weight", step_.dtype, {});
    }
  }

  // Whether the update runs, which the loss of the batch decides.
  Status add_conditions(const Value& loss) {
    const Value finite = step_.graph.call("isfinite", {loss});
    go_ = go_ ? logical_and(finite, go_) : finite;
    step_count_ = buffer("train/step", i64, {});
    if (!needs_all_gradients()) add_step_count();
    return keep_finite_buffers(finite);
  }

  // The rank's contribution to the loss of all ranks; for a mean, its share.
  Value rank_loss(const Objective& objective) const {
    if (reducer_ == nullptr) return {};
    const Value loss = objective.mean ? objective.mean * rank_part() : Value();
    return !objective.sum ? loss : loss ? loss + objective.sum : objective.sum;
  }

  Status sum_over_ranks(Value loss, std::vector<Value>& grads) {
    Graph& g = step_.graph;
    std::vector<std::pair<std::string, Value*>> values = {{"loss", &loss}};
    for (size_t i = 0; i < grads.size(); ++i) values.emplace_back(trained_[i].name, &grads[i]);
    HG_TRY(reducer_->add_to(g, values));
    GraphAccess::body(g).outputs.clear();
    g.output("loss", loss);
    return add_conditions(loss);
  }

  double rank_part() const { return reducer_ != nullptr ? 1.0 / reducer_->ranks() : 1; }

  // Whether an update depends on all gradients: on their norm, or on an overflow in any of them.
  bool needs_all_gradients() const { return options_.clip_norm > 0 || options_.compute == f16; }

  // Running statistics and other buffers ignore a batch whose loss is not finite.
  Status keep_finite_buffers(const Value& finite) {
    Graph& g = step_.graph;
    const auto assignments = g.assignments();
    for (const auto& [target, source] : assignments) {
      const Value old = g.value(target), moved = g.value(source);
      if (target != source) g.assign(old, where(finite, moved, old));
    }
    return g.take_status();
  }

  // -- Gradients ----------------------------------------------------------------------------------

  Result<std::vector<Value>> differentiate(const Objective& objective) {
    Graph& g = step_.graph;
    std::vector<Value> ys, seeds, wrt;
    if (options_.compute == f16) loss_scale_ = buffer("train/scale", f32, {2}, kFirstScale);
    const Value factor =
        loss_scale_ ? as_type(reshape(slice(loss_scale_, 0, 0, 1), {}), step_.dtype) : Value();
    const auto add = [&](const Value& y, const Value& weight) {
      if (!y) return;
      ys.push_back(y);
      seeds.push_back(weight && factor ? weight * factor : weight ? weight : factor);
    };
    // The gradient of the mean over all ranks.
    const Value part = reducer_ == nullptr || reducer_->ranks() == 1 ? weight_
                       : weight_                                     ? weight_ * rank_part()
                                 : g.scalar(rank_part(), step_.dtype);
    add(objective.mean, part);
    add(objective.sum, {});
    for (const Trained& t : trained_) wrt.push_back(g.value(t.value));
    std::vector<Value> grads = grad(ys, wrt, seeds);
    HG_TRY(g.take_status());
    return grads;
  }

  // The factor by which updates multiply gradients, or an empty Value.
  Result<Value> clip(std::vector<Value>& grads) {
    Graph& g = step_.graph;
    Value scale;
    if (!needs_all_gradients()) return scale;
    std::vector<Value> norms;
    for (size_t i = 0; i < grads.size(); ++i) {
      Value gradient = grads[i];
      if (options_.accumulate > 1) gradient = sum_of(i) + gradient;
      const double ord = options_.clip_norm == 0 ? HUGE_VAL : 2;
      norms.push_back(reshape(norm(as_type(gradient, step_.dtype), ord), {1}));
    }
    Value total = norm(concat(norms));
    if (loss_scale_) {
      const Value factor = reshape(slice(loss_scale_, 0, 0, 1), {});
      const Value good = reshape(slice(loss_scale_, 0, 1, 2), {});
      const Value fine = g.call("isfinite", {total});
      scale = reciprocal(as_type(factor, step_.dtype));
      total = total * scale;
      const Value enough = ge(good, number_like(good, kGoodSteps - 1));
      const Value next = where(fine, where(enough, factor * 2, factor), factor * 0.5);
      const Value count = where(logical_and(fine, eq(enough, g.scalar(0.0, boolean))), good + 1,
                                number_like(good, 0));
      g.assign(loss_scale_, concat({reshape(next, {1}), reshape(count, {1})}));
      go_ = logical_and(go_, fine);
    }
    if (options_.clip_norm > 0) {  // as in torch: min(1, most / (norm + 1e-6))
      const Value part = minimum(options_.clip_norm / (total + 1e-6), number_like(total, 1));
      scale = scale ? scale * part : part;
    }
    add_step_count();
    return scale;
  }

  void add_step_count() {
    next_step_ = step_count_ + cast(go_, i64);
    step_.graph.assign(step_count_, next_step_);
    step_.graph.output("updates", next_step_);
  }

  Value sum_of(size_t i) {
    if (sums_.empty()) sums_.resize(trained_.size());
    if (!sums_[i]) {
      const Value x = step_.graph.value(trained_[i].value);
      sums_[i] = buffer(str_cat("train/sum/", trained_[i].name), x.dtype(), shape_of(trained_[i]));
    }
    return sums_[i];
  }

  Sizes shape_of(const Trained& t) const {
    const int32_t state = step_.graph.value_info(t.value).state;
    return step_.graph.states()[state].data.tensor.shape;
  }

  // -- Updates ------------------------------------------------------------------------------------

  Status add_updates(const std::vector<Value>& grads, const Value& scale) {
    const Optimizer& o = options_.optimizer;
    NamedAttrs common = {{"maximize", o.maximize}};
    if (options_.clip_value > 0) common.push_back({"clip_value", options_.clip_value});
    for (size_t i = 0; i < trained_.size(); ++i) {
      NamedAttrs attrs = common;
      attrs.push_back({"group", trained_[i].group});
      attrs.push_back({"weight_decay", trained_[i].weight_decay});
      switch (o.kind) {
        case Optimizer::Kind::sgd:
          attrs.push_back({"momentum", o.momentum});
          attrs.push_back({"dampening", o.dampening});
          attrs.push_back({"nesterov", o.nesterov});
          HG_TRY(add_update("sgd", i, {o.momentum != 0 ? "momentum_buffer" : ""}, attrs, grads[i],
                            scale));
          break;
        case Optimizer::Kind::adam:
        case Optimizer::Kind::adamw:
          attrs.push_back({"beta1", o.beta1});
          attrs.push_back({"beta2", o.beta2});
          attrs.push_back({"eps", o.eps});
          attrs.push_back({"decoupled", o.kind == Optimizer::Kind::adamw});
          HG_TRY(add_update("adam", i, {"mean", "square", o.amsgrad ? "largest" : ""}, attrs,
                            grads[i], scale));
          break;
        case Optimizer::Kind::rmsprop:
          attrs.push_back({"alpha", o.alpha});
          attrs.push_back({"eps", o.eps});
          attrs.push_back({"momentum", o.momentum});
          HG_TRY(add_update(
              "rmsprop", i,
              {"square", o.centered ? "mean" : "", o.momentum != 0 ? "momentum_buffer" : ""}, attrs,
              grads[i], scale));
          break;
      }
    }
    return {};
  }

  // Of a state of the optimizer for a parameter.
  static std::string state_name(const std::string& kind, std::string_view state, const Trained& t) {
    return str_cat(kTrainPrefix, kind, "/", state, "/", t.name);
  }

  // Updates of the parameter, including this one. A parameter that earlier training left out has
  // its own count, as in torch: its moments start now.
  Value updates_of(const std::string& kind, const std::string& state, const Trained& t) {
    if (state.empty()) return next_step_;
    const std::string own = state_name(kind, "step", t);
    const DType dtype = step_.graph.value(t.value).dtype();
    const State* all = saved("train/step", i64, {});
    const bool is_late = all != nullptr && *all->data.tensor.as<int64_t>() > 0 &&
                         saved(state_name(kind, state, t), dtype, shape_of(t)) == nullptr;
    if (!is_late && saved(own, i64, {}) == nullptr) return next_step_;
    const Value count = buffer(own, i64, {}), next = count + cast(go_, i64);
    step_.graph.assign(count, next);
    return next;
  }

  // `states` are the optimizer's, in the order of the op's inputs; an empty name means not given.
  Status add_update(const std::string& kind, size_t i, const std::vector<std::string>& states,
                    const NamedAttrs& attrs, const Value& gradient, const Value& scale) {
    Graph& g = step_.graph;
    const Trained& t = trained_[i];
    const Value x = g.value(t.value);
    const Value count = updates_of(kind, states[0], t);
    std::vector<Value> inputs = {x};
    for (const std::string& state : states)
      inputs.push_back(state.empty() ? Value()
                                     : buffer(state_name(kind, state, t), x.dtype(), shape_of(t)));
    inputs.push_back(options_.accumulate > 1 ? sum_of(i) : Value());
    std::vector<Value> kept = inputs;
    for (const Part& part : parts_of(gradient)) {
      std::vector<Value> given = inputs;
      given.insert(given.end(), {as_type(part.gradient, x.dtype()), lr_, count, scale, go_});
      NamedAttrs all = attrs;
      if (part.first > 0) all.push_back({"first", part.first});
      const std::vector<Value> updated = g.calls(str_cat(kind, "_step"), given, all);
      HG_TRY(g.take_status());
      size_t output = 0;
      for (Value& state : inputs)
        if (state) state = updated[output++];
    }
    for (size_t k = 0; k < kept.size(); ++k)
      if (kept[k]) g.assign(kept[k], inputs[k]);
    return g.take_status();
  }

  struct Part {  // the rows from `first` on
    Value gradient;
    int64_t first = 0;
  };

  // Splits a large weight gradient of a convolution into parts of some output channels. Each part
  // is freed after its update. Not split if another node reads it or if it is computed in another
  // dtype. On a device, one dispatch is faster.
  std::vector<Part> parts_of(const Value& gradient) {
    std::vector<Part> parts = {{gradient, 0}};
    Graph& g = step_.graph;
    const int32_t index = g.value_info(gradient.id()).node;
    if (index < 0 || options_.clip_norm > 0 || loss_scale_ ||
        options_.session.device != Device::cpu)
      return parts;
    const Node& node = g.nodes()[index];
    if (node.op->name() != "conv_weight_grad") return parts;
    NamedAttrs attrs;
    const AttrReader reader(node.op, node.attrs);
    for (const std::string_view name : {"stride", "padding", "dilation", "kernel", "groups"})
      attrs.push_back({name, reader.raw(name)});
    const Result<Sizes> shape = evaluate(gradient.shape(), Bindings());
    if (!shape.ok() || !(reader.integer("groups") == Dim(1))) return parts;
    const int64_t rows = (*shape)[0], bytes = shape->count() * size_of(gradient.dtype());
    const int64_t count = std::min(bytes / kPartBytes, rows / kPartRows);
    if (count < 2) return parts;
    const Value x = g.value(node.inputs[0]), dy = g.value(node.inputs[1]);
    parts.clear();
    for (int64_t k = 0; k < count; ++k) {
      const int64_t first = rows * k / count, end = rows * (k + 1) / count;
      parts.push_back({g.call("conv_weight_grad", {x, slice(dy, 1, first, end)}, attrs), first});
    }
    return parts;
  }

  const TrainOptions& options_;
  const std::vector<State>& saved_;
  const Reducer* reducer_;
  StepGraph step_;
  std::vector<Trained> trained_;
  std::vector<Value> sums_;
  Value lr_, go_, weight_, loss_scale_, step_count_, next_step_;
};

}  // namespace

Result<StepGraph> build_step(const Graph& model, const TrainOptions& options,
                             const std::vector<State>& saved, const Reducer* reducer) {
  return StepBuilder(model, options, saved, reducer).build();
}

}  // namespace hg
