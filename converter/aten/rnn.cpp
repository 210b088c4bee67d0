// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: for each layer and direction, a linear op over all time steps, and a scan.
#include "converter/aten/packed.h"
#include "converter/rows/view.h"
#include "hg/ops/matmul.h"
#include "hg/ops/operators.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

enum class Kind { lstm, gru, tanh, relu };

struct Weights {  // of one direction of one layer
  Value ih, hh, b_ih, b_hh, hr;
};

// Returns y, h and, for an LSTM, c of one direction. x: [time, batch, in]
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

// Returns the state of one direction of one layer: [layers, batch, out] -> [batch, out].
Value state_at(const Value& all, int i) {
  const Value one =
      all.graph()->call("slice", {all}, {{"dim", 0}, {"start", i}, {"end", i + 1}, {"step", 1}});
  return reshaped(one, {all.dim(1), all.dim(2)});
}

// Returns a state as one entry of a stack: [batch, out] -> [1, batch, out].
Value as_step(const Value& h) { return reshaped(h, {Dim(1), h.dim(0), h.dim(1)}); }

// ---- Packed sequences ----

// Reverses the steps of each sequence; positions after its end stay. x: [time, batch, n]
Value reversed(const Value& x, const Packed& packed) {
  Graph& g = *x.graph();
  const Value time = reshaped(g.call("arange", {}, {{"end", packed.time}}), {packed.time, 1});
  const Value last = reshaped(packed.lengths(), {1, packed.batch}) - g.scalar(int64_t{1}, i64);
  const Value from = g.call("where", {going_on(g, packed), last - time, time});
  return g.call("gather", {x, expanded(reshaped(from, {packed.time, packed.batch, 1}), x.shape())},
                {{"dim", 0}});
}

// Returns the last step of each sequence: [batch, n].
Value last_of(const Value& y, const Packed& packed) {
  Graph& g = *y.graph();
  const Value last = packed.lengths() - g.scalar(int64_t{1}, i64);
  const Value step = g.call(
      "gather", {y, expanded(reshaped(last, {1, packed.batch, 1}), {1, packed.batch, y.dim(2)})},
      {{"dim", 0}});
  return reshaped(step, {packed.batch, y.dim(2)});
}

// Gate input that keeps the cell after the end of a sequence: -kShut closes the input gate, kShut
// opens the forget gate. Products of weights and states are much smaller.
constexpr double kShut = 1e4;

Values scan_packed(Kind kind, const Value& x, const Weights& w, const Value& h0, const Value& c0,
                   bool reverse, const Packed& packed) {
  Graph& g = *x.graph();
  const Value steps = reverse ? reversed(x, packed) : x;
  Values out;
  if (kind == Kind::lstm) {
    const Value gates = linear(steps, w.ih, w.b_ih);
    const Dim hidden = floordiv(w.hh.dim(0), 4);
    const auto part = [&](double value, const Dim& n) {
      return expanded(g.scalar(value, x.dtype()), {n});
    };
    const Value shut =
        g.call("concat", {part(-kShut, hidden), part(kShut, hidden), part(0, hidden + hidden)},
               {{"dim", 0}});
    const Value going = reshaped(going_on(g, packed), {packed.time, packed.batch, 1});
    out = g.calls("lstm_scan", {g.call("where", {going, gates, shut}), h0, c0, w.hh, w.b_hh, w.hr},
                  {{"reverse", false}});
  } else {
    out = scan(kind, steps, w, h0, c0, false);
  }
  out[1] = last_of(out[0], packed);
  if (reverse) out[0] = reversed(out[0], packed);
  return out;
}

// Returns h0 and, for an LSTM, c0.
std::pair<Value, Value> first_states(Call& call, Kind kind) {
  if (kind != Kind::lstm) return {call.tensor("hx"), {}};
  const Values states = call.tensors("hx");
  if (states.size() != 2) call.refuse("hx", "must hold two states");
  return {states[0], states[1]};
}

void recurrent(Call& call, Kind kind) {
  Graph& g = call.graph();
  const bool is_packed = call.find("batch_sizes") != nullptr;
  std::optional<Packed> packed;
  if (is_packed) packed = call.packed(call.ref("batch_sizes"));
  if (is_packed && !packed) call.refuse("batch_sizes", "comes of no pack_padded_sequence");
  Value x =
      packed ? padded_of(call, call.ref("data"), call.ref("batch_sizes")) : call.tensor("input");
  if (x.rank() != 3) call.refuse("input", "must have the dims time, batch and features");
  const Values params = call.tensors("params");
  const bool has_biases = call.flag("has_biases"), batch_first = call.flag("batch_first", false);
  const int layers = static_cast<int>(call.number("num_layers"));
  const int directions = call.flag("bidirectional") ? 2 : 1;
  const double dropout = call.flag("train") ? call.real("dropout", 0.0) : 0;
  const bool drops = dropout > 0 && layers > 1;
  auto [h0, c0] = first_states(call, kind);
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
      const Value h = state_at(h0, cell), c = c0 ? state_at(c0, cell) : Value();
      const Values out = packed ? scan_packed(kind, x, w, h, c, direction == 1, *packed)
                                : scan(kind, x, w, h, c, direction == 1);
      both.push_back(out.at(0));
      last_h.push_back(as_step(out.at(1)));
      if (kind == Kind::lstm) last_c.push_back(as_step(out.at(2)));
    }
    x = joined(both, 2);
    if (drops && layer + 1 < layers) {
      if (dropout >= 1) call.refuse("dropout", "must be below 1 in training mode");
      call.note("dropout between recurrent layers runs in training mode, as traced");
      x = g.call("dropout", {x}, {{"p", dropout}, {"training", true}});
    }
  }
  if (batch_first) x = g.call("permute", {x}, {{"dims", Dims{1, 0, 2}}});
  if (packed) {
    std::vector<Item> results = {Item(pack(call, x, *packed)),
                                 Item(call.make_tensor(joined(last_h, 0)))};
    if (kind == Kind::lstm) results.emplace_back(call.make_tensor(joined(last_c, 0)));
    return call.returns(std::move(results));
  }
  Values outputs = {x, joined(last_h, 0)};
  if (kind == Kind::lstm) outputs.push_back(joined(last_c, 0));
  call.returns(outputs);
}

void lstm(Call& call) { recurrent(call, Kind::lstm); }
void gru(Call& call) { recurrent(call, Kind::gru); }
void rnn_tanh(Call& call) { recurrent(call, Kind::tanh); }
void rnn_relu(Call& call) { recurrent(call, Kind::relu); }

// One step. input: [batch, in], or [in]
void cell_of(Call& call, Kind kind) {
  Value x = call.tensor("input");
  auto [h0, c0] = first_states(call, kind);
  const Shape shape = h0.shape();
  auto batched = [](const Value& v) {
    return v && v.rank() == 1 ? reshaped(v, {Dim(1), v.dim(0)}) : v;
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
  for (Value& v : out) v = reshaped(v, shape);
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
