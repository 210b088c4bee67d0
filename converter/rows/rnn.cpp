// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: for each layer and direction a linear over all time steps and a scan.
#include "converter/rows.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;
using Dims = std::vector<Dim>;

enum class Kind { lstm, gru, tanh, relu };

Value reshape(const Value& x, Shape shape) {
  return x.shape() == shape ? x : x.graph()->call("reshape", {x}, {{"shape", shape}});
}
Value linear(const Value& x, const Value& weight, const Value& bias) {
  return x.graph()->call("linear", {x, weight, bias});
}
Value concat(Graph& g, const Values& parts, int dim) {
  return parts.size() == 1 ? parts[0] : g.call("concat", parts, {{"dim", dim}});
}

struct Weights {  // of one direction of one layer
  Value ih, hh, b_ih, b_hh, hr;
};

// The outputs y, h and (of an LSTM) c of one direction. x: [time, batch, in]
Values scan(Kind kind, const Value& x, const Weights& w, const Value& h0, const Value& c0,
            bool reverse) {
  Graph& g = *x.graph();
  const Value gates = linear(x, w.ih, w.b_ih);
  if (kind == Kind::lstm)
    return g.calls("lstm_scan", {gates, h0, c0, w.hh, w.b_hh, w.hr}, {{"reverse", reverse}});
  if (kind == Kind::gru)
    return g.calls("gru_scan", {gates, h0, w.hh, w.b_hh}, {{"reverse", reverse}});
  return g.calls("rnn_scan", {gates, h0, w.hh, w.b_hh},
                 {{"nonlinearity", kind == Kind::tanh ? "tanh" : "relu"}, {"reverse", reverse}});
}

// The state of one direction of one layer: [layers, batch, out] -> [batch, out]
Value state_at(const Value& all, int i) {
  const Value one =
      all.graph()->call("slice", {all}, {{"dim", 0}, {"start", i}, {"end", i + 1}, {"step", 1}});
  return reshape(one, {all.dim(1), all.dim(2)});
}

// A state as a step of a stack: [batch, out] -> [1, batch, out]
Value as_step(const Value& h) { return reshape(h, {Dim(1), h.dim(0), h.dim(1)}); }

void recurrent(Call& call, Kind kind) {
  if (call.overload() == "data" || call.find("batch_sizes") != nullptr)
    call.refuse("batch_sizes", "packed sequences are not supported; pad them");
  Graph& g = call.graph();
  Value x = call.tensor("input");
  if (x.rank() != 3) call.refuse("input", "must have the dims time, batch and features");
  const Values params = call.tensors("params");
  const bool has_biases = call.flag("has_biases"), batch_first = call.flag("batch_first");
  const int layers = static_cast<int>(call.number("num_layers"));
  const int directions = call.flag("bidirectional") ? 2 : 1;
  const double dropout = call.real("dropout", 0.0);
  const bool drops = call.flag("train") && dropout > 0 && layers > 1;
  Value h0, c0;
  if (kind == Kind::lstm) {
    const Values states = call.tensors("hx");
    if (states.size() != 2) call.refuse("hx", "must hold two states");
    h0 = states[0];
    c0 = states[1];
  } else {
    h0 = call.tensor("hx");
  }
  const size_t cells = static_cast<size_t>(layers * directions);
  const size_t each = cells == 0 ? 0 : params.size() / cells;
  const size_t plain = has_biases ? 4 : 2;
  if (cells == 0 || params.size() % cells != 0 ||
      (each != plain && !(kind == Kind::lstm && each == plain + 1)))
    call.refuse("params", "has the wrong number of weights");
  if (batch_first) x = g.call("permute", {x}, {{"dims", Dims{1, 0, 2}}});
  Values last_h, last_c;
  for (int layer = 0; layer < layers; ++layer) {
    Values both;
    for (int direction = 0; direction < directions; ++direction) {
      const int cell = layer * directions + direction;
      const Value* p = params.data() + static_cast<size_t>(cell) * each;
      Weights w{p[0], p[1], {}, {}, {}};
      if (has_biases) {
        w.b_ih = p[2];
        w.b_hh = p[3];
      }
      if (each > plain) w.hr = p[plain];
      const Values out =
          scan(kind, x, w, state_at(h0, cell), c0 ? state_at(c0, cell) : Value(), direction == 1);
      both.push_back(out.at(0));
      last_h.push_back(as_step(out.at(1)));
      if (kind == Kind::lstm) last_c.push_back(as_step(out.at(2)));
    }
    x = concat(g, both, 2);
    if (drops && layer + 1 < layers) {
      if (dropout >= 1) call.refuse("dropout", "must be below 1 in training mode");
      call.note("dropout between recurrent layers runs in training mode, as traced");
      x = g.call("dropout", {x}, {{"p", dropout}, {"training", true}});
    }
  }
  if (batch_first) x = g.call("permute", {x}, {{"dims", Dims{1, 0, 2}}});
  Values outputs = {x, concat(g, last_h, 0)};
  if (kind == Kind::lstm) outputs.push_back(concat(g, last_c, 0));
  call.returns(outputs);
}

void lstm(Call& call) { recurrent(call, Kind::lstm); }
void gru(Call& call) { recurrent(call, Kind::gru); }
void rnn_tanh(Call& call) { recurrent(call, Kind::tanh); }
void rnn_relu(Call& call) { recurrent(call, Kind::relu); }

// One step. input: [batch, in], or [in]
void cell_of(Call& call, Kind kind) {
  Value x = call.tensor("input"), h0, c0;
  if (kind == Kind::lstm) {
    const Values states = call.tensors("hx");
    if (states.size() != 2) call.refuse("hx", "must hold two states");
    h0 = states[0];
    c0 = states[1];
  } else {
    h0 = call.tensor("hx");
  }
  const Shape shape = h0.shape();
  auto batched = [](const Value& v) {
    return v && v.rank() == 1 ? reshape(v, {Dim(1), v.dim(0)}) : v;
  };
  x = batched(x);
  if (x.rank() != 2) call.refuse("input", "must have the dims batch and features");
  const Weights w{call.tensor("w_ih"),
                  call.tensor("w_hh"),
                  call.tensor_or_none("b_ih"),
                  call.tensor_or_none("b_hh"),
                  {}};
  Values out = scan(kind, as_step(x), w, batched(h0), batched(c0), false);
  out.erase(out.begin());
  for (Value& v : out) v = reshape(v, shape);
  call.returns(out);
}

void lstm_cell(Call& call) { cell_of(call, Kind::lstm); }
void gru_cell(Call& call) { cell_of(call, Kind::gru); }
void rnn_tanh_cell(Call& call) { cell_of(call, Kind::tanh); }
void rnn_relu_cell(Call& call) { cell_of(call, Kind::relu); }

constexpr Row kRows[] = {
    {"aten::lstm", lstm},
    {"aten::gru", gru},
    {"aten::rnn_tanh", rnn_tanh},
    {"aten::rnn_relu", rnn_relu},
    {"aten::lstm_cell", lstm_cell},
    {"aten::gru_cell", gru_cell},
    {"aten::rnn_tanh_cell", rnn_tanh_cell},
    {"aten::rnn_relu_cell", rnn_relu_cell},
};

}  // namespace

std::span<const Row> rnn() { return kRows; }

}  // namespace hg::convert::rows
