// SPDX-License-Identifier: Apache-2.0
// The Trainer: steps, and the model with the current weights.
#include "lib/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hg/adapter.h"
#include "lib/graph/access.h"
#include "lib/graph/adapter_names.h"
#include "lib/graph/border.h"
#include "lib/graph/training_state.h"
#include "lib/train/fake_quantize.h"
#include "lib/train/mode.h"
#include "lib/train/objective.h"

namespace hg {
namespace {

constexpr int64_t kSmall = 4096;  // bytes

std::string_view kind_name(Optimizer::Kind kind) {
  return kind == Optimizer::Kind::sgd       ? "sgd"
         : kind == Optimizer::Kind::rmsprop ? "rmsprop"
                                            : "adam";
}

// Whether this kind of optimizer wrote the state. SGD without momentum has none.
bool resumes(const std::vector<State>& saved, const Optimizer& optimizer) {
  const std::string own = str_cat(kTrainPrefix, kind_name(optimizer.kind), "/");
  bool has_own = false, has_other = false;
  for (const State& state : saved) {
    const std::string_view rest = std::string_view(state.name).substr(kTrainPrefix.size());
    if (rest.find('/') == std::string_view::npos || rest.starts_with("sum/")) continue;
    (state.name.starts_with(own) ? has_own : has_other) = true;
  }
  return has_own || (!has_other && optimizer.kind == Optimizer::Kind::sgd);
}

Counters read_counters(const std::vector<State>& saved) {
  Counters counters;
  for (const State& state : saved) {
    const Tensor& tensor = state.data.tensor;
    if (state.name != "train/progress" || tensor.dtype != f64) continue;
    const auto count = std::min<int64_t>(tensor.count(), kCounterCount);
    std::memcpy(&counters, tensor.data, static_cast<size_t>(count) * sizeof(double));
  }
  return counters;
}

// An adapter is trained alone, unless the rules that follow thaw other parameters.
// Returns whether there is one.
bool freeze_base(const Graph& graph, std::vector<ParameterRule>& rules) {
  if (adapter_states(graph).empty()) return false;
  ParameterRule own[] = {{.pattern = "*", .frozen = true},
                         {.pattern = str_cat("*", kAdapterA), .frozen = false},
                         {.pattern = str_cat("*", kAdapterB), .frozen = false}};
  rules.insert(rules.begin(), std::begin(own), std::end(own));
  return true;
}

TensorData borrowed(const Tensor& tensor) {
  return {tensor, std::shared_ptr<void>(tensor.data, [](void*) {})};
}

}  // namespace

// -- Making ---------------------------------------------------------------------------------------

Trainer::Trainer(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

Result<Trainer> Trainer::create(const Model& model, TrainOptions options) {
  return or_no_memory([&]() -> Result<Trainer> {
    HG_CHECK(options.session.entry.empty() && options.session.states == nullptr,
             "a trainer takes a model of one entry, Model::entry(), and has states of its own");
    HG_TRY(model.graph().status());
    auto body = std::make_unique<Body>();
    body->base = model;
    body->options = std::move(options);
    const bool has_adapter = freeze_base(model.graph(), body->options.rules);
    // Copies counters and other small states, so that they do not keep a whole mapped file in
    // memory.
    for (State& state : GraphAccess::body(body->base.graph()).states)
      if (state.data.tensor.bytes() <= kSmall) {
        HG_TRY_ASSIGN(state.data, TensorData::copy_of(state.data.tensor));
      }
    std::vector<State> saved = take_training_state(body->base.graph());
    if (!saved.empty() && !(body->options.resume && resumes(saved, body->options.optimizer))) {
      if (body->options.resume)
        body->step.notes.push_back(
            "the file has the state of another optimizer, which is not resumed");
      saved.clear();
    }
    if (const auto& quantized = model.info().quantized; !quantized.empty() && !has_adapter)
      body->step.notes.push_back(str_cat(uint64_t{quantized.size()},
                                         quantized.size() == 1 ? " weight is" : " weights are",
                                         " quantized and not trained: '", quantized[0].name, "'",
                                         quantized.size() == 1 ? "" : " and others"));
    body->counters = read_counters(saved);
    const double given_lr = body->options.optimizer.lr;
    const double set_lr = body->counters.options_lr == given_lr
                              ? body->counters.set_lr
                              : std::numeric_limits<double>::quiet_NaN();
    body->counters.options_lr = given_lr;
    body->counters.set_lr = set_lr;
    std::vector<std::string> notes = std::move(body->step.notes);
    SessionOptions session = body->options.session;
    const Registry& kernels =
        session.registry != nullptr ? *session.registry : body->base.graph().registry();
    HG_TRY_ASSIGN(body->reducer, Reducer::create(body->options.all_reduce, kernels));
    if (body->reducer != nullptr) session.registry = &body->reducer->registry();
    HG_TRY_ASSIGN(body->step,
                  build_step(body->base.graph(), body->options, saved, body->reducer.get()));
    body->step.notes.insert(body->step.notes.begin(), notes.begin(), notes.end());
    HG_TRY_ASSIGN(const Model step, Model::from_graph(std::exchange(body->step.graph, Graph())));
    session.first_run = static_cast<uint64_t>(body->counters.batches);
    HG_TRY_ASSIGN(Session made, Session::create(step, session));
    body->session = std::make_unique<Session>(std::move(made));
    body->options.session.gpu = session.gpu ? session.gpu : body->session->gpu();
    for (const State& state : step.graph().states()) {
      if (is_training_state(state)) body->training_states.emplace_back(state.name, Tensor());
      if (state.name == "train/step") body->updates = *state.data.tensor.as<int64_t>();
    }
    // Drops data that the session has copied to its own memory.
    HG_TRY_ASSIGN(body->base.graph(), body->with_present_weights(body->base.graph()));
    HG_TRY_ASSIGN(body->step.forward, body->with_present_weights(body->step.forward));
    body->rates = body->step.rates;
    const auto groups = static_cast<int64_t>(body->rates.size());
    HG_TRY_ASSIGN(body->shown_rates, TensorData::allocate(body->step.dtype, {groups}));
    HG_TRY_ASSIGN(body->shown_weight, TensorData::allocate(body->step.dtype, {}));
    HG_TRY(body->session->set_input("train/lr", body->shown_rates.tensor));
    if (body->step.has_go)
      HG_TRY(body->session->set_input("train/go", view(&body->go, boolean, {})));
    if (body->step.has_weight)
      HG_TRY(body->session->set_input("train/weight", body->shown_weight.tensor));
    Trainer trainer(std::move(body));
    if (!std::isnan(set_lr)) trainer.set_lr(set_lr);
    return trainer;
  });
}

// -- Steps ----------------------------------------------------------------------------------------

Result<double> Trainer::step(std::span<const ConstTensor> inputs,
                             std::span<const ConstTensor> targets, std::stop_token stop) {
  return or_no_memory([&]() -> Result<double> {
    Body& b = *body_;
    using Kind = Schedule::Kind;
    const Schedule& s = b.options.schedule;
    const bool needs_total =
        s.kind == Kind::linear || s.kind == Kind::cosine || s.kind == Kind::one_cycle;
    HG_CHECK(!needs_total || s.total > 0 || b.schedule_total > 0,
             "this schedule needs Schedule::total outside fit(), but it is ", s.total);
    HG_TRY(b.set_rates());
    const auto each = static_cast<double>(b.options.accumulate);
    const bool go = b.counters.gathered + 1 >= each;
    return b.run_batch(inputs, targets, go, 1 / each, std::move(stop));
  });
}

Result<double> Trainer::backward(std::span<const ConstTensor> inputs,
                                 std::span<const ConstTensor> targets, std::stop_token stop) {
  return or_no_memory([&]() -> Result<double> {
    HG_CHECK(body_->step.has_go, "backward() needs accumulate of 2 or more, but it is ",
             body_->options.accumulate);
    HG_TRY(body_->set_rates());
    return body_->run_batch(inputs, targets, false, 1, std::move(stop));
  });
}

// Downloads them if the session runs on a device.
Status Trainer::Body::fetch_states() {
  const auto& all = base.graph().states();
  states.resize(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    HG_TRY_ASSIGN(states[i], session->value(all[i].name));
  }
  for (auto& [name, tensor] : training_states) {
    HG_TRY_ASSIGN(tensor, session->value(name));
  }
  return {};
}

Status Trainer::Body::set_rates() {
  Schedule s = options.schedule;
  if (s.total == 0) s.total = schedule_total;
  const bool by_epoch = s.by_epoch || s.kind == Schedule::Kind::plateau;
  const double tick = by_epoch ? counters.epochs - counters.first_epoch
                               : static_cast<double>(updates) - counters.first_update;
  const double most =
      step.dtype == f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  for (size_t i = 0; i < rates.size(); ++i) {
    double rate = learning_rate(s, step.rates[i] * lr_factor, static_cast<int64_t>(tick));
    if (s.kind == Schedule::Kind::plateau && counters.plateau_drops > 0)
      rate = std::max(rate * std::pow(s.gamma, counters.plateau_drops), s.min_lr);
    HG_CHECK(std::abs(rate) <= most, "the learning rate of this step would be ", rate,
             ", which is not a finite ", step.dtype, ": see the rate and the schedule's numbers");
    rates[i] = rate;
    set_number(shown_rates.tensor, static_cast<int64_t>(i), rate);
  }
  return {};
}

Result<double> Trainer::Body::run_batch(std::span<const ConstTensor> inputs,
                                        std::span<const ConstTensor> targets, bool next_go,
                                        double weight, std::stop_token stop) {
  HG_CHECK(
      static_cast<int>(inputs.size()) == first_target() && targets.size() == step.targets.size(),
      "a step takes ", first_target(), " inputs and ", int64_t(step.targets.size()),
      " targets, not ", int64_t(inputs.size()), " and ", int64_t(targets.size()));
  int at = 0;
  for (const ConstTensor& input : inputs) HG_TRY(session->set_input(at++, input));
  for (const ConstTensor& target : targets) HG_TRY(session->set_input(at++, target));
  go = next_go;
  set_number(shown_weight.tensor, 0, weight);
  if (Status ran = session->run(std::move(stop)); !ran.ok()) {
    if (reducer != nullptr) HG_TRY(reducer->take_failure());
    return explain(std::move(ran), targets);
  }
  HG_TRY_ASSIGN(const Tensor result, session->output(0));
  const double loss = number_in(result);
  HG_TRY_ASSIGN(const Tensor count, session->output(1));
  updates = *count.as<int64_t>();
  if (!std::isfinite(loss)) [[unlikely]] {
    Status status = diagnose(inputs, targets, loss);
    HG_TRY(drop_gradients());
    return status;
  }
  counters.batches += 1;
  counters.gathered = go ? 0 : counters.gathered + 1;
  return loss;
}

Status Trainer::Body::drop_gradients() {
  for (const auto& [name, tensor] : training_states) {
    if (!name.starts_with("train/sum/")) continue;
    HG_TRY_ASSIGN(const TensorData zeros, TensorData::allocate(tensor.dtype, tensor.shape));
    HG_TRY(session->set_value(name, zeros.tensor));
  }
  counters.gathered = 0;
  return {};
}

// ReduceLROnPlateau with a relative threshold.
void Trainer::Body::after_epoch(double loss) {
  const Schedule& s = options.schedule;
  if (s.kind != Schedule::Kind::plateau) return;
  Counters& c = counters;
  // The counters start with infinity, also in files.
  const double worst = std::numeric_limits<double>::infinity();
  const double best = s.maximize && c.plateau_best == worst ? -worst : c.plateau_best;
  const bool is_better =
      s.maximize ? loss > best * (1 + s.threshold) : loss < best * (1 - s.threshold);
  if (is_better) {
    c.plateau_best = loss;
    c.plateau_bad = 0;
  } else {
    c.plateau_bad += 1;
  }
  if (c.plateau_cooldown > 0) {
    c.plateau_cooldown -= 1;
    c.plateau_bad = 0;
  }
  if (c.plateau_bad > static_cast<double>(s.patience)) {
    c.plateau_drops += 1;
    c.plateau_cooldown = static_cast<double>(s.cooldown);
    c.plateau_bad = 0;
  }
}

void Trainer::end_epoch(double loss) {
  Counters& c = body_->counters;
  c.epochs += 1;
  c.begin_epoch();
  body_->after_epoch(loss);
}

void Trainer::set_lr(double lr) {
  double& own = body_->options.optimizer.lr;
  if (own == 0) own = body_->step.rates[0] = lr;  // rules have no ratio to a rate of 0
  body_->lr_factor = own == 0 ? 1 : lr / own;
  body_->rates[0] = body_->counters.set_lr = lr;
}
double Trainer::lr() const { return body_->rates[0]; }
int64_t Trainer::updates() const { return body_->updates; }
const std::vector<std::string>& Trainer::trained() const { return body_->step.trained; }
const std::vector<std::string>& Trainer::notes() const { return body_->step.notes; }
const Session& Trainer::session() const { return *body_->session; }

Status Trainer::plan(std::span<const std::pair<std::string, int64_t>> dims) {
  return body_->session->plan(dims);
}

// -- The model ------------------------------------------------------------------------------------

Result<Graph> Trainer::Body::with_present_weights(const Graph& graph) {
  HG_TRY(fetch_states());
  Graph copy = graph;
  auto& all = GraphAccess::body(copy).states;
  for (size_t i = 0; i < states.size(); ++i)
    if (all[i].data.tensor.data != states[i].data) all[i].data = borrowed(states[i]);
  return copy;
}

Result<Model> Trainer::Body::snapshot() {
  Model model = base;
  HG_TRY_ASSIGN(model.graph(), with_present_weights(base.graph()));
  for (const auto& [name, tensor] : training_states) model.graph().buffer(name, borrowed(tensor));
  HG_TRY_ASSIGN(const TensorData progress, TensorData::allocate(f64, {kCounterCount}));
  std::memcpy(progress.tensor.data, &counters, sizeof counters);
  model.graph().buffer("train/progress", progress);
  HG_TRY(model.graph().status());
  return model;
}

Result<Model> Trainer::model() const {
  return or_no_memory([&]() -> Result<Model> {
    HG_TRY_ASSIGN(Model model, body_->snapshot());
    for (State& state : GraphAccess::body(model.graph()).states) {
      HG_TRY_ASSIGN(state.data, TensorData::copy_of(state.data.tensor));
    }
    return model;
  });
}

Result<Model> Trainer::adapter() const {
  return or_no_memory([&]() -> Result<Model> {
    HG_TRY_ASSIGN(const Model whole, body_->snapshot());
    HG_TRY_ASSIGN(Model adapter, take_adapter(whole));
    for (const State& state : whole.graph().states())
      if (is_training_state(state)) adapter.graph().buffer(state.name, state.data);
    for (State& state : GraphAccess::body(adapter.graph()).states) {
      HG_TRY_ASSIGN(state.data, TensorData::copy_of(state.data.tensor));
    }
    return adapter;
  });
}

Status Trainer::save(const std::string& path) const {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const Model model, body_->snapshot());
    return model.save(path);
  });
}

