// SPDX-License-Identifier: Apache-2.0
// Recurrent layers in f32 without projection. Each step is one pass over the packed recurrent
// weights that also computes the new states. Threads share the blocks of units if a step has enough
// work.
#include <algorithm>

#include "hg/kernel.h"
#include "kernels/recurrent/rnn_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct FusedScan {
  Cell cell = Cell::lstm;
  int64_t time = 0, batch = 0, hidden = 0, blocks = 0, grain = 1;
  int weight = 3, bias = 4;  // inputs
  bool reverse = false;
  const RnnTable* table = nullptr;
  const float* packed = nullptr;
  int64_t packed_floats = 0, state_floats = 0;  // of the workspace
};

bool accepts(const PrepareContext& c) {
  return c.out(0).dtype == f32 && !c.has(5) && c.out(0).count() > 0;
}

Status prepare_scan(PrepareContext& c, FusedScan s) {
  const Tensor& gates = c.in(0);
  s.table = &rnn_table();
  s.time = gates.shape[0];
  s.batch = gates.shape[1];
  s.hidden = gates.shape[2] / gate_count(s.cell);
  s.reverse = c.attrs().flag("reverse");
  s.blocks = (s.hidden + s.table->units - 1) / s.table->units;
  const int64_t work = s.batch * s.hidden * gate_count(s.cell) * s.table->units;
  s.grain = std::max<int64_t>(1, (int64_t{1} << 17) / work);
  s.packed_floats = s.blocks * s.table->units * gate_count(s.cell) * s.hidden;
  s.packed = static_cast<const float*>(
      c.pack(s.weight, str_cat("rnn", s.table->units), s.packed_floats * 4,
             [s, weight = c.in(s.weight).as<float>()](void* to) {
               s.table->pack(s.cell, s.hidden, weight, static_cast<float*>(to));
             }));
  s.state_floats = (s.batch * s.hidden + 15) / 16 * 16;
  c.set_workspace((3 * s.state_floats + (s.packed ? 0 : s.packed_floats)) * 4);
  c.make_state(s);
  return {};
}
Status lstm_prepare(PrepareContext& c) { return prepare_scan(c, {.cell = Cell::lstm}); }
Status gru_prepare(PrepareContext& c) {
  return prepare_scan(c, {.cell = Cell::gru, .weight = 2, .bias = 3});
}
Status rnn_prepare(PrepareContext& c) {
  const Cell cell = c.attrs().string("nonlinearity") == "relu" ? Cell::relu : Cell::tanh;
  return prepare_scan(c, {.cell = cell, .weight = 2, .bias = 3});
}

void run(const RunContext& c) noexcept {
  const FusedScan& s = c.state<FusedScan>();
  const int64_t states = s.batch * s.hidden;
  float* memory = c.workspace<float>();
  float *before = memory, *after = memory + s.state_floats, *cell = after + s.state_floats;
  const float* packed = s.packed;
  if (packed == nullptr) {
    float* to = cell + s.state_floats;
    s.table->pack(s.cell, s.hidden, c.in(s.weight).as<float>(), to);
    packed = to;
  }
  std::copy_n(c.in(1).as<float>(), states, before);
  if (s.cell == Cell::lstm) std::copy_n(c.in(2).as<float>(), states, cell);
  for (int64_t k = 0; k < s.time; ++k) {
    const int64_t t = s.reverse ? s.time - 1 - k : k;
    const RnnStep step = {
        .batch = s.batch,
        .hidden = s.hidden,
        .packed = packed,
        .gates = c.in(0).as<float>() + t * states * gate_count(s.cell),
        .bias = c.has(s.bias) ? c.in(s.bias).as<float>() : nullptr,
        .before = before,
        .cell = cell,
        .after = after,
    };
    c.parallel_for(s.blocks, s.grain,
                   [&](int64_t begin, int64_t end) { s.table->step(s.cell, step, begin, end); });
    std::copy_n(after, states, c.out(0).as<float>() + t * states);
    std::swap(before, after);
  }
  std::copy_n(before, states, c.out(1).as<float>());
  if (s.cell == Cell::lstm) std::copy_n(cell, states, c.out(2).as<float>());
}

constexpr KernelDef kKernels[] = {
    {.op = "lstm_scan", .name = "fused", .accepts = accepts, .prepare = lstm_prepare, .run = run},
    {.op = "gru_scan", .name = "fused", .accepts = accepts, .prepare = gru_prepare, .run = run},
    {.op = "rnn_scan", .name = "fused", .accepts = accepts, .prepare = rnn_prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> rnn_fused() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
