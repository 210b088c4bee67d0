// SPDX-License-Identifier: Apache-2.0
// The gradient of attention in f32 without storing the weights. Each block of queries recomputes
// its weights over all keys (Dao et al. 2022, FlashAttention, algorithm 4, with untiled rows). A
// task handles one head of k and v with all heads of q that share it, and accumulates dk and dv in
// the order of the queries.
#include <algorithm>

#include "kernels/attention/attention_shape.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "kernels/norm/norm_grad_simd.h"
#include "kernels/norm/softmax_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kQueries = 48;  // of a block

struct AttentionGrad {
  AttentionShape s;
  const GemmTable* gemm = nullptr;
  const SoftmaxTable* softmax = nullptr;
  const NormGradTable* grads = nullptr;
  int64_t key_heads = 0, lanes = 1, slot_bytes = 0;
  // Floats of a slot: panels of k^T, v^T, k, of a block of q and of dy, then p and dp.
  int64_t v_at = 0, k_at = 0, q_at = 0, dy_at = 0, p_at = 0, dp_at = 0;
};

int64_t padded(int64_t columns, const GemmTable& gemm) {
  return (columns + gemm.nr - 1) / gemm.nr * gemm.nr;
}

bool accepts(const PrepareContext& c) {
  return c.out(0).dtype == f32 && (!c.has(3) || c.in(3).dtype == boolean || c.in(3).dtype == f32);
}

Status prepare(PrepareContext& c) {
  AttentionGrad g;
  g.s = attention_shape(c);
  g.gemm = &gemm_table();
  g.softmax = &softmax_table();
  g.grads = &norm_grad_table();
  const AttentionShape& s = g.s;
  g.key_heads = s.lead.count() / s.heads_per_key_head;
  int64_t size = 0;
  const auto take = [&](int64_t rows, int64_t columns) {
    const int64_t at = size;
    size += (rows * columns + 15) / 16 * 16;
    return at;
  };
  take(s.dim, padded(s.keys, *g.gemm));
  g.v_at = take(s.value_dim, padded(s.keys, *g.gemm));
  g.k_at = take(s.keys, padded(s.dim, *g.gemm));
  g.q_at = take(kQueries, padded(s.dim, *g.gemm));
  g.dy_at = take(kQueries, padded(s.value_dim, *g.gemm));
  g.p_at = take(kQueries, s.keys);
  g.dp_at = take(kQueries, s.keys);
  g.lanes = tile_lanes(c, g.key_heads);
  g.slot_bytes = size * static_cast<int64_t>(sizeof(float));
  c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  c.make_state(g);
  return {};
}

// y[m, n] (+)= a[m, k] b, where b is packed.
void product(const GemmTable& gemm, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row,
             int64_t a_col, const float* panels, float* y, int64_t y_row, bool add) {
  for (int64_t j = 0; j < n; j += gemm.nr) {
    int rows;
    for (int64_t i = 0; i < m; i += rows) {
      rows = block_rows(m - i, gemm.mr);
      const Block block = {rows, k, a + i * a_row, a_row, a_col, y + i * y_row + j, y_row, add};
      gemm.block(block, static_cast<int>(std::min<int64_t>(gemm.nr, n - j)), panels + j * k);
    }
  }
}

// Turns scores into weights; those of a query that sees no key become 0.
void weigh(const AttentionGrad& g, const AttentionMask<float>& mask, bool masked, int64_t first,
           int64_t times, float* p) {
  const int64_t keys = g.s.keys;
  const float scale = static_cast<float>(g.s.scale);
  for (int64_t i = 0; i < times; ++i) {
    float* row = p + i * keys;
    bool seen = keys > 0 && !masked;
    for (int64_t j = 0; j < keys; ++j) {
      row[j] *= scale;
      if (!masked) continue;
      row[j] = mask(row[j], first + i, j);
      seen |= row[j] != -HUGE_VALF;
    }
    if (seen)
      g.softmax->softmax(row, row, keys);
    else
      std::fill(row, row + keys, 0.0f);
  }
}

void run(const RunContext& c) noexcept {
  const AttentionGrad& g = c.state<AttentionGrad>();
  const AttentionShape& s = g.s;
  const GemmTable& gemm = *g.gemm;
  const bool masked = s.causal || c.has(3);
  const float scale = static_cast<float>(s.scale);
  for_tiles(c, g.key_heads, g.lanes, g.slot_bytes, [&](int64_t key_head, float* slot) {
    const float* k = c.in(1).as<float>() + key_head * s.keys * s.dim;
    const float* v = c.in(2).as<float>() + key_head * s.keys * s.value_dim;
    float* dk = c.out(1).as<float>() + key_head * s.keys * s.dim;
    float* dv = c.out(2).as<float>() + key_head * s.keys * s.value_dim;
    std::fill(dk, dk + s.keys * s.dim, 0.0f);
    std::fill(dv, dv + s.keys * s.value_dim, 0.0f);
    float *k_t = slot, *v_t = slot + g.v_at, *k_panels = slot + g.k_at;
    float *q_panels = slot + g.q_at, *dy_panels = slot + g.dy_at;
    float *p = slot + g.p_at, *dp = slot + g.dp_at;
    gemm.pack(s.dim, s.keys, k, 1, s.dim, k_t, s.dim * gemm.nr);
    gemm.pack(s.value_dim, s.keys, v, 1, s.value_dim, v_t, s.value_dim * gemm.nr);
    gemm.pack(s.keys, s.dim, k, s.dim, 1, k_panels, s.keys * gemm.nr);
    for (int64_t i = 0; i < s.heads_per_key_head; ++i) {
      const int64_t head = key_head * s.heads_per_key_head + i;
      const AttentionMask<float> mask =
          attention_mask<float>(c, s, attention_offsets(s, head).mask);
      for (int64_t first = 0; first < s.times; first += kQueries) {
        const int64_t times = std::min(kQueries, s.times - first), row = head * s.times + first;
        const float* q = c.in(0).as<float>() + row * s.dim;
        const float* dy = c.in(4).as<float>() + row * s.value_dim;
        product(gemm, times, s.keys, s.dim, q, s.dim, 1, k_t, p, s.keys, false);
        weigh(g, mask, masked, first, times, p);
        gemm.pack(times, s.value_dim, dy, s.value_dim, 1, dy_panels, times * gemm.nr);
        product(gemm, s.keys, s.value_dim, times, p, 1, s.keys, dy_panels, dv, s.value_dim, true);
        product(gemm, times, s.keys, s.value_dim, dy, s.value_dim, 1, v_t, dp, s.keys, false);
        for (int64_t t = 0; t < times; ++t) {
          double sum, product_sum;
          const float* weights = p + t * s.keys;
          float* ds = dp + t * s.keys;
          g.grads->grad_sums(ds, weights, nullptr, s.keys, 0, sum, product_sum);
          const auto mean = static_cast<float>(product_sum);
          for (int64_t j = 0; j < s.keys; ++j) ds[j] = weights[j] * (ds[j] - mean) * scale;
        }
        float* dq = c.out(0).as<float>() + row * s.dim;
        product(gemm, times, s.dim, s.keys, dp, s.keys, 1, k_panels, dq, s.dim, false);
        gemm.pack(times, s.dim, q, s.dim, 1, q_panels, times * gemm.nr);
        product(gemm, s.keys, s.dim, times, dp, 1, s.keys, q_panels, dk, s.dim, true);
      }
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "attention_grad", .name = "blocks", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> attention_grad() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
