// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN: one scan of the graph where the layer is torch's, else step by step.
#include <cmath>

#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

enum class Cell { lstm, gru, rnn };

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

double default_alpha(const std::string& name) {
  if (name == "LeakyRelu") return double{0.01f};
  if (name == "ThresholdedRelu" || name == "Elu" || name == "ScaledTanh" || name == "Affine")
    return 1;
  return name == "HardSigmoid" ? double{0.2f} : 0;
}
double default_beta(const std::string& name) {
  return name == "HardSigmoid" ? 0.5 : name == "ScaledTanh" ? 1 : 0;
}

Value activated(Node& n, const Activation& f, const Value& x) {
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

// One direction of the layer.
struct Direction {
  Value w, r, b_w, b_r;  // [gates * hidden, in], [gates * hidden, hidden], [gates * hidden]
  Value p_i, p_o, p_f;   // peepholes [hidden], may be missing
  Value h0, c0;          // [batch, hidden]
  std::vector<Activation> f;
  bool reverse = false;
};

struct Layer {
  Cell cell = Cell::rnn;
  int64_t gates = 1;
  Dim hidden, time, batch;
  double clip = 0;
  bool input_forget = false, before_reset = false;
  Value lengths;  // i64[batch], may be missing
};

Value part(const Value& x, int64_t i, const Dim& hidden, int dim) {
  return slice(x, dim, Dim(i) * hidden, Dim(i + 1) * hidden);
}
// The gates of a weight or a bias in another order.
Value reordered(const Value& x, const Dim& hidden, const std::vector<int64_t>& order) {
  if (!x) return x;
  Values parts;
  for (const int64_t i : order) parts.push_back(part(x, i, hidden, 0));
  return concat(parts, 0);
}

bool is_torch(const Layer& layer, const Direction& d) {
  if (layer.lengths || layer.clip != 0 || layer.input_forget || d.p_i) return false;
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

struct Result {
  Value y, h, c;  // [time, batch, hidden], [batch, hidden]
};

Result scanned(const Layer& layer, const Direction& d, const Value& x) {
  Graph& g = *x.graph();
  const std::vector<int64_t> order = layer.cell == Cell::lstm  ? std::vector<int64_t>{0, 2, 3, 1}
                                     : layer.cell == Cell::gru ? std::vector<int64_t>{1, 0, 2}
                                                               : std::vector<int64_t>{0};
  const auto turned = [&](const Value& v) { return reordered(v, layer.hidden, order); };
  const Value gates = linear(x, turned(d.w), turned(d.b_w));
  Values out;
  if (layer.cell == Cell::lstm)
    out = g.calls("lstm_scan", {gates, d.h0, d.c0, turned(d.r), turned(d.b_r)},
                  {{"reverse", d.reverse}});
  else if (layer.cell == Cell::gru)
    out = g.calls("gru_scan", {gates, d.h0, turned(d.r), turned(d.b_r)}, {{"reverse", d.reverse}});
  else
    out = g.calls(
        "rnn_scan", {gates, d.h0, d.r, d.b_r},
        {{"nonlinearity", d.f[0].name == "Tanh" ? "tanh" : "relu"}, {"reverse", d.reverse}});
  Result result;
  if (out.size() >= 2) {
    result.y = out[0];
    result.h = out[1];
  }
  if (out.size() == 3) result.c = out[2];
  return result;
}

// The state after one step, by the formulas of the specification.
void step(Node& n, const Layer& layer, const Direction& d, const Value& x, Value& h, Value& c) {
  const auto clipped = [&](const Value& v) {
    return layer.clip == 0 ? v : hardtanh(v, -layer.clip, layer.clip);
  };
  const auto act = [&](size_t i, const Value& v) { return activated(n, d.f.at(i), clipped(v)); };
  const auto gate = [&](const Value& v, int64_t i) { return part(v, i, layer.hidden, 1); };
  const Value from_x = linear(x, d.w, d.b_w);
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
    h = (1.0 - z) * fresh + z * h;
    return;
  }
  const Value all = from_x + linear(h, d.r, d.b_r);
  if (layer.cell == Cell::rnn) {
    h = act(0, all);
    return;
  }
  const auto peeped = [&](const Value& v, const Value& p, const Value& state) {
    return p ? v + p * state : v;
  };
  const Value i = act(0, peeped(gate(all, 0), d.p_i, c));
  const Value f = layer.input_forget ? 1.0 - i : act(0, peeped(gate(all, 2), d.p_f, c));
  c = f * c + i * act(1, gate(all, 3));
  const Value o = act(0, peeped(gate(all, 1), d.p_o, c));
  h = o * act(2, c);
}

// Each sequence with its steps in reverse; what follows its end stays.
Value reversed(const Layer& layer, const Value& x) {
  if (!layer.lengths) return flip(x, {0});
  Graph& g = *x.graph();
  const Value at = reshape(g.call("arange", {}, {{"end", layer.time}}), {layer.time, 1, 1});
  const Value length = reshape(layer.lengths, {1, layer.batch, 1});
  const Value from = where(lt(at, length), length - constant_like(length, 1) - at, at);
  return gather(x, expand(from, x.shape()), 0);
}

Result unrolled(Node& n, const Layer& layer, const Direction& d, const Value& given) {
  constexpr int64_t kMostSteps = 1024;
  if (!layer.time.is_constant() || layer.time.constant() > kMostSteps)
    n.refuse(str_cat("its length ", layer.time,
                     " is open or large, and this layer (lengths of its own, "
                     "clip, peepholes or other activations) runs step by step"),
             "give a number for the length with --dim");
  const Value x = d.reverse ? reversed(layer, given) : given;
  Result result{{}, d.h0, d.c0};
  Values steps;
  for (int64_t t = 0; t < layer.time.constant(); ++t) {
    Value h = result.h, c = result.c;
    step(n, layer, d, reshape(slice(x, 0, t, t + 1), {layer.batch, x.dim(2)}), h, c);
    Value y = h;
    if (layer.lengths) {
      const Value goes = reshape(gt(layer.lengths, n.graph().scalar(t, i64)), {layer.batch, 1});
      y = where(goes, h, constant_like(h, 0));
      h = where(goes, h, result.h);
      if (c) c = where(goes, c, result.c);
    }
    result.h = h;
    result.c = c;
    steps.push_back(reshape(y, {1, layer.batch, layer.hidden}));
  }
  if (steps.empty()) n.refuse("its length is 0");
  result.y = concat(steps, 0);
  if (d.reverse) result.y = reversed(layer, result.y);
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
  std::vector<std::vector<Activation>> result(directions);
  for (size_t i = 0; i < names.size() && i / usual.size() < result.size(); ++i)
    result[i / usual.size()].push_back({names[i],
                                        i < alphas.size() ? alphas[i] : default_alpha(names[i]),
                                        i < betas.size() ? betas[i] : default_beta(names[i])});
  for (const auto& each : result)
    if (each.size() != usual.size()) n.refuse("attribute 'activations' has not one per gate");
  return result;
}

void recurrent(Node& n, Cell cell) {
  Value x = n.in(0);
  const bool batch_first = n.integer("layout", 0) != 0;
  if (batch_first) x = permute(x, {1, 0, 2});
  const std::string direction = n.string("direction", "forward");
  const int directions = direction == "bidirectional" ? 2 : 1;
  Layer layer;
  layer.cell = cell;
  layer.gates = cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1;
  const Value w = n.in(1), r = n.in(2), b = n.in_or_none(3);
  layer.hidden = r.dim(2);
  layer.time = x.dim(0);
  layer.batch = x.dim(1);
  layer.clip = n.real("clip", 0.0);
  layer.input_forget = n.flag("input_forget");
  layer.before_reset = n.flag("linear_before_reset");
  if (n.has(4)) layer.lengths = cast(n.in(4), i64);
  const auto all = activations_of(n, cell, directions);
  const auto at = [&](const Value& v, int d, int dim = 0) {  // without the dim of directions
    Shape shape = v.shape();
    shape.erase(shape.begin() + dim);
    return reshape(slice(v, dim, d, d + 1), std::move(shape));
  };
  Values ys, hs, cs;
  for (int d = 0; d < directions; ++d) {
    Direction one;
    one.w = at(w, d);
    one.r = at(r, d);
    const Dim rows = Dim(layer.gates) * layer.hidden;
    if (b) {
      one.b_w = slice(at(b, d), 0, 0, rows);
      one.b_r = slice(at(b, d), 0, rows, rows + rows);
    }
    const auto state = [&](int i) {
      return n.has(i) ? at(n.in(i), d, batch_first ? 1 : 0)
                      : expand(constant_like(x, 0), {layer.batch, layer.hidden});
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
    const Result result =
        is_torch(layer, one) ? scanned(layer, one, x) : unrolled(n, layer, one, x);
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

constexpr Builtin kRows[] = {
    {"onnx::LSTM", row<lstm_of>},
    {"onnx::GRU", row<gru_of>},
    {"onnx::RNN", row<rnn_of>},
};

}  // namespace

Rows recurrent_rows() { return kRows; }

}  // namespace hg::convert::onnx
