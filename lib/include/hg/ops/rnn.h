// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/rnn.cpp: one direction of one recurrent layer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/ops/matmul.h"
#include "hg/words.h"

namespace hg {

struct RnnWeights {
  Value ih, hh;      // [gates * hidden, in] and [gates * hidden, hidden]
  Value b_ih, b_hh;  // [gates * hidden], optional
};
struct RnnOutput {
  Value y;     // [time, batch, hidden]
  Value h, c;  // [batch, hidden] after the last step; c only for lstm
};

// The layer without the input projection: gates = x W_ih^T + b_ih, [time, batch, gates * hidden],
// in torch's order: input, forget, cell, output. h0, c0: [batch, hidden]; weight_hh: [gates *
// hidden, hidden]; bias_hh: [gates * hidden].
//
// reverse: runs from the last step to the first. weight_hr: [out, hidden] projects h from `hidden`
// to `out` elements, which h0 and weight_hh then have.
inline RnnOutput lstm_scan(const Value& gates, const Value& h0, const Value& c0,
                           const Value& weight_hh, const Value& bias_hh = {},
                           const Value& weight_hr = {}, bool reverse = false) {
  const std::vector<Value> out = gates.graph()->calls(
      "lstm_scan", {gates, h0, c0, weight_hh, bias_hh, weight_hr}, {{"reverse", reverse}});
  if (out.size() != 3) return {};
  return {out[0], out[1], out[2]};
}
// Gates in torch's order: reset, update, new.
inline RnnOutput gru_scan(const Value& gates, const Value& h0, const Value& weight_hh,
                          const Value& bias_hh = {}, bool reverse = false) {
  const std::vector<Value> out =
      gates.graph()->calls("gru_scan", {gates, h0, weight_hh, bias_hh}, {{"reverse", reverse}});
  if (out.size() != 2) return {};
  return {out[0], out[1], {}};
}
// nonlinearity: tanh or relu.
inline RnnOutput rnn_scan(const Value& gates, const Value& h0, const Value& weight_hh,
                          const Value& bias_hh = {}, Activation nonlinearity = Activation::tanh,
                          bool reverse = false) {
  const std::vector<Value> out =
      gates.graph()->calls("rnn_scan", {gates, h0, weight_hh, bias_hh},
                           {{"nonlinearity", nonlinearity}, {"reverse", reverse}});
  if (out.size() != 2) return {};
  return {out[0], out[1], {}};
}

// Complete layers. x: [time, batch, in]; h0, c0: [batch, hidden].
inline RnnOutput lstm(const Value& x, const Value& h0, const Value& c0, const RnnWeights& w,
                      bool reverse = false) {
  return lstm_scan(linear(x, w.ih, w.b_ih), h0, c0, w.hh, w.b_hh, {}, reverse);
}
inline RnnOutput gru(const Value& x, const Value& h0, const RnnWeights& w, bool reverse = false) {
  return gru_scan(linear(x, w.ih, w.b_ih), h0, w.hh, w.b_hh, reverse);
}
inline RnnOutput rnn(const Value& x, const Value& h0, const RnnWeights& w,
                     Activation nonlinearity = Activation::tanh, bool reverse = false) {
  return rnn_scan(linear(x, w.ih, w.b_ih), h0, w.hh, w.b_hh, nonlinearity, reverse);
}

}  // namespace hg
