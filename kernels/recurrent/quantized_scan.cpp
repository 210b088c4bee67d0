// SPDX-License-Identifier: Apache-2.0
// Recurrent layers with a recurrent weight of 8 or 4 bits. Each step multiplies the state by
// levels, which are unpacked in registers, and then advances the units.
#include <algorithm>
#include <utility>

#include "kernels/low_bits/quantized_linear.h"
#include "kernels/recurrent/rnn_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct Scan {
  explicit Scan(ExactRows rows) : product(std::move(rows)) {}

  ExactRows product;
  Cell cell = Cell::lstm;
  const RnnTable* table = nullptr;
  int64_t time = 0, batch = 0, hidden = 0, blocks = 0, grain = 1;
  bool reverse = false;
  int64_t states_at = 0, products_at = 0;  // in the workspace: two states and the cell
  int64_t state_floats = 0;
};

Status prepare(PrepareContext& c) {
  const Tensor &gates = c.in(kX), &state = c.in(kState);
  Scan s(ExactRows(c, quantized_scan_product(c, 0)));
  s.cell = *parse_cell(c.attrs().string("cell"));
  s.table = &rnn_table();
  s.time = gates.shape[0];
  s.batch = state.shape[0];
  s.hidden = state.shape[1];
  s.blocks = ceil_div(s.hidden, int64_t{s.table->units});
  s.grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, s.batch * s.table->units));
  s.reverse = c.attrs().flag("reverse");
  s.state_floats = slot_step(s.batch * s.hidden * 4) / 4;
  s.states_at = s.product.take(3 * s.state_floats * 4);
  s.products_at = s.product.take(s.batch * s.product.levels.n * 4);
  c.set_workspace(s.product.workspace);
  c.make_state(std::move(s));
  return {};
}

void run(const RunContext& c) noexcept {
  const auto& s = c.state<Scan>();
  const int64_t states = s.batch * s.hidden;
  if (states == 0) return;
  char* const memory = c.workspace<char>();
  auto* before = reinterpret_cast<float*>(memory + s.states_at);
  float *after = before + s.state_floats, *const cell = after + s.state_floats;
  auto* const products = reinterpret_cast<float*>(memory + s.products_at);
  std::copy_n(c.in(kState).as<float>(), states, before);
  if (s.cell == Cell::lstm) std::copy_n(c.in(kCell).as<float>(), states, cell);
  const LevelRows w = level_rows(c, s.product);
  for (int64_t k = 0; k < s.time; ++k) {
    const int64_t t = s.reverse ? s.time - 1 - k : k;
    const LowBitsProduct product = exact_product(c, s.product, w, before, products);
    multiply_rows(c, s.product, product, [&](int64_t first, int64_t last) {
      add_offsets(c, s.product, w, products, 0, s.batch, first, last);
    });
    const RnnStep step = {
        .batch = s.batch,
        .hidden = s.hidden,
        .gates = c.in(kX).as<float>() + t * states * gate_count(s.cell),
        .bias = c.has(kScanBias) ? c.in(kScanBias).as<float>() : nullptr,
        .before = before,
        .cell = cell,
        .after = after,
    };
    c.parallel_for(s.blocks, s.grain, [&](int64_t begin, int64_t end) {
      s.table->step_of_products(s.cell, step, products, begin, end);
    });
    std::copy_n(after, states, c.out(0).as<float>() + t * states);
    std::swap(before, after);
  }
  std::copy_n(before, states, c.out(1).as<float>());
  if (s.cell == Cell::lstm) std::copy_n(cell, states, c.out(2).as<float>());
}

constexpr KernelDef kKernels[] = {
    {.op = "quantized_scan",
     .name = "rows",
     .prepare = prepare,
     .run = run,
     .strided = kStridedWeight},
};

}  // namespace

std::span<const KernelDef> quantized_scan() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
