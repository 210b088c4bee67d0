// SPDX-License-Identifier: Apache-2.0
// Gradients of recurrent layers, one unit at a time.
#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// One step back at a time; for lstm, the cells are computed first. d[g]: gradient of the gates.
void scan_grad(const Call& c, int gates, size_t weight, size_t dy, size_t dh0) {
  const int64_t time = c.in[0].shape[0], batch = c.in[0].shape[1], width = c.in[0].shape[2];
  const int64_t hidden = width / gates, states = batch * hidden;
  const bool reverse = c.attrs.flag("reverse");
  const auto start = [&](size_t i) {
    return given(c, i) ? c.in[i].values : std::vector<double>(states, 0.0);
  };
  std::vector<double> dh = start(dy + 1), dc = gates == 4 ? start(dy + 2) : dh;
  std::vector<std::vector<double>> cells = {gates == 4 ? c.in[1].values : dh};
  const auto gate = [&](int64_t t, int64_t i, int g, int64_t j) {
    return c.in[0].at((t * batch + i) * width + g * hidden + j);
  };
  for (int64_t k = 0; gates == 4 && k < time; ++k) {
    const int64_t t = reverse ? time - 1 - k : k;
    cells.push_back(cells.back());
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t j = 0; j < hidden; ++j) {
        double& s = cells.back()[i * hidden + j];
        s = sigmoid(gate(t, i, 1, j)) * s + sigmoid(gate(t, i, 0, j)) * std::tanh(gate(t, i, 2, j));
      }
  }
  for (int64_t k = time; k-- > 0;) {
    const int64_t t = reverse ? time - 1 - k : k;
    std::vector<double> next(states, 0.0);
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t j = 0; j < hidden; ++j) {
        const size_t at = static_cast<size_t>(i * hidden + j);
        const int64_t each = t * states + i * hidden + j, row = (t * batch + i) * width + j;
        const double d = dh[at] + (given(c, dy) ? c.in[dy].at(each) : 0);
        double da[4], du[4];  // of the gates and of the recurrent products
        if (gates == 4) {
          const double in = sigmoid(gate(t, i, 0, j)), forget = sigmoid(gate(t, i, 1, j));
          const double fresh = std::tanh(gate(t, i, 2, j)), out = sigmoid(gate(t, i, 3, j));
          const double squashed = std::tanh(cells[k + 1][at]);
          const double s = dc[at] + d * out * (1 - squashed * squashed);
          da[0] = s * fresh * in * (1 - in);
          da[1] = s * cells[k][at] * forget * (1 - forget);
          da[2] = s * in * (1 - fresh * fresh);
          da[3] = d * squashed * out * (1 - out);
          dc[at] = s * forget;
        } else if (gates == 3) {
          const double u = c.in[1].at(row + 2 * hidden);
          const double r = sigmoid(gate(t, i, 0, j) + c.in[1].at(row));
          const double z = sigmoid(gate(t, i, 1, j) + c.in[1].at(row + hidden));
          const double n = std::tanh(gate(t, i, 2, j) + r * u);
          da[2] = d * (1 - z) * (1 - n * n);
          da[0] = da[2] * u * r * (1 - r);
          da[1] = d * (c.in[2].at(each) - n) * z * (1 - z);
          next[at] += d * z;
        } else {
          const double y = c.in[0].at(each);
          const bool tanh = c.attrs.string("nonlinearity") == "tanh";
          da[0] = tanh ? d * (1 - y * y) : y > 0 ? d : 0;
        }
        for (int g = 0; g < gates; ++g) {
          du[g] =
              gates == 3 && g == 2 ? da[g] * sigmoid(gate(t, i, 0, j) + c.in[1].at(row)) : da[g];
          c.out[0].at(row + g * hidden) = da[g];
          if (gates == 3) c.out[1].at(row + g * hidden) = du[g];
          for (int64_t e = 0; e < hidden; ++e)
            next[i * hidden + e] += du[g] * c.in[weight].at((g * hidden + j) * hidden + e);
        }
      }
    dh = next;
  }
  c.out[dh0].values = dh;
  if (gates == 4) c.out[2].values = dc;
}

void lstm_grad_run(const Call& c) { scan_grad(c, 4, 2, 3, 1); }
void gru_grad_run(const Call& c) { scan_grad(c, 3, 3, 4, 2); }
void rnn_grad_run(const Call& c) { scan_grad(c, 1, 1, 2, 1); }

constexpr Row kRows[] = {
    {"lstm_scan_grad", lstm_grad_run},
    {"gru_scan_grad", gru_grad_run},
    {"rnn_scan_grad", rnn_grad_run},
};

}  // namespace

std::span<const Row> rnn_grad() { return kRows; }

}  // namespace hg::reference::rows
