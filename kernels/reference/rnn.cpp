// SPDX-License-Identifier: Apache-2.0
// Recurrent layers, one unit at a time.
#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

void scan(const Call& c, int gates, size_t weight, size_t bias) {
  const int64_t time = c.in[0].shape[0], batch = c.in[0].shape[1], width = c.in[0].shape[2];
  const int64_t hidden = width / gates, out = c.in[1].shape[1];
  const Array& w = c.in[weight];
  const bool projects = gates == 4 && given(c, 5);
  std::vector<double> h = c.in[1].values, cell;
  if (gates == 4) cell = c.in[2].values;
  for (int64_t k = 0; k < time; ++k) {
    const int64_t t = c.attrs.flag("reverse") ? time - 1 - k : k;
    std::vector<double> next(batch * hidden);
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t j = 0; j < hidden; ++j) {
        double back[4], own[4];
        for (int g = 0; g < gates; ++g) {
          const int64_t row = g * hidden + j;
          own[g] = c.in[0].at((t * batch + i) * width + row);
          back[g] = bias < c.in.size() && c.in[bias].given ? c.in[bias].at(row) : 0;
          for (int64_t e = 0; e < out; ++e) back[g] += w.at(row * out + e) * h[i * out + e];
        }
        double& y = next[i * hidden + j];
        if (gates == 4) {
          double& s = cell[i * hidden + j];
          s = sigmoid(own[1] + back[1]) * s +
              sigmoid(own[0] + back[0]) * std::tanh(own[2] + back[2]);
          y = sigmoid(own[3] + back[3]) * std::tanh(s);
        } else if (gates == 3) {
          const double r = sigmoid(own[0] + back[0]), z = sigmoid(own[1] + back[1]);
          y = (1 - z) * std::tanh(own[2] + r * back[2]) + z * h[i * hidden + j];
        } else {
          const double v = own[0] + back[0];
          y = c.attrs.string("nonlinearity") == "tanh" ? std::tanh(v) : std::fmax(v, 0.0);
        }
      }
    if (projects) {
      std::vector<double> less(batch * out);
      for (int64_t i = 0; i < batch; ++i)
        for (int64_t o = 0; o < out; ++o)
          for (int64_t j = 0; j < hidden; ++j)
            less[i * out + o] += c.in[5].at(o * hidden + j) * next[i * hidden + j];
      next = less;
    }
    h = next;
    for (size_t i = 0; i < h.size(); ++i)
      c.out[0].at(t * batch * out + static_cast<int64_t>(i)) = h[i];
  }
  c.out[1].values = h;
  if (gates == 4) c.out[2].values = cell;
}

void lstm_run(const Call& c) { scan(c, 4, 3, 4); }
void gru_run(const Call& c) { scan(c, 3, 2, 3); }
void rnn_run(const Call& c) { scan(c, 1, 2, 3); }

constexpr Row kRows[] = {
    {"lstm_scan", lstm_run},
    {"gru_scan", gru_run},
    {"rnn_scan", rnn_run},
};

}  // namespace

std::span<const Row> rnn() { return kRows; }

}  // namespace hg::reference::rows
