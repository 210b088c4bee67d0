// SPDX-License-Identifier: Apache-2.0
// Random trainings run without interruption and with plain options. Then they run with options that
// must not change any bit, interrupted, saved, loaded and finished. Losses, weights and training
// state must be equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "hg/hg.h"
#include "hg/train.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test {
namespace {

using Values = std::vector<Value>;

std::map<std::string, int> counts;

bool is_same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

class Case {
 public:
  explicit Case(uint64_t seed) : seed_(seed), random_(seed * 2 + 1) {}

  std::string run() {
    const Model model = network();
    if (prints_graphs()) std::printf("%s", model.graph().text().c_str());
    make_data();
    const TrainOptions options = options_of_both();
    const FitOptions fit = fit_options();
    Result<Trainer> plain = Trainer::create(model, options);
    if (!plain.ok()) return refused("create", plain.status());
    std::vector<double> losses;
    const Status trained = fit_once(*plain, fit, losses, -1);
    if (!trained.ok()) return refused("fit", trained);
    ++counts["trained at once"];
    // The same training again, in pieces.
    std::vector<double> again;
    Result<Model> at = model;
    for (int piece = 0;; ++piece) {
      Result<Trainer> odd = Trainer::create(*at, other_options(options));
      if (!odd.ok()) {
        if (odd.status().code() != Code::out_of_memory) return wrong("create again", odd.status());
        odd = Trainer::create(*at, options);
        if (!odd.ok()) return wrong("create plainly", odd.status());
      }
      FitOptions rest = fit;
      rest.finish = piece > 0;
      const int stop_after = piece < 3 && chance(0.6) ? below(6) : -1;
      const size_t before = again.size();
      const Status status = fit_once(*odd, rest, again, stop_after);
      if (status.code() == Code::out_of_memory) {
        ++counts["limit refused"];
        again.resize(before);
        continue;
      }
      if (!status.ok() && status.code() != Code::cancelled) return wrong("fit again", status);
      if (chance(0.3)) {
        const Result<Evaluation> e = odd->evaluate(data_);
        if (!e.ok()) return wrong("evaluate", e.status());
      }
      at = after(*odd);
      if (!at.ok()) return wrong("save", at.status());
      if (!was_stopped_) break;
      ++counts["pieces"];
      said_ += str_cat(" | stopped after ", int64_t(again.size()));
    }
    for (size_t i = 0; i < std::min(again.size(), losses.size()); ++i)
      if (!is_same(again[i], losses[i]))
        return str_cat(said_, ": loss ", int64_t(i), " is ", again[i], ", not ", losses[i]);
    if (again.size() != losses.size())
      return str_cat(said_, ": ", int64_t(again.size()), " losses, not ", int64_t(losses.size()));
    const Result<Model> right = plain->model();
    if (!right.ok()) return wrong("model", right.status());
    return compare(at->graph(), right->graph());
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int>(all.size()))];
  }
  void say(std::string_view what) { said_ += str_cat(said_.empty() ? "" : " ", what); }
  std::string wrong(const char* what, const Status& status) const {
    return str_cat(said_, ": ", what, ": ", status.message());
  }
  std::string refused(const char* what, const Status& status) {
    ++counts[str_cat(what, " refused: ", status.message().substr(0, 70))];
    const bool is_known = status.code() == Code::invalid_argument ||
                          status.message().find("no CPU kernel") == std::string_view::npos;
    return is_known ? "" : wrong(what, status);
  }

  // ---- The network ----

  Value weight(Graph& g, const Sizes& shape, double around = 0) {
    return g.parameter(str_cat("w", int64_t(weights_++)), dtype_, shape,
                       init::uniform(around - 0.4, around + 0.4, random_()));
  }
  Value buffer(Graph& g, const Sizes& shape, double value) {
    TensorData data = *TensorData::allocate(dtype_, shape);
    for (int64_t i = 0; i < shape.count(); ++i) write_element(data.tensor, i, value);
    return g.buffer(str_cat("b", int64_t(weights_++)), data);
  }
  Value norm(Graph& g, const Value& x, int64_t channels) {
    const BatchNorm made = batch_norm(x, weight(g, {channels}, 1), weight(g, {channels}),
                                      buffer(g, {channels}, 0), buffer(g, {channels}, 1));
    return made.y;
  }
  Value layer(Graph& g, const Value& x, int64_t width) {
    switch (below(11)) {
      case 0:
        return relu(linear(x, weight(g, {width, width}), weight(g, {width})));
      case 1:
        return x + gelu(linear(x, weight(g, {width, width})));
      case 2:
        return layer_norm(x, {Dim(width)}, weight(g, {width}, 1), weight(g, {width}));
      case 3:
        return dropout(x, 0.3, true);
      case 4: {  // tied weights
        const Value w = weight(g, {width, width});
        return linear(tanh(linear(x, w)), permute(w, {1, 0}));
      }
      case 5: {  // a branch that data decides
        const Value w = weight(g, {width, width});
        return cond(
                   gt(sum(x), g.scalar(0.0, dtype_)), {x, w},
                   [](Graph&, std::span<const Value> v) {
                     return Values{tanh(linear(v[0], v[1]))};
                   },
                   [](Graph&, std::span<const Value> v) { return Values{v[0] * 0.5}; })
            .at(0);
      }
      case 6: {  // a loop
        const Value w = weight(g, {width, width});
        return while_loop(
                   {x, g.scalar(int64_t{0}, i64)}, {w},
                   [](Graph& b, std::span<const Value> v) {
                     return Values{lt(v[1], b.scalar(int64_t{2}, i64))};
                   },
                   [](Graph&, std::span<const Value> v) {
                     return Values{tanh(linear(v[0], v[2])), v[1] + 1};
                   })
            .at(0);
      }
      case 7:
        return x.rank() == 2 ? norm(g, x, width) : rms_norm(x, {Dim(width)}, weight(g, {width}, 1));
      case 8:
        return silu(x) * sigmoid(linear(x, weight(g, {width, width})));
      case 9:
        return softmax(linear(x, weight(g, {width, width}), weight(g, {width})));
      default:
        return tanh(x);
    }
  }

  Model network() {
    dtype_ = one_of<DType>({f32, f32, f32, f32, f64, f16, bf16});
    say(to_string(dtype_));
    Graph g;
    const bool open = chance(0.7);
    samples_ = open ? one_of<int64_t>({1, 2, 7, 12, 13}) : 12;
    batch_ = open ? one_of<int64_t>({1, 3, 4, 5, 32, 0}) : 4;
    const Dim n = open ? Dim("n") : Dim(4);
    const int64_t width = one_of<int64_t>({1, 3, 8, 17, 33});
    Value y;
    switch (below(3)) {
      case 0: {
        row_ = {width};
        y = g.input("x", dtype_, {n, width});
        break;
      }
      case 1: {
        const int64_t channels = 1 + below(4);
        row_ = {channels, 7, 6};
        y = g.input("x", dtype_, {n, channels, 7, 6});
        y = conv(y, weight(g, {width, channels, 3, 3}), weight(g, {width}), {.padding = {1}});
        if (chance(0.6)) y = norm(g, y, width);
        y = relu(y);
        if (chance(0.5)) y = max_pool(y, {2});
        if (chance(0.5))
          y = conv(y, weight(g, {width, 1, 3, 3}), {}, {.padding = {1}, .groups = width});
        if (chance(0.3)) y = dropout(y, 0.2, true, true);
        y = mean(y, {2, 3});
        break;
      }
      default: {
        const int64_t time = 1 + below(5);
        row_ = {time, width};
        y = g.input("x", dtype_, {n, time, width});
        for (int i = 0; i < below(2); ++i) y = layer(g, y, width);
        if (chance(0.5)) {
          const Value q = reshape(linear(y, weight(g, {width, width})), {n, 1, time, width});
          y = y + reshape(attention(q, q, q, {}, chance(0.5)), {n, time, width});
        }
        y = chance(0.5) ? mean(y, {1}) : reshape(slice(y, 1, time - 1, time), {n, width});
      }
    }
    for (int i = 0, layers = below(4); i < layers; ++i) y = layer(g, y, width);
    classes_ = 1 + below(5);
    y = linear(y, weight(g, {classes_, width}), weight(g, {classes_}));
    g.output("y", y);
    if (chance(0.2)) {
      const Value count = g.buffer("count", *TensorData::allocate(i64, {}));
      g.assign(count, count + 1);
    }
    return must(Model::from_graph(std::move(g)));
  }

  // ---- Data and options ----

  Tensor numbers(DType dtype, const Sizes& shape, double low, double high) {
    memory_.push_back(*TensorData::allocate(dtype, shape));
    const Tensor tensor = memory_.back().tensor;
    for (int64_t i = 0; i < shape.count(); ++i) {
      const double x = low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
      write_element(tensor, i, is_float(dtype) ? x : std::floor(x));
    }
    return tensor;
  }

  void make_data() {
    Sizes shape = row_;
    shape.insert(0, samples_);
    data_.inputs = {numbers(dtype_, shape, -2, 2)};
    loss_.kind = one_of({Loss::Kind::mse, Loss::Kind::l1, Loss::Kind::huber,
                         Loss::Kind::cross_entropy, Loss::Kind::bce_with_logits});
    const bool classes = loss_.kind == Loss::Kind::cross_entropy;
    const auto targets = [&](int64_t n) {
      return classes ? numbers(i64, {n}, 0, static_cast<double>(classes_))
                     : numbers(dtype_ == f64 ? f64 : f32, {n, classes_}, 0, 1);
    };
    data_.targets = {targets(samples_)};
    if (classes) loss_.label_smoothing = one_of({0.0, 0.1});
    shape[0] = batch_ == 4 && !chance(0.5) ? 4 : samples_;
    validation_.inputs = {numbers(dtype_, shape, -2, 2)};
    validation_.targets = {targets(shape[0])};
  }

  TrainOptions options_of_both() {
    TrainOptions o;
    o.losses = {loss_};
    o.optimizer.kind = one_of({Optimizer::Kind::sgd, Optimizer::Kind::adam, Optimizer::Kind::adamw,
                               Optimizer::Kind::rmsprop});
    say(to_string(o.optimizer.kind));
    o.optimizer.lr = one_of({0.01, 0.001, 0.05});
    if (chance(0.4)) o.optimizer.momentum = 0.9;
    if (chance(0.4)) o.optimizer.weight_decay = 0.02;
    if (o.optimizer.momentum > 0 && chance(0.3))
      o.optimizer.nesterov = o.optimizer.kind == Optimizer::Kind::sgd;
    if (chance(0.3))
      o.optimizer.dampening =
          o.optimizer.nesterov || o.optimizer.kind != Optimizer::Kind::sgd ? 0 : 0.3;
    o.optimizer.amsgrad = chance(0.2);
    o.optimizer.centered = chance(0.2);
    using Kind = Schedule::Kind;
    o.schedule.kind = one_of({Kind::constant, Kind::step, Kind::exponential, Kind::linear,
                              Kind::cosine, Kind::one_cycle, Kind::plateau});
    say(to_string(o.schedule.kind));
    o.schedule.by_epoch = chance(0.3);
    o.schedule.warmup = below(3);
    o.schedule.period = 2;
    o.schedule.patience = below(2);
    o.schedule.cooldown = below(2);
    o.schedule.threshold = 0.05;
    if (chance(0.3)) o.clip_norm = 0.3, say("clip_norm");
    if (chance(0.3)) o.clip_value = 0.05, say("clip_value");
    o.accumulate = one_of({1, 1, 2, 3});
    if (chance(0.15))
      o.compute = one_of({f16, bf16}), say(str_cat("compute ", to_string(o.compute)));
    if (o.compute == f16) o.accumulate = 1;
    if (o.accumulate > 1) say(str_cat("accumulate ", int64_t(o.accumulate)));
    if (chance(0.2)) o.penalties = {{"w*", 0.01, 0.02}};
    if (chance(0.2)) o.rules = {{.pattern = "w0", .lr = 0.003}};
    if (chance(0.2)) o.rules.push_back({.pattern = "w?", .frozen = chance(0.5)});
    if (chance(0.2)) o.mode = TrainOptions::Mode::as_traced;
    if (chance(0.3)) o.metrics = {{.kind = Metric::Kind::mean_error}};
    if (loss_.kind == Loss::Kind::cross_entropy) o.metrics.clear();
    o.session.threads = 1;
    o.session.seed = random_();
    return o;
  }

  FitOptions fit_options() {
    FitOptions fit;
    fit.epochs = 1 + below(4);
    fit.batch = batch_;
    fit.shuffle = chance(0.7);
    if (chance(0.3)) fit.validation = &validation_, say("validation");
    if (chance(0.3)) fit.patience = 1 + below(2), say("patience");
    say(str_cat(samples_, " samples, batch ", batch_, ", epochs ", fit.epochs));
    return fit;
  }

  static void run_backwards(void*, int64_t count, void (*task)(void*, int64_t), void* arg) {
    for (int64_t i = count; i-- > 0;) task(arg, i);
  }

  TrainOptions other_options(TrainOptions o) {
    o.session.threads = 1 + below(4);
    if (chance(0.3)) o.session.parallel_for = {run_backwards, nullptr, 1 + below(4)};
    if (chance(0.2)) o.session.checkpoint = Checkpoint::sqrt, say("sqrt");
    if (chance(0.3)) o.session.lazy_allocation = true;
    if (chance(0.2)) o.session.profile = true;
    if (chance(0.4))
      o.session.memory_limit = one_of<int64_t>({3000, 10000, 40000, 200000}), say("limit");
    return o;
  }

  // ---- Training ----

  Status fit_once(Trainer& trainer, FitOptions fit, std::vector<double>& losses, int stop_after) {
    int left = stop_after;
    std::stop_source source;
    const bool by_token = chance(0.4);
    was_stopped_ = false;
    if (by_token) fit.stop = source.get_token();
    fit.on_progress = [&](const Progress& p) {
      if (p.is_epoch) {
        losses.push_back(p.loss);
        if (p.validation != nullptr) losses.push_back(p.validation->loss);
      } else {
        losses.push_back(p.loss);
        losses.push_back(p.lr);
      }
      if (left < 0 || left-- > 0) return true;
      if (was_stopped_) return true;
      was_stopped_ = true;
      if (!by_token) return false;
      source.request_stop();
      return true;
    };
    const Status status = trainer.fit(data_, fit);
    if (by_token && status.ok()) was_stopped_ = false;  // training ended before it saw the request
    return status;
  }

  Result<Model> after(const Trainer& trainer) {
    if (chance(0.5)) return trainer.model();
    const std::string path = str_cat(testing::TempDir(), "random_trainers_", seed_, ".hgm");
    HG_TRY(trainer.save(path));
    Result<Model> model = Model::load(path);
    std::remove(path.c_str());
    return model;
  }

  std::string compare(const Graph& got, const Graph& right) const {
    if (got.states().size() != right.states().size())
      return str_cat(said_, ": ", int64_t(got.states().size()), " states, not ",
                     int64_t(right.states().size()));
    for (size_t i = 0; i < right.states().size(); ++i) {
      const State &a = got.states()[i], &b = right.states()[i];
      if (a.name != b.name || !(a.data.tensor.shape == b.data.tensor.shape))
        return str_cat(said_, ": state ", a.name, ", not ", b.name);
      const std::vector<double> x = read_all(a.data.tensor), y = read_all(b.data.tensor);
      for (size_t k = 0; k < x.size(); ++k)
        if (!is_same(x[k], y[k]))
          return str_cat(said_, ": ", a.name, "[", int64_t(k), "] is ", x[k], ", not ", y[k]);
    }
    return "";
  }

  uint64_t seed_;
  std::mt19937_64 random_;
  std::string said_;
  DType dtype_ = f32;
  int weights_ = 0;
  int64_t samples_ = 0, batch_ = 0, classes_ = 1;
  Sizes row_;
  Loss loss_;
  Dataset data_, validation_;
  std::vector<TensorData> memory_;
  bool was_stopped_ = false;
};

TEST(RandomTrainers, EndAlikeHoweverTheyAreRun) {
  for_cases(60, [](uint64_t seed) { EXPECT_EQ(Case(seed).run(), ""); });
  for (const auto& [what, times] : counts) std::printf("%6d %s\n", times, what.c_str());
  if (case_count(60) >= 50) {
    EXPECT_GT(counts["trained at once"], case_count(60) / 2);
  }
}

}  // namespace
}  // namespace hg::test
