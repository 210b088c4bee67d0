// SPDX-License-Identifier: Apache-2.0
// Recurrent layers with a recurrent weight of 8 or 4 bits. Each step multiplies the state by
// levels, which are unpacked in registers, and then advances the units.
#include <algorithm>
#include <utility>

#include "kernels/low_bits/quantized_linear.h"
#include "kernels/recurrent/scan_steps.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct Scan {
  ScanSteps steps;
  ExactRows product;
  const RnnTable* table = nullptr;
  int64_t blocks = 0, grain = 1;
  int64_t states_at = 0, products_at = 0;  // in the workspace
};

Status prepare(PrepareContext& c) {
  Scan s = {.steps = {.cell = *parse_cell(c.attrs().string("cell")),
                      .h0 = kState,
                      .c0 = kCell,
                      .bias = kScanBias},
            .product = ExactRows(c, quantized_scan_product(c, 0))};
  s.steps.set_sizes(c);
  s.table = &rnn_table();
  s.blocks = ceil_div(s.steps.hidden, int64_t{s.table->units});
  s.grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, s.steps.batch * s.table->units));
  s.states_at = s.product.take(s.steps.floats() * 4);
  s.products_at = s.product.take(s.steps.batch * s.product.levels.n * 4);
  c.set_workspace(s.product.workspace);
  c.make_state(std::move(s));
  return {};
}

void run(const RunContext& c) noexcept {
  const auto& s = c.state<Scan>();
  if (s.steps.batch * s.steps.hidden == 0) return;
  char* const memory = c.workspace<char>();
  auto* const products = reinterpret_cast<float*>(memory + s.products_at);
  const LevelRows w = level_rows(c, s.product);
  run_steps(c, s.steps, reinterpret_cast<float*>(memory + s.states_at), [&](const RnnStep& step) {
    const LowBitsProduct product = exact_product(c, s.product, w, step.before, products);
    multiply_rows(c, s.product, product, [&](int64_t first, int64_t last) {
      add_offsets(c, s.product, w, products, 0, step.batch, first, last);
    });
    c.parallel_for(s.blocks, s.grain, [&](int64_t begin, int64_t end) {
      s.table->step_of_products(s.steps.cell, step, products, begin, end);
    });
  });
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
