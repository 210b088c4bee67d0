// SPDX-License-Identifier: Apache-2.0
// The steps of a recurrent layer in f32 without projection. Kernels differ in how a step multiplies
// the state.
#pragma once

#include <algorithm>
#include <utility>

#include "hg/kernel.h"
#include "kernels/recurrent/rnn_simd.h"

namespace hg::kernels {

struct ScanSteps {
  Cell cell = Cell::lstm;
  int h0 = 1, c0 = 2, bias = 4;  // inputs; gates are the first
  int64_t time = 0, batch = 0, hidden = 0;
  bool reverse = false;

  // Of the memory: two states and the cell.
  int64_t state_floats() const { return (batch * hidden + 15) / 16 * 16; }
  int64_t floats() const { return 3 * state_floats(); }

  void set_sizes(const PrepareContext& c) {
    time = c.in(0).shape[0];
    batch = c.in(h0).shape[0];
    hidden = c.in(h0).shape[1];
    reverse = c.attrs().flag("reverse");
  }
};

// Calls step(s) for each time step, which computes s.after and advances s.cell.
template <class Step>
void run_steps(const RunContext& c, const ScanSteps& s, float* memory, const Step& step) {
  const int64_t states = s.batch * s.hidden;
  float *before = memory, *after = memory + s.state_floats();
  float* const cell = after + s.state_floats();
  std::copy_n(c.in(s.h0).as<float>(), states, before);
  if (s.cell == Cell::lstm) std::copy_n(c.in(s.c0).as<float>(), states, cell);
  for (int64_t k = 0; k < s.time; ++k) {
    const int64_t t = s.reverse ? s.time - 1 - k : k;
    step(RnnStep{.batch = s.batch,
                 .hidden = s.hidden,
                 .gates = c.in(0).as<float>() + t * states * gate_count(s.cell),
                 .bias = c.has(s.bias) ? c.in(s.bias).as<float>() : nullptr,
                 .before = before,
                 .cell = cell,
                 .after = after});
    std::copy_n(after, states, c.out(0).as<float>() + t * states);
    std::swap(before, after);
  }
  std::copy_n(before, states, c.out(1).as<float>());
  if (s.cell == Cell::lstm) std::copy_n(cell, states, c.out(2).as<float>());
}

}  // namespace hg::kernels
