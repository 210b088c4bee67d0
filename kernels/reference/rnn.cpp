// SPDX-License-Identifier: Apache-2.0
// Recurrent layers, one unit at a time.
#include "kernels/reference/rnn.h"

#include <cmath>
#include <vector>

namespace hg::reference {

void scan(const Scan& s, std::span<Array> y) {
  const int64_t time = s.gates.shape[0], batch = s.gates.shape[1], width = s.gates.shape[2];
  const int gates = gate_count(s.cell);
  const int64_t hidden = width / gates, out = s.h0.shape[1];
  std::vector<double> h = s.h0.values, cell;
  if (s.c0 != nullptr) cell = s.c0->values;
  for (int64_t k = 0; k < time; ++k) {
    const int64_t t = s.reverse ? time - 1 - k : k;
    std::vector<double> next(batch * hidden);
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t j = 0; j < hidden; ++j) {
        double back[4], own[4];
        for (int g = 0; g < gates; ++g) {
          const int64_t row = g * hidden + j;
          own[g] = s.gates.at((t * batch + i) * width + row);
          back[g] = s.bias != nullptr ? s.bias->at(row) : 0;
          for (int64_t e = 0; e < out; ++e) back[g] += s.weight.at(row * out + e) * h[i * out + e];
        }
        double& state = next[i * hidden + j];
        if (s.cell == Cell::lstm) {
          double& c = cell[i * hidden + j];
          c = sigmoid(own[1] + back[1]) * c +
              sigmoid(own[0] + back[0]) * std::tanh(own[2] + back[2]);
          state = sigmoid(own[3] + back[3]) * std::tanh(c);
        } else if (s.cell == Cell::gru) {
          const double r = sigmoid(own[0] + back[0]), z = sigmoid(own[1] + back[1]);
          state = (1 - z) * std::tanh(own[2] + r * back[2]) + z * h[i * hidden + j];
        } else {
          const double v = own[0] + back[0];
          state = s.cell == Cell::tanh ? std::tanh(v) : std::fmax(v, 0.0);
        }
      }
    if (s.projection != nullptr) {
      std::vector<double> less(batch * out);
      for (int64_t i = 0; i < batch; ++i)
        for (int64_t o = 0; o < out; ++o)
          for (int64_t j = 0; j < hidden; ++j)
            less[i * out + o] += s.projection->at(o * hidden + j) * next[i * hidden + j];
      next = less;
    }
    h = next;
    for (size_t i = 0; i < h.size(); ++i) y[0].at(t * batch * out + static_cast<int64_t>(i)) = h[i];
  }
  y[1].values = h;
  if (s.cell == Cell::lstm) y[2].values = cell;
}

namespace rows {
namespace {

void lstm_run(const Call& c) {
  scan({.cell = Cell::lstm,
        .gates = c.in[0],
        .h0 = c.in[1],
        .weight = c.in[3],
        .c0 = &c.in[2],
        .bias = given(c, 4) ? &c.in[4] : nullptr,
        .projection = given(c, 5) ? &c.in[5] : nullptr,
        .reverse = c.attrs.flag("reverse")},
       c.out);
}
void run_one_state(const Call& c, Cell cell) {
  scan({.cell = cell,
        .gates = c.in[0],
        .h0 = c.in[1],
        .weight = c.in[2],
        .bias = given(c, 3) ? &c.in[3] : nullptr,
        .reverse = c.attrs.flag("reverse")},
       c.out);
}
void gru_run(const Call& c) { run_one_state(c, Cell::gru); }
void rnn_run(const Call& c) { run_one_state(c, *parse_cell(c.attrs.string("nonlinearity"))); }

constexpr Row kRows[] = {
    {"lstm_scan", lstm_run},
    {"gru_scan", gru_run},
    {"rnn_scan", rnn_run},
};

}  // namespace

std::span<const Row> rnn() { return kRows; }

}  // namespace rows
}  // namespace hg::reference
