// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/rnn.cpp: one direction of one recurrent layer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

struct RnnWeights {
  Value ih, hh;      // [gates * hidden, in] and [gates * hidden, hidden]
  Value b_ih, b_hh;  // [gates * hidden], may be missing
};
struct RnnOutput {
  Value y;     // [time, batch, hidden]
  Value h, c;  // [batch, hidden] after the last step; c of lstm only
};

// x: [time, batch, in]; h0, c0: [batch, hidden]. Gates in torch's order: input, forget, cell,
// output.
inline RnnOutput lstm(const Value& x, const Value& h0, const Value& c0, const RnnWeights& w,
                      bool reverse = false) {
  Graph& g = *x.graph();
  const Value gates = g.call("linear", {x, w.ih, w.b_ih});
  const std::vector<Value> out =
      g.calls("lstm_scan", {gates, h0, c0, w.hh, w.b_hh}, {{"reverse", reverse}});
  if (out.size() != 3) return {};
  return {out[0], out[1], out[2]};
}
// Gates in torch's order: reset, update, new.
inline RnnOutput gru(const Value& x, const Value& h0, const RnnWeights& w, bool reverse = false) {
  Graph& g = *x.graph();
  const Value gates = g.call("linear", {x, w.ih, w.b_ih});
  const std::vector<Value> out =
      g.calls("gru_scan", {gates, h0, w.hh, w.b_hh}, {{"reverse", reverse}});
  if (out.size() != 2) return {};
  return {out[0], out[1], {}};
}
// nonlinearity: tanh or relu.
inline RnnOutput rnn(const Value& x, const Value& h0, const RnnWeights& w,
                     Activation nonlinearity = Activation::tanh, bool reverse = false) {
  Graph& g = *x.graph();
  const Value gates = g.call("linear", {x, w.ih, w.b_ih});
  const std::vector<Value> out = g.calls("rnn_scan", {gates, h0, w.hh, w.b_hh},
                                         {{"nonlinearity", nonlinearity}, {"reverse", reverse}});
  if (out.size() != 2) return {};
  return {out[0], out[1], {}};
}

}  // namespace hg
