// SPDX-License-Identifier: Apache-2.0
// Gradients of recurrent layers in f32. Samples are independent, so each thread runs backward
// through all steps of its own samples. The activated gates of lstm are stored in dgates.
#include <algorithm>

#include "hg/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/recurrent/rnn_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct ScanGrad {
  Cell cell = Cell::lstm;
  int weight = 2, dy = 3, dh0 = 1;  // weight, dy and the inputs after it; output dh0
  int64_t time = 0, batch = 0, hidden = 0, width = 0, grain = 1, panel_floats = 0;
  bool reverse = false;
  const RnnTable* table = nullptr;
  const GemmTable* gemm = nullptr;
};

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32; }

Status prepare_scan(PrepareContext& c, ScanGrad s) {
  const Tensor& x = c.in(0);
  s.time = x.shape[0];
  s.batch = x.shape[1];
  s.width = x.shape[2];
  s.hidden = s.width / gate_count(s.cell);
  s.reverse = c.attrs().flag("reverse");
  s.table = &rnn_table();
  s.gemm = &gemm_table();
  // Processes as many samples together as the threads allow: their products share the weights.
  const int64_t work = std::max<int64_t>(1, s.time * s.width * s.hidden);
  const int64_t threads = std::max(1, c.threads());
  s.grain = std::max((int64_t{1} << 17) / work, (s.batch + threads - 1) / threads);
  s.grain = std::max<int64_t>(1, s.grain);
  s.panel_floats = (s.hidden + s.gemm->nr - 1) / s.gemm->nr * s.gemm->nr * s.width;
  const int64_t cells = s.cell == Cell::lstm ? s.time * s.batch * s.hidden : 0;
  c.set_workspace((s.panel_floats + cells) * 4);
  c.make_state(s);
  return {};
}
Status lstm_prepare(PrepareContext& c) { return prepare_scan(c, {}); }
Status gru_prepare(PrepareContext& c) {
  return prepare_scan(c, {.cell = Cell::gru, .weight = 3, .dy = 4, .dh0 = 2});
}
Status rnn_prepare(PrepareContext& c) {
  const Cell cell = c.attrs().string("nonlinearity") == "relu" ? Cell::relu : Cell::tanh;
  return prepare_scan(c, {.cell = cell, .weight = 1, .dy = 2});
}

// The samples [first, end) through all steps.
void run_samples(const RunContext& c, const ScanGrad& s, int64_t first, int64_t end) {
  const int64_t states = s.batch * s.hidden, gates = s.batch * s.width;
  const bool is_lstm = s.cell == Cell::lstm, is_gru = s.cell == Cell::gru;
  const auto step_at = [&](int64_t k) { return s.reverse ? s.time - 1 - k : k; };
  const auto start = [&](int input, float* to) {
    const int64_t begin = first * s.hidden, count = (end - first) * s.hidden;
    if (c.has(input))
      std::copy_n(c.in(input).as<float>() + begin, count, to + begin);
    else
      std::fill_n(to + begin, count, 0.0f);
  };
  float *panels = c.workspace<float>(), *cells = panels + s.panel_floats;
  float *dgates = c.out(0).as<float>(), *dh = c.out(s.dh0).as<float>();
  float* dcell = is_lstm ? c.out(2).as<float>() : nullptr;
  float* dproducts = is_gru ? c.out(1).as<float>() : dgates;
  const float* dy = c.has(s.dy) ? c.in(s.dy).as<float>() : nullptr;
  start(s.dy + 1, dh);
  if (is_lstm) start(s.dy + 2, dcell);
  const auto cell_before = [&](int64_t k) {
    return k == 0 ? c.in(1).as<float>() : cells + (k - 1) * states;
  };
  for (int64_t k = 0; is_lstm && k < s.time; ++k)
    for (int64_t i = first; i < end; ++i) {
      const int64_t at = step_at(k) * gates + i * s.width;
      s.table->advance_cell(s.hidden, c.in(0).as<float>() + at, cell_before(k) + i * s.hidden,
                            dgates + at, cells + k * states + i * s.hidden);
    }
  for (int64_t k = s.time; k-- > 0;) {
    const int64_t t = step_at(k);
    for (int64_t i = first; i < end; ++i) {
      const int64_t state = i * s.hidden, at = t * states + state, gate = t * gates + i * s.width;
      RnnBack b = {.hidden = s.hidden,
                   .dy = dy == nullptr ? nullptr : dy + at,
                   .dh = dh + state,
                   .dgates = dgates + gate};
      if (is_lstm) {
        b.gates = b.dgates;
        b.before = cell_before(k) + state;
        b.after = cells + k * states + state;
        b.dcell = dcell + state;
      } else if (is_gru) {
        b.gates = c.in(0).as<float>() + gate;
        b.back = c.in(1).as<float>() + gate;
        b.before = c.in(2).as<float>() + at;
        b.dback = dproducts + gate;
      } else {
        b.after = c.in(0).as<float>() + at;
      }
      s.table->back(s.cell, b);
    }
    s.gemm->sweep({.rows = end - first,
                   .columns = s.hidden,
                   .k = s.width,
                   .left = end - first,
                   .a = dproducts + t * gates + first * s.width,
                   .a_row = s.width,
                   .a_col = 1,
                   .panels = panels,
                   .panel_step = s.width * s.gemm->nr,
                   .y = dh + first * s.hidden,
                   .y_row = s.hidden,
                   .add = is_gru});
  }
}

void run(const RunContext& c) noexcept {
  const ScanGrad& s = c.state<ScanGrad>();
  s.gemm->pack(s.width, s.hidden, c.in(s.weight).as<float>(), s.hidden, 1, c.workspace<float>(),
               s.width * s.gemm->nr);
  c.parallel_for(s.batch, s.grain,
                 [&](int64_t begin, int64_t end) { run_samples(c, s, begin, end); });
}

constexpr KernelDef kKernels[] = {
    {.op = "lstm_scan_grad",
     .name = "samples",
     .accepts = accepts,
     .prepare = lstm_prepare,
     .run = run},
    {.op = "gru_scan_grad",
     .name = "samples",
     .accepts = accepts,
     .prepare = gru_prepare,
     .run = run},
    {.op = "rnn_scan_grad",
     .name = "samples",
     .accepts = accepts,
     .prepare = rnn_prepare,
     .run = run},
};

}  // namespace

std::span<const KernelDef> rnn_grad() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
