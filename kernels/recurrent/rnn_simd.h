// SPDX-License-Identifier: Apache-2.0
// One time step of a recurrent layer in f32 for some hidden units: the recurrent products and the
// cell, in registers. Also one step backward. For every instruction set.
#pragma once

#include <cstdint>

#include "lib/table/cell.h"

namespace hg::kernels {

struct RnnStep {
  int64_t batch = 0, hidden = 0;
  const float* packed = nullptr;  // weights in the layout of pack(); unused with products
  const float* gates = nullptr;   // of the input, [batch, gates hidden]
  const float* bias = nullptr;    // of the recurrent products, [gates hidden], or null
  const float* before = nullptr;  // states, [batch, hidden]
  float* cell = nullptr;          // of lstm, [batch, hidden], advanced in place
  float* after = nullptr;         // states, [batch, hidden]
};

// One backward step of one sample; pointers refer to its row. lib/ops/rnn.cpp has the formulas.
struct RnnBack {
  int64_t hidden = 0;
  // lstm: the activated gates; gru: those of the input. [gates hidden]
  const float* gates = nullptr;
  const float* back = nullptr;    // gru: the recurrent products, [gates hidden]
  const float* before = nullptr;  // lstm: the cell before the step; gru: the state before it
  const float* after = nullptr;   // lstm: the cell after the step; tanh and relu: the state
  const float* dy = nullptr;      // or null
  // The gradient of the state from later steps. gru stores the part here that bypasses the
  // products.
  float* dh = nullptr;
  float* dcell = nullptr;   // lstm: gradient after the step, then before it
  float* dgates = nullptr;  // may be `gates`
  float* dback = nullptr;   // of gru
};

struct RnnTable {
  int units = 0;  // of a block
  // Packs weight [gates hidden, hidden] as [vectors of units][hidden][gates][units], with zeros for
  // missing units: (hidden rounded up to blocks) times gates hidden, in floats.
  void (*pack)(Cell cell, int64_t hidden, const float* weight, float* to) = nullptr;
  void (*step)(Cell cell, const RnnStep& step, int64_t first_block, int64_t end_block) = nullptr;
  // The same with the recurrent products, [batch, gates hidden], without `bias`.
  void (*step_of_products)(Cell cell, const RnnStep& step, const float* products,
                           int64_t first_block, int64_t end_block) = nullptr;
  // lstm, one sample: the activated gates, which may overwrite the gates, and the cell after the
  // step.
  void (*advance_cell)(int64_t hidden, const float* gates, const float* before, float* active,
                       float* after) = nullptr;
  void (*back)(Cell cell, const RnnBack& b) = nullptr;
};

const RnnTable& rnn_table();

}  // namespace hg::kernels
