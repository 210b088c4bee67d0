// SPDX-License-Identifier: Apache-2.0
// Recurrent layers in f32 without projection. Each step is one pass over the packed recurrent
// weights that also computes the new states. Threads share the blocks of units if a step has enough
// work.
#include <algorithm>

#include "hg/kernel.h"
#include "kernels/recurrent/scan_steps.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct FusedScan : ScanSteps {
  explicit FusedScan(const ScanSteps& steps) : ScanSteps(steps) {}

  int weight = 0;  // input
  int64_t blocks = 0, grain = 1;
  const RnnTable* table = nullptr;
  const float* packed = nullptr;
  int64_t packed_floats = 0;  // of the workspace
};

bool accepts(const PrepareContext& c) {
  return c.out(0).dtype == f32 && !c.has(5) && c.out(0).count() > 0;
}

Status prepare_scan(PrepareContext& c, const ScanSteps& steps) {
  FusedScan s(steps);
  s.set_sizes(c);
  s.weight = s.bias - 1;
  s.table = &rnn_table();
  s.blocks = (s.hidden + s.table->units - 1) / s.table->units;
  const int64_t work = s.batch * s.hidden * gate_count(s.cell) * s.table->units;
  s.grain = std::max<int64_t>(1, (int64_t{1} << 17) / work);
  s.packed_floats = s.blocks * s.table->units * gate_count(s.cell) * s.hidden;
  s.packed = static_cast<const float*>(
      c.pack(s.weight, str_cat("rnn", s.table->units), s.packed_floats * 4,
             [s, weight = c.in(s.weight).as<float>()](void* to) {
               s.table->pack(s.cell, s.hidden, weight, static_cast<float*>(to));
             }));
  c.set_workspace((s.floats() + (s.packed ? 0 : s.packed_floats)) * 4);
  c.make_state(s);
  return {};
}
Status lstm_prepare(PrepareContext& c) { return prepare_scan(c, {.cell = Cell::lstm}); }
Status gru_prepare(PrepareContext& c) { return prepare_scan(c, {.cell = Cell::gru, .bias = 3}); }
Status rnn_prepare(PrepareContext& c) {
  const Cell cell = c.attrs().string("nonlinearity") == "relu" ? Cell::relu : Cell::tanh;
  return prepare_scan(c, {.cell = cell, .bias = 3});
}

void run(const RunContext& c) noexcept {
  const FusedScan& s = c.state<FusedScan>();
  float* const memory = c.workspace<float>();
  const float* packed = s.packed;
  if (packed == nullptr) {
    float* const to = memory + s.floats();
    s.table->pack(s.cell, s.hidden, c.in(s.weight).as<float>(), to);
    packed = to;
  }
  run_steps(c, s, memory, [&](RnnStep step) {
    step.packed = packed;
    c.parallel_for(s.blocks, s.grain,
                   [&](int64_t begin, int64_t end) { s.table->step(s.cell, step, begin, end); });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "lstm_scan", .name = "fused", .accepts = accepts, .prepare = lstm_prepare, .run = run},
    {.op = "gru_scan", .name = "fused", .accepts = accepts, .prepare = gru_prepare, .run = run},
    {.op = "rnn_scan", .name = "fused", .accepts = accepts, .prepare = rnn_prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> rnn_fused() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
