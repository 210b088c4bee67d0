// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/rnn.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> rnn() {
  std::vector<Sample> all;
  struct Size {
    int64_t time, batch, hidden;
  };
  const SampleInput none = {.shape = {}, .given = false};
  for (const Size& s : {Size{1, 1, 1}, Size{5, 2, 3}, Size{3, 7, 17}, Size{2, 3, 40}}) {
    const SampleInput h0 = {.shape = {s.batch, s.hidden}};
    for (bool reverse : {false, true}) {
      const NamedAttrs attrs = {{"reverse", reverse}};
      auto gates = [&](int64_t n) { return SampleInput{.shape = {s.time, s.batch, n * s.hidden}}; };
      auto weight = [&](int64_t n) { return SampleInput{.shape = {n * s.hidden, s.hidden}}; };
      auto bias = [&](int64_t n) { return SampleInput{.shape = {n * s.hidden}}; };
      all.push_back(
          {.op = "lstm_scan", .inputs = {gates(4), h0, h0, weight(4), bias(4)}, .attrs = attrs});
      all.push_back({.op = "lstm_scan",
                     .inputs = {gates(4),
                                {.shape = {s.batch, 2}},
                                h0,
                                {.shape = {4 * s.hidden, 2}},
                                none,
                                {.shape = {2, s.hidden}}},
                     .attrs = attrs});
      all.push_back(
          {.op = "gru_scan", .inputs = {gates(3), h0, weight(3), bias(3)}, .attrs = attrs});
      all.push_back({.op = "gru_scan", .inputs = {gates(3), h0, weight(3)}, .attrs = attrs});
      all.push_back(
          {.op = "rnn_scan", .inputs = {gates(1), h0, weight(1), bias(1)}, .attrs = attrs});
      all.push_back({.op = "rnn_scan",
                     .inputs = {gates(1), h0, weight(1)},
                     .attrs = {{"reverse", reverse}, {"nonlinearity", "relu"}},
                     .gradient = false});
    }
  }
  return all;
}

}  // namespace hg::test::samples
