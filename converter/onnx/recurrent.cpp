// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN: one scan node if torch has the same layer; otherwise unrolled, or a loop if
// the length is symbolic or large. Also ONNX Runtime's LSTM with 8-bit weights.
#include <cmath>

#include "converter/onnx/contrib.h"
#include "converter/onnx/integers.h"
#include "converter/onnx/levels.h"
#include "hg/ops/control.h"
#include "hg/ops/control_flow.h"
#include "hg/ops/index.h"
#include "hg/ops/scatter.h"

namespace hg::convert::onnx {
namespace {

enum class Cell { lstm, gru, rnn };

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

// Nothing for a function without alpha; NaN for a function that requires it.
std::optional<double> default_alpha(const std::string& name) {
  if (name == "LeakyRelu") return double{0.01f};
  if (name == "HardSigmoid") return double{0.2f};
  if (name == "ThresholdedRelu" || name == "Elu" || name == "Affine") return 1;
  if (name == "ScaledTanh") return NAN;
  return {};
}
std::optional<double> default_beta(const std::string& name) {
  if (name == "HardSigmoid") return 0.5;
  if (name == "ScaledTanh") return NAN;
  if (name == "Affine") return 0;
  return {};
}

Value gate_activation(Node& n, const Activation& f, const Value& x) {
  if (f.name == "Sigmoid") return sigmoid(x);
  if (f.name == "Tanh") return hg::tanh(x);
  if (f.name == "Relu") return relu(x);
  if (f.name == "Affine") return x * f.alpha + f.beta;
  if (f.name == "LeakyRelu") return leaky_relu(x, f.alpha);
  if (f.name == "ThresholdedRelu")
    return where(gt(x, constant_like(x, f.alpha)), x, constant_like(x, 0));
  if (f.name == "ScaledTanh") return hg::tanh(x * f.beta) * f.alpha;
  if (f.name == "HardSigmoid") return hardtanh(x * f.alpha + f.beta, 0, 1);
  if (f.name == "Elu") return elu(x, f.alpha);
  if (f.name == "Softsign") return x / (hg::abs(x) + 1.0);
  if (f.name == "Softplus") return softplus(x);
  n.refuse(str_cat("the activation '", f.name, "' is not supported"));
}

// An 8-bit weight, [in, gates * hidden].
struct Quantized {
  Integers levels;
  Value scale;  // f32[] or f32[gates * hidden]
};

// One direction of the layer.
struct Direction {
  // [gates * hidden, in], [gates * hidden, hidden]; [gates * hidden], which may be missing
  Value w, r, b_w, b_r;
  Value all_w, all_r;  // of all directions, of which this is one
  int64_t index = 0;
  Quantized q_w, q_r;   // instead of w and r
  Value p_i, p_o, p_f;  // peepholes [hidden], may be missing
  Value h0, c0;         // [batch, hidden]
  std::vector<Activation> f;
  bool reverse = false;
};

struct Layer {
  Cell cell = Cell::rnn;
  int64_t gates = 1;
  Dim hidden, time, batch;
  double clip = 0;
  bool input_forget = false, before_reset = false;
  bool quantized = false;  // products quantize their input to 8 bits
  Value lengths;           // i64[batch], may be missing
};

Value part(const Value& x, int64_t i, const Dim& hidden, int dim) {
  return slice(x, dim, Dim(i) * hidden, Dim(i + 1) * hidden);
}
// Reorders the gates of a weight or a bias.
Value reordered(const Value& x, const Dim& hidden, const std::vector<int64_t>& order) {
  if (!x) return x;
  Values parts;
  for (const int64_t i : order) parts.push_back(part(x, i, hidden, 0));
  return concat(parts, 0);
}

bool is_torch(const Layer& layer, const Direction& d) {
  if (layer.lengths || layer.clip != 0 || layer.input_forget || layer.quantized || d.p_i)
    return false;
  const auto named = [&](size_t i, std::string_view name) { return d.f.at(i).name == name; };
  switch (layer.cell) {
    case Cell::lstm:
      return named(0, "Sigmoid") && named(1, "Tanh") && named(2, "Tanh");
    case Cell::gru:
      return named(0, "Sigmoid") && named(1, "Tanh") && layer.before_reset;
    default:
      return named(0, "Tanh") || named(0, "Relu");
  }
}

struct Scanned {
  Value y, h, c;  // [time, batch, hidden], [batch, hidden]
};

Scanned scanned(const Layer& layer, const Direction& d, const Value& x) {
  Graph& g = *x.graph();
  const std::vector<int64_t> order = layer.cell == Cell::lstm  ? std::vector<int64_t>{0, 2, 3, 1}
                                     : layer.cell == Cell::gru ? std::vector<int64_t>{1, 0, 2}
                                                               : std::vector<int64_t>{0};
  const auto turned = [&](const Value& v) { return reordered(v, layer.hidden, order); };
  // Levels change places instead of widened weights, so that sessions read them.
  const auto weight = [&](const Value& all, const Value& one) {
    if (!layer.hidden.is_constant()) return turned(one);
    const int64_t hidden = layer.hidden.constant();
    std::vector<int64_t> rows;
    for (const int64_t gate : order)
      for (int64_t i = 0; i < hidden; ++i) rows.push_back(gate * hidden + i);
    const std::optional<Value> levels = rows_of_weight(all, d.index, rows);
    return levels ? *levels : turned(one);
  };
  const Value gates = linear(x, weight(d.all_w, d.w), turned(d.b_w));
  Values out;
  if (layer.cell == Cell::lstm)
    out = g.calls("lstm_scan", {gates, d.h0, d.c0, weight(d.all_r, d.r), turned(d.b_r)},
                  {{"reverse", d.reverse}});
  else if (layer.cell == Cell::gru)
    out = g.calls("gru_scan", {gates, d.h0, weight(d.all_r, d.r), turned(d.b_r)},
                  {{"reverse", d.reverse}});
  else
    out = g.calls(
        "rnn_scan", {gates, d.h0, weight(d.all_r, d.r), d.b_r},
        {{"nonlinearity", d.f[0].name == "Tanh" ? "tanh" : "relu"}, {"reverse", d.reverse}});
  Scanned result;
  if (out.size() >= 2) {
    result.y = out[0];
    result.h = out[1];
  }
  if (out.size() == 3) result.c = out[2];
  return result;
}

struct State {
  Value h, c;  // [batch, hidden]; c only for LSTM
};

// Returns x times a weight plus the bias. With an 8-bit weight, x is also quantized to 8 bits.
Value product(Node& n, const Layer& layer, const Value& x, const Value& weight, const Quantized& q,
              const Value& bias) {
  if (!layer.quantized) return linear(x, weight, bias);
  const DynamicallyQuantized of_x = dynamically_quantized(n, x);
  const Value y = scaled(integer_product({of_x.y, of_x.zero}, q.levels), of_x.scale, q.scale);
  return bias ? y + bias : y;
}

// Returns the state after one step by the formulas of the specification; from_x: [batch, gates *
// hidden].
State stepped(Node& n, const Layer& layer, const Direction& d, const Value& from_x,
              const State& before) {
  const auto clipped = [&](const Value& v) {
    return layer.clip == 0 ? v : hardtanh(v, -layer.clip, layer.clip);
  };
  const auto act = [&](size_t i, const Value& v) {
    return gate_activation(n, d.f.at(i), clipped(v));
  };
  const auto gate = [&](const Value& v, int64_t i) { return part(v, i, layer.hidden, 1); };
  const Value& h = before.h;
  if (layer.cell == Cell::gru) {
    const Value from_h = linear(h, d.r, d.b_r);
    const Value z = act(0, gate(from_x, 0) + gate(from_h, 0));
    const Value r = act(0, gate(from_x, 1) + gate(from_h, 1));
    Value hidden;
    if (layer.before_reset) {
      hidden = r * gate(from_h, 2);
    } else {
      const Value bias = d.b_r ? part(d.b_r, 2, layer.hidden, 0) : Value();
      hidden = linear(r * h, part(d.r, 2, layer.hidden, 0), bias);
    }
    const Value fresh = act(1, gate(from_x, 2) + hidden);
    return {(1.0 - z) * fresh + z * h, {}};
  }
  const Value all = from_x + product(n, layer, h, d.r, d.q_r, d.b_r);
  if (layer.cell == Cell::rnn) return {act(0, all), {}};
  const auto peeped = [&](const Value& v, const Value& p, const Value& state) {
    return p ? v + p * state : v;
  };
  const Value i = act(0, peeped(gate(all, 0), d.p_i, before.c));
  const Value f = layer.input_forget ? 1.0 - i : act(0, peeped(gate(all, 2), d.p_f, before.c));
  const Value c = f * before.c + i * act(1, gate(all, 3));
  const Value o = act(0, peeped(gate(all, 1), d.p_o, c));
  return {o * act(2, c), c};
}

// Returns `state` where the condition, bool[batch], is true, otherwise `other`, or zeros without
// it.
Value kept(const Layer& layer, const Value& condition, const Value& state, const Value& other) {
  if (!state) return state;
  return where(reshape(condition, {layer.batch, 1}), state,
               other ? other : constant_like(state, 0));
}

// Runs step t, an i64[], for all sequences. Sequences that have ended keep their state and output
// zeros.
State advanced(Node& n, const Layer& layer, const Direction& d, const Value& from_x, const Value& t,
               const State& before, Value& y) {
  if (!layer.lengths) {
    State after = stepped(n, layer, d, from_x, before);
    y = after.h;
    return after;
  }
  State seen = before;
  if (layer.quantized)  // states that set the range of the 8 bits: zeros for ended sequences
    seen.h = kept(layer, ge(layer.lengths, t), before.h, Value());
  const State after = stepped(n, layer, d, from_x, seen);
  const Value goes = gt(layer.lengths, t);
  y = kept(layer, goes, after.h, Value());
  return {kept(layer, goes, after.h, before.h), kept(layer, goes, after.c, before.c)};
}

// Reverses the steps of each sequence; positions after its end stay.
Value reversed(const Layer& layer, const Value& x) {
  if (!layer.lengths) return flip(x, {0});
  const Value at = places(*x.graph(), layer.time, {layer.time, 1, 1});
  const Value length = reshape(layer.lengths, {1, layer.batch, 1});
  const Value from = where(lt(at, length), length - constant_like(length, 1) - at, at);
  return gather(x, expand(from, x.shape()), 0);
}

// Zeros positions at which all sequences have ended.
Value before_ends(const Layer& layer, const Value& x) {
  const Value at = places(*x.graph(), layer.time, {layer.time, 1, 1});
  return where(lt(at, amax(layer.lengths)), x, constant_like(x, 0));
}

// All steps as separate nodes. gates: [time, batch, gates * hidden], the contribution of x.
Scanned unrolled(Node& n, const Layer& layer, const Direction& d, const Value& gates) {
  State state{d.h0, d.c0};
  Values steps;
  for (int64_t t = 0; t < layer.time.constant(); ++t) {
    const Value from_x = reshape(slice(gates, 0, t, t + 1), {layer.batch, gates.dim(2)});
    Value y;
    state = advanced(n, layer, d, from_x, n.graph().scalar(t, i64), state, y);
    steps.push_back(reshape(y, {1, layer.batch, layer.hidden}));
  }
  return {concat(steps, 0), state.h, state.c};
}

// A loop with one step as its body. It carries the number of the step, the results so far and the
// state.
Scanned looped(Node& n, const Layer& layer, const Direction& d, const Value& gates) {
  Values values = {n.graph().scalar(int64_t{0}, i64),
                   expand(constant_like(d.h0, 0), {layer.time, layer.batch, layer.hidden}), d.h0};
  if (d.c0) values.push_back(d.c0);
  const size_t carried = values.size();
  Layer layer_inside = layer;
  Direction inside = d;
  Values captures = {gates};
  std::vector<Value*> captured;
  for (Value* each :
       {&inside.r, &inside.q_r.levels.value, &inside.q_r.levels.zero, &inside.q_r.scale,
        &inside.b_r, &inside.p_i, &inside.p_o, &inside.p_f, &layer_inside.lengths}) {
    if (!*each) continue;
    captures.push_back(*each);
    captured.push_back(each);
  }
  const auto goes_on = [&](Graph& body, std::span<const Value> xs) {
    return Values{lt(xs[0], size_value(body, layer.time))};
  };
  const auto round = [&](Graph& body, std::span<const Value> xs) {
    for (size_t i = 0; i < captured.size(); ++i) *captured[i] = xs[carried + 1 + i];
    const Value& t = xs[0];
    const Value from_x =
        reshape(index_select(xs[carried], reshape(t, {1}), 0), {layer.batch, gates.dim(2)});
    Value y;
    const State state =
        advanced(n, layer_inside, inside, from_x, t, {xs[2], d.c0 ? xs[3] : Value()}, y);
    const Value at = expand(reshape(t, {1, 1, 1}), {1, layer.batch, layer.hidden});
    Values next = {t + body.scalar(int64_t{1}, i64),
                   scatter(xs[1], at, reshape(y, {1, layer.batch, layer.hidden}), 0), state.h};
    if (d.c0) next.push_back(state.c);
    return next;
  };
  const Values out = while_loop(values, captures, goes_on, round);
  if (out.size() != carried) return {};
  return {out[1], out[2], d.c0 ? out[3] : Value()};
}

Scanned by_steps(Node& n, const Layer& layer, const Direction& d, const Value& given) {
  constexpr int64_t kMostSteps = 256;  // more become a loop
  Value x = d.reverse ? reversed(layer, given) : given;
  if (layer.quantized && layer.lengths) x = before_ends(layer, x);
  const Value gates = product(n, layer, x, d.w, d.q_w, d.b_w);
  const bool few =
      layer.time.is_constant() && layer.time.constant() > 0 && layer.time.constant() <= kMostSteps;
  Scanned result = few ? unrolled(n, layer, d, gates) : looped(n, layer, d, gates);
  if (result.y && d.reverse) result.y = reversed(layer, result.y);
  if (layer.lengths) {
    // ONNX Runtime's states for a sequence without steps, which the specification does not define.
    const Value has_steps = gt(layer.lengths, constant_like(layer.lengths, 0));
    for (Value* state : {&result.h, &result.c}) *state = kept(layer, has_steps, *state, Value());
  }
  return result;
}

std::vector<std::vector<Activation>> activations_of(Node& n, Cell cell, int directions) {
  std::vector<std::string> names = n.strings("activations");
  const std::vector<std::string> usual =
      cell == Cell::lstm  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
      : cell == Cell::gru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                          : std::vector<std::string>{"Tanh"};
  if (names.empty())
    for (int d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  const std::vector<double> alphas = n.reals("activation_alpha"),
                            betas = n.reals("activation_beta");
  // Each function with a parameter consumes the next one.
  size_t alpha = 0, beta = 0;
  const auto next = [](const std::vector<double>& given, size_t& at, std::optional<double> usual) {
    if (!usual) return 0.0;
    return at < given.size() ? given[at++] : *usual;
  };
  std::vector<std::vector<Activation>> result(directions);
  for (size_t i = 0; i < names.size() && i / usual.size() < result.size(); ++i)
    result[i / usual.size()].push_back({names[i], next(alphas, alpha, default_alpha(names[i])),
                                        next(betas, beta, default_beta(names[i]))});
  for (const auto& each : result) {
    if (each.size() != usual.size()) n.refuse("attribute 'activations' has not one per gate");
    for (const Activation& f : each)
      if (std::isnan(f.alpha + f.beta))
        n.refuse(str_cat("the activation '", f.name, "' has not its alpha and beta"));
  }
  return result;
}

// Refuses an input of another shape. Open sizes are checked when they are known.
void check_shape(Node& n, int i, const char* name, const Shape& shape) {
  if (!n.has(i)) return;
  const Value v = n.in(i);
  const auto refuse = [&] {
    n.refuse(str_cat("input ", name, " is ", v.shape(), ", not ", shape));
  };
  if (v.rank() != static_cast<int>(shape.size())) refuse();
  for (int d = 0; d < v.rank(); ++d) {
    if (v.dim(d) == shape[d]) continue;
    if (v.dim(d).is_constant() && shape[d].is_constant()) refuse();
    n.graph().guard(v.dim(d), Relation::eq, shape[d], str_cat("input ", name));
  }
}

void recurrent(Node& n, Cell cell, bool quantized = false) {
  Value x = n.in(0);
  const bool batch_first = n.flag("layout");
  if (batch_first) x = permute(x, {1, 0, 2});
  const std::string direction = n.string("direction", "forward");
  const int directions = direction == "bidirectional" ? 2 : 1;
  Layer layer;
  layer.cell = cell;
  layer.gates = cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1;
  layer.quantized = quantized;
  const Value b = n.in_or_none(3);
  if (!quantized && n.in(2).rank() != 3) n.refuse(str_cat("input R is ", n.in(2).shape()));
  layer.hidden = n.in(2).dim(quantized ? 1 : 2);
  layer.time = x.dim(0);
  layer.batch = x.dim(1);
  layer.clip = n.real("clip", 0.0);
  layer.input_forget = n.flag("input_forget");
  layer.before_reset = n.flag("linear_before_reset");
  if (n.has(4)) layer.lengths = reshape(cast(n.in(4), i64), {layer.batch});
  const Dim rows = Dim(layer.gates) * layer.hidden;
  if (!quantized) {
    check_shape(n, 1, "W", {directions, rows, x.dim(2)});
    check_shape(n, 2, "R", {directions, rows, layer.hidden});
  }
  check_shape(n, 3, "B", {directions, rows + rows});
  Shape states = {directions, layer.batch, layer.hidden};
  if (batch_first) std::swap(states[0], states[1]);
  check_shape(n, 5, "initial_h", states);
  if (cell == Cell::lstm) {
    check_shape(n, 6, "initial_c", states);
    check_shape(n, 7, "P", {directions, Dim(3) * layer.hidden});
  }
  const auto all = activations_of(n, cell, directions);
  const auto at = [&](const Value& v, int d, int dim = 0) {  // removes the dim of directions
    if (v.rank() <= dim) n.refuse(str_cat("an input is ", v.shape(), ", without directions"));
    Shape shape = v.shape();
    shape.erase(shape.begin() + dim);
    return reshape(slice(v, dim, d, d + 1), std::move(shape));
  };
  Values ys, hs, cs;
  for (int d = 0; d < directions; ++d) {
    Direction one;
    if (quantized) {
      one.q_w = {integers_at(n, 1, 9, d), at(scale_of(n, 8), d)};
      one.q_r = {integers_at(n, 2, 11, d), at(scale_of(n, 10), d)};
    } else {
      one.all_w = n.in(1);
      one.all_r = n.in(2);
      one.index = d;
      one.w = at(one.all_w, d);
      one.r = at(one.all_r, d);
    }
    if (b) {
      one.b_w = slice(at(b, d), 0, 0, rows);
      one.b_r = slice(at(b, d), 0, rows, rows + rows);
    }
    const auto state = [&](int i) {
      const Shape shape = {layer.batch, layer.hidden};
      return n.has(i) ? reshape(at(n.in(i), d, batch_first ? 1 : 0), shape)
                      : expand(constant_like(x, 0), shape);
    };
    one.h0 = state(5);
    if (cell == Cell::lstm) {
      one.c0 = state(6);
      if (n.has(7)) {
        const Value p = at(n.in(7), d);
        one.p_i = part(p, 0, layer.hidden, 0);
        one.p_o = part(p, 1, layer.hidden, 0);
        one.p_f = part(p, 2, layer.hidden, 0);
      }
    }
    one.f = all[d];
    one.reverse = direction == "reverse" || d == 1;
    const Scanned result =
        is_torch(layer, one) ? scanned(layer, one, x) : by_steps(n, layer, one, x);
    if (!result.y) n.refuse(std::string(n.graph().take_status().message()));
    ys.push_back(reshape(result.y, {layer.time, 1, layer.batch, layer.hidden}));
    hs.push_back(reshape(result.h, {1, layer.batch, layer.hidden}));
    if (result.c) cs.push_back(reshape(result.c, {1, layer.batch, layer.hidden}));
  }
  Values out = {concat(ys, 1), concat(hs, 0)};
  if (!cs.empty()) out.push_back(concat(cs, 0));
  if (batch_first) {
    out[0] = permute(out[0], {2, 0, 1, 3});
    for (size_t i = 1; i < out.size(); ++i) out[i] = permute(out[i], {1, 0, 2});
  }
  n.give(out);
}

void lstm_of(Node& n) { recurrent(n, Cell::lstm); }
void gru_of(Node& n) { recurrent(n, Cell::gru); }
void rnn_of(Node& n) { recurrent(n, Cell::rnn); }
// Matches ONNX Runtime with one thread. With more, it computes the range for subsets of the
// sequences.
void quantized_lstm(Node& n) { recurrent(n, Cell::lstm, true); }

constexpr Builtin kRows[] = {
    {"onnx::LSTM", row<lstm_of>},
    {"onnx::GRU", row<gru_of>},
    {"onnx::RNN", row<rnn_of>},
    {"com.microsoft::DynamicQuantizeLSTM", row<quantized_lstm>},
};

}  // namespace

Rows recurrent_rows() { return kRows; }

}  // namespace hg::convert::onnx
