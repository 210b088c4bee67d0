// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/rnn_grad.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> rnn_grad() {
  std::vector<Sample> all;
  struct Size {
    int64_t time, batch, hidden;
  };
  const SampleInput none = {.shape = {}, .given = false};
  for (const Size& s : {Size{1, 1, 1}, Size{5, 2, 3}, Size{3, 7, 17}, Size{2, 3, 40}}) {
    const SampleInput h0 = {.shape = {s.batch, s.hidden}};
    auto gates = [&](int64_t n) { return SampleInput{.shape = {s.time, s.batch, n * s.hidden}}; };
    auto weight = [&](int64_t n) { return SampleInput{.shape = {n * s.hidden, s.hidden}}; };
    for (bool reverse : {false, true}) {
      const NamedAttrs attrs = {{"reverse", reverse}};
      const SampleInput each = {.shape = {s.time, s.batch, s.hidden}};
      all.push_back({.op = "lstm_scan_grad",
                     .inputs = {gates(4), h0, weight(4), each, h0, h0},
                     .attrs = attrs});
      all.push_back(
          {.op = "lstm_scan_grad", .inputs = {gates(4), h0, weight(4), none, h0}, .attrs = attrs});
      all.push_back({.op = "gru_scan_grad",
                     .inputs = {gates(3), gates(3), each, weight(3), each, h0},
                     .attrs = attrs});
      all.push_back({.op = "gru_scan_grad",
                     .inputs = {gates(3), gates(3), each, weight(3), none, h0},
                     .attrs = attrs});
      all.push_back({.op = "rnn_scan_grad", .inputs = {each, weight(1), each, h0}, .attrs = attrs});
      all.push_back({.op = "rnn_scan_grad",
                     .inputs = {each, weight(1), each},
                     .attrs = {{"reverse", reverse}, {"nonlinearity", "relu"}},
                     .gradient = false});
    }
  }
  return all;
}

}  // namespace hg::test::samples