// -- Evaluation -----------------------------------------------------------------------------------

Result<Evaluation> Trainer::evaluate(const Dataset& data, int64_t batch, std::stop_token stop) {
  return or_no_memory(
      [&]() -> Result<Evaluation> { return body_->evaluate(data, batch, std::move(stop)); });
}

// An inference session with the current weights as constants, which are folded and packed.
Result<Evaluation> Trainer::Body::evaluate(const Dataset& data, int64_t batch,
                                           std::stop_token stop) {
  HG_CHECK(batch >= 0, "the batch is ", batch);
  HG_TRY_ASSIGN(const int64_t samples, count_samples(*this, data, batch));
  HG_TRY_ASSIGN(Graph graph, with_present_weights(base.graph()));
  if (options.quantize) HG_TRY(fake_quantize(graph, *options.quantize));
  if (options.mode == TrainOptions::Mode::training) HG_TRY(set_inference(graph));
  HG_TRY_ASSIGN(const Objective objective, add_objective(graph, options));
  GraphAccess::body(graph).outputs.clear();
  graph.output("loss", objective.total);
  for (const Value& metric : objective.metrics) graph.output("", metric);
  HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(graph)));
  SessionOptions session_options = options.session;
  session_options.memory_limit = 0;
  session_options.checkpoint = Checkpoint::none;
  session_options.profile = false;
  HG_TRY_ASSIGN(Session session, Session::create(model, session_options));
  const Dim first = session.input_count() > 0 && session.input_type(0).rank() > 0
                        ? session.input_type(0).shape[0]
                        : Dim("n");
  const bool whole = batch == 0, is_fixed = first.is_constant() && !whole;
  if (is_fixed) batch = first.constant();
  Batches batches;
  HG_TRY(batches.prepare(data, std::min(batch, samples)));
  if (whole) batch = 1;
  Evaluation sum;
  sum.metrics.resize(options.metrics.size());
  double seen = 0;
  for (int64_t at = 0; at < samples; at += batch) {
    const int64_t count = std::min(batch, samples - at);
    if (is_fixed && count < batch) break;
    batches.take({}, at, count);
    int input = 0;
    for (const ConstTensor& tensor : batches.inputs()) HG_TRY(session.set_input(input++, tensor));
    for (const ConstTensor& tensor : batches.targets()) HG_TRY(session.set_input(input++, tensor));
    if (Status ran = session.run(stop); !ran.ok())
      return explain(std::move(ran), batches.targets());
    const auto part = static_cast<double>(count);
    for (int k = 0; k < session.output_count(); ++k) {
      HG_TRY_ASSIGN(const Tensor value, session.output(k));
      (k == 0 ? sum.loss : sum.metrics[k - 1]) += part * number_in(value);
    }
    seen += part;
  }
  HG_CHECK(seen > 0, "there are ", samples, " samples, less than one batch of ", batch);
  sum.loss /= seen;
  for (double& metric : sum.metrics) metric /= seen;
  return sum;
}

}  // namespace hg
