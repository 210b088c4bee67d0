// SPDX-License-Identifier: Apache-2.0
// Builders composed of others: shorter calls and complete layers.
#pragma once

#include <utility>

#include "hg/graph.h"
#include "hg/ops/factory.h"
#include "hg/ops/matmul.h"
#include "hg/ops/norm.h"
#include "hg/ops/rnn.h"
#include "hg/words.h"

namespace hg {

inline Value zeros(Graph& graph, Shape shape, DType dtype = f32) {
  return full(graph, std::move(shape), 0, dtype);
}
inline Value ones(Graph& graph, Shape shape, DType dtype = f32) {
  return full(graph, std::move(shape), 1, dtype);
}
// 0, 1, ..., end - 1 as i64.
inline Value arange(Graph& graph, Dim end) { return graph.call("arange", {}, {{"end", end}}); }

// Normalizes each channel of each sample.
inline Value instance_norm(const Value& x, const Value& weight = {}, const Value& bias = {},
                           double eps = 1e-5) {
  return group_norm(x, x.dim(1), weight, bias, eps);
}

struct RnnWeights {
  Value ih, hh;      // [gates * hidden, in] and [gates * hidden, hidden]
  Value b_ih, b_hh;  // [gates * hidden], optional
};

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
