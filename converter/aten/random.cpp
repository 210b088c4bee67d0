// SPDX-License-Identifier: Apache-2.0
// Random numbers and dropout. The distributions are torch's, the numbers are not.
#include <cmath>

#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "hg/ops/operators.h"

namespace hg::convert::rows {
namespace {

// The op stores p and whether the call is in training mode, because a trainer may switch the mode.
void dropout_of(Call& call, bool channels) {
  const Value x = call.tensor(call.find("input") != nullptr ? "input" : "self");
  if (!is_float(x.dtype())) call.refuse("input", "is not a float tensor");
  const bool training = call.flag("train", true);
  const Real number = training ? Real(call.real("p")) : scalar(call, "p");
  if (!number.is_known()) call.note("dropout whose p data decides is left out of training");
  const double p = number.is_known() ? number.known() : 0;
  const NamedAttrs attrs = {{"p", p}, {"training", training}, {"channels", channels}};
  const auto drop = [attrs](Value value) { return value.graph()->call("dropout", {value}, attrs); };
  if (training && p > 0) {
    call.note("dropout runs in training mode, as traced");
    return call.returns(drop(x));
  }
  // Otherwise it returns its argument itself.
  give_view(call,
            {drop, [](Value, Value value) { return value; },
             [](const Layout& base, const Shape&) { return std::optional(base); }},
            call.find("input") != nullptr ? "input" : "self");
}
void dropout(Call& call) { dropout_of(call, false); }
void feature_dropout(Call& call) { dropout_of(call, true); }

// Replaces dropped elements by selu's limit, and scales the result so that mean and variance stay
// the same (Klambauer et al. 2017): y = x kept a + (kept - 1) alpha a + alpha a p. With `features`,
// drops whole channels.
void alpha_dropout_of(Call& call, bool features) {
  Graph& g = call.graph();
  const Value x = call.tensor("input");
  const bool training = call.flag("train", true);
  const double p = training ? call.real("p") : 0;
  if (p == 0)  // returns the argument itself
    return call.returns(std::vector<Item>{Item(call.ref("input"))});
  if (!is_float(x.dtype())) call.refuse("input", "is not a float tensor");
  call.note("dropout runs in training mode, as traced");
  constexpr double kAlpha = 1.7580993408473766;
  const double a = p == 1 ? 0 : 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  Shape shape = x.shape();
  if (features && shape.size() < 2) call.refuse("input", "has no dim of channels");
  for (size_t d = 2; features && d < shape.size(); ++d) shape[d] = 1;
  const Value noise = g.call("rand", {}, {{"shape", shape}});
  const Value kept = convert::cast(g.call("ge", {noise, g.scalar(p)}), x.dtype());
  call.returns(x * (kept * a) + ((kept - 1.0) * (kAlpha * a) + kAlpha * a * p));
}
void alpha_dropout(Call& call) { alpha_dropout_of(call, false); }
void feature_alpha_dropout(Call& call) { alpha_dropout_of(call, true); }

// Returns the slopes of rrelu in training: random where x <= 0, and 1 elsewhere.
Value random_slopes(Call& call, const Value& x, const Real& lower, const Real& upper) {
  Graph& g = call.graph();
  call.note("rrelu runs in training mode, as traced");
  const Value u = g.call("rand", {}, {{"shape", x.shape()}, {"dtype", x.dtype()}});
  return g.call("where", {g.call("le", {x, number_like(x, 0)}), u * (upper - lower) + lower,
                          number_like(x, 1)});
}

// Returns (y, slopes). Outside of training, the slope is the mean of the bounds, and the slopes
// keep their value.
std::pair<Value, Value> rrelu_of(Call& call, const Value& noise) {
  const Value x = call.tensor("self");
  const Real lower = scalar(call, "lower", 0.125), upper = scalar(call, "upper", 1.0 / 3);
  if (!call.flag("training", false))
    return {call_with(call.graph(), "leaky_relu", {x}, {{"negative_slope", (lower + upper) / 2}}),
            noise};
  const Value slopes = random_slopes(call, x, lower, upper);
  return {x * slopes, slopes};
}
void rrelu(Call& call) { call.returns(rrelu_of(call, Value()).first); }
void rrelu_with_noise(Call& call) {
  const auto [y, slopes] = rrelu_of(call, call.tensor("noise"));
  call.returns(std::vector<Value>{y, slopes});
}

// native_dropout(x, p, train?) returns (y, mask).
void native_dropout(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("input");
  const double p = call.flag("train", true) ? call.real("p") : 0;
  if (p == 0) {
    const Value ones =
        g.call("full", {}, {{"shape", x.shape()}, {"value", 1.0}, {"dtype", boolean}});
    call.returns({x, ones});
    return;
  }
  call.note("dropout runs in training mode, as traced");
  const Value noise = g.call("rand", {}, {{"shape", x.shape()}});
  const Value kept = g.call("ge", {noise, g.scalar(p)});
  const Value scale = g.call(
      "mul", {convert::cast(kept, x.dtype()), g.scalar(p == 1 ? 0.0 : 1 / (1 - p), x.dtype())});
  call.returns({g.call("mul", {x, scale}), kept});
}

// The scale converts integers to f32.
void native_dropout_backward(Call& call) {
  const Value dy = call.tensor("grad_output");
  const DType dtype = is_float(dy.dtype()) ? dy.dtype() : f32;
  const Value scale = scalar(call, "scale").as(call.graph(), dtype);
  call.returns(convert::cast(dy, dtype) *
               (convert::cast(convert::cast(call.tensor("mask"), dy.dtype()), dtype) * scale));
}

Value drawn(Call& call, std::string_view op, const Shape& shape, DType dtype) {
  call.note("random numbers differ from torch's");
  return call.graph().call(op, {}, {{"shape", shape}, {"dtype", dtype}});
}

void like(Call& call, std::string_view op) {
  const Value x = call.tensor("self");
  call.returns(drawn(call, op, x.shape(), call.dtype("dtype", x.dtype())));
}
void sized(Call& call, std::string_view op) {
  call.returns(drawn(call, op, call.sizes("size"), call.dtype("dtype", f32)));
}
void rand(Call& call) { sized(call, "rand"); }
void randn(Call& call) { sized(call, "randn"); }
void rand_like(Call& call) { like(call, "rand"); }
void randn_like(Call& call) { like(call, "randn"); }

// a + (b - a) * u
Value scaled(const Value& u, const Real& a, const Real& b) { return u * (b - a).like(u) + a; }

void uniform(Call& call) {
  const Value x = call.tensor("self");
  call.returns(scaled(drawn(call, "rand", x.shape(), x.dtype()), scalar(call, "from", 0),
                      scalar(call, "to", 1)));
}

// normal_(x, mean, std), and normal(mean, std) with tensors and numbers.
void normal_in_place(Call& call) {
  const Value x = call.tensor("self");
  const Real mean = scalar(call, "mean", 0);
  call.returns(
      scaled(drawn(call, "randn", x.shape(), x.dtype()), mean, mean + scalar(call, "std", 1)));
}
void normal(Call& call) {
  Graph& g = call.graph();
  if (call.has("size")) {
    const Real mean = scalar(call, "mean");
    call.returns(scaled(drawn(call, "randn", call.sizes("size"), call.dtype("dtype", f32)), mean,
                        mean + scalar(call, "std")));
    return;
  }
  const std::vector<Value> values = call.promoted({"mean", "std"}, true);
  const Value std = values[1] ? values[1] : g.scalar(1.0, values[0].dtype());
  const Value sum = g.call("add", {values[0], std});
  const Value noise = drawn(call, "randn", sum.shape(), sum.dtype());
  call.returns(g.call("add", {values[0], g.call("mul", {noise, std})}));
}

// Returns integers in [low, high).
Value integers_in(Call& call, const Shape& shape, const Dim& low, const Dim& high, DType dtype) {
  if (!low.is_constant() || !high.is_constant()) call.refuse("high", "depends on an input's size");
  Graph& g = call.graph();
  const Value u = drawn(call, "rand", shape, f64);
  const Value real =
      scaled(u, static_cast<double>(low.constant()), static_cast<double>(high.constant()));
  return convert::cast(g.call("floor", {real}), dtype);
}
void randint(Call& call) {
  call.returns(integers_in(call, call.sizes("size"), call.integer("low", 0), call.integer("high"),
                           call.dtype("dtype", i64)));
}
void randint_like(Call& call) {
  const Value x = call.tensor("self");
  call.returns(integers_in(call, x.shape(), call.integer("low", 0), call.integer("high"),
                           call.dtype("dtype", x.dtype())));
}

// bernoulli(p tensor) and bernoulli(x, p)
void bernoulli(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  const Value noise = drawn(call, "rand", x.shape(), f64);
  Value p;
  if (!call.has("p"))
    p = convert::cast(x, f64);
  else if (call.find("p")->is_tensor())
    p = convert::cast(call.tensor("p"), f64);
  else
    p = scalar(call, "p").as(g, f64);
  call.returns(convert::cast(g.call("lt", {noise, p}), x.dtype()));
}

// -log(1 - u) / lambd
void exponential(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  const Value u = drawn(call, "rand", x.shape(), x.dtype());
  const Value log = g.call("log1p", {g.call("neg", {u})});
  call.returns(log * (-1 / scalar(call, "lambd", 1)));
}

void log_normal(Call& call) {
  const Value x = call.tensor("self");
  const Real mean = scalar(call, "mean", 1);
  call.returns(call.graph().call("exp", {scaled(drawn(call, "randn", x.shape(), x.dtype()), mean,
                                                mean + scalar(call, "std", 2))}));
}

// median + sigma tan(pi (u - 1/2))
void cauchy(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  constexpr double kPi = 3.141592653589793;
  const Value angle = scaled(drawn(call, "rand", x.shape(), x.dtype()), -kPi / 2, kPi / 2);
  const Real median = scalar(call, "median", 0);
  call.returns(scaled(g.call("tan", {angle}), median, median + scalar(call, "sigma", 1)));
}

// ceil(log(1 - u) / log(1 - p)), at least 1
void geometric(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  const Value log = g.call("log1p", {g.call("neg", {drawn(call, "rand", x.shape(), f64)})});
  const Value trials =
      g.call("ceil", {g.call("mul", {log, g.scalar(1 / __builtin_log1p(-call.real("p")), f64)})});
  call.returns(convert::cast(g.call("maximum", {trials, g.scalar(1.0, f64)}), x.dtype()));
}

// Returns the sorting order of n random numbers.
void randperm(Call& call) {
  Graph& g = call.graph();
  const Value noise = drawn(call, "rand", {call.size("n")}, f64);
  call.returns(convert::cast(g.calls("sort", {noise}, {{"dim", 0}})[1], call.dtype("dtype", i64)));
}

// Draws positions by weight along the last dim. Without replacement: those with the largest weight
// / e, where e is exponentially distributed (Efraimidis, Spirakis 2006). With replacement:
// positions of uniform numbers in the cumulative sums.
void multinomial(Call& call) {
  Graph& g = call.graph();
  Value p = call.tensor("self");
  if (!is_float(p.dtype()) || p.rank() < 1 || p.rank() > 2)
    call.refuse("self", "must be one or two dims of float weights");
  p = convert::cast(p, f64);
  const Dim count = call.size("num_samples");
  if (!call.flag("replacement", false)) {
    const Value u = drawn(call, "rand", p.shape(), p.dtype());
    const Value e =
        maximum(g.call("neg", {g.call("log1p", {g.call("neg", {u})})}), g.scalar(1e-300, f64));
    return call.returns(g.calls("topk", {g.call("div", {p, e})}, {{"k", count}, {"dim", -1}})[1]);
  }
  Shape shape = p.shape();
  shape.back() = count;
  const Value sums = g.call("cumsum", {p}, {{"dim", -1}});
  const Value total =
      g.call("slice", {sums}, {{"dim", -1}, {"start", p.dim(-1) - 1}, {"end", p.dim(-1)}});
  const Value at = g.call("mul", {drawn(call, "rand", shape, p.dtype()), total});
  call.returns(g.call("searchsorted", {sums, at}, {{"right", true}}));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {"aten::dropout", dropout},
    {"aten::feature_dropout", feature_dropout},
    {"aten::alpha_dropout", alpha_dropout},
    {"aten::feature_alpha_dropout", feature_alpha_dropout},
    {"aten::rrelu", rrelu},
    {"aten::rrelu_with_noise_functional", rrelu_with_noise},
    {"aten::multinomial", multinomial},
    {"aten::native_dropout", native_dropout},
    {"aten::native_dropout_backward", native_dropout_backward},
    {"aten::rand", rand},
    {"aten::randn", randn},
    {.op = "aten::rand_like", .run = rand_like, .layout = ResultLayout::elementwise},
    {.op = "aten::randn_like", .run = randn_like, .layout = ResultLayout::elementwise},
    {"aten::uniform", uniform},
    {"aten::uniform_", uniform},
    {"aten::normal_", normal_in_place},
    {"aten::normal", normal},
    {"aten::normal_functional", normal_in_place},
    {"aten::randint", randint},
    {"aten::randint_like", randint_like},
    {"aten::bernoulli", bernoulli},
    {"aten::exponential", exponential},
    {"aten::log_normal", log_normal},
    {"aten::cauchy", cauchy},
    {"aten::geometric", geometric},
    {"aten::randperm", randperm},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> random() { return kTable; }

}  // namespace hg::convert::rows
