// SPDX-License-Identifier: Apache-2.0
// Attention that never stores the score matrix: blocks of queries iterate over blocks of keys and
// keep a running maximum, sum and weighted mean (Dao et al. 2022, FlashAttention, algorithm 1).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/vector_math-inl.h"
#include "kernels/attention/attention_block.h"
// clang-format on
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace hg::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

// One row: its scores, padded beyond the keys to a whole vector with scores of no weight.
template <bool kAdds>
HWY_INLINE float raise(const AttentionScores& w, float* s, const float* added) {
  const D d;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, w.scale);
  auto top = hn::Set(d, -HUGE_VALF);
  int64_t j = 0;
  for (; j + n <= w.keys; j += n) {
    auto x = hn::Mul(hn::LoadU(d, s + j), scale);
    if constexpr (kAdds) x = hn::Add(x, hn::LoadU(d, added + j));
    hn::StoreU(x, d, s + j);
    top = hn::Max(top, x);
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, top));
  const int64_t end = (w.keys + n - 1) / n * n;
  for (; j < w.keys; ++j) {
    s[j] *= w.scale;
    if (kAdds) s[j] += added[j];
    largest = s[j] > largest ? s[j] : largest;
  }
  for (; j < end; ++j) s[j] = -HUGE_VALF;
  return largest;
}

}  // namespace

void weigh(const AttentionScores& w) {
  const D d;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < w.queries; ++i) {
    float* s = w.scores + i * kKeyBlock;
    const float largest =
        w.added ? raise<true>(w, s, w.added + i * w.added_row) : raise<false>(w, s, nullptr);
    const float old_top = w.top[i], new_top = largest > old_top ? largest : old_top;
    if (new_top == -HUGE_VALF) {  // no visible key so far
      for (int64_t j = 0; j < w.keys; ++j) s[j] = s[j] != s[j] ? s[j] : 0;
      for (int64_t j = 0; j < w.keys; ++j) w.sum[i] += s[j];
      continue;
    }
    w.top[i] = new_top;
    const auto shift = hn::Set(d, new_top);
    auto sum = hn::Zero(d);
    for (int64_t j = 0; j < w.keys; j += n) {
      const auto p = exp_of(hn::Sub(hn::LoadU(d, s + j), shift));
      hn::StoreU(p, d, s + j);
      sum = hn::Add(sum, p);
    }
    const float added = hn::GetLane(hn::SumOfLanes(d, sum));
    if (old_top == new_top) {
      w.sum[i] += added;
      continue;
    }
    const auto shrink = exp_of(hn::Set(d, old_top - new_top));
    w.sum[i] = w.sum[i] * hn::GetLane(shrink) + added;
    float* y = w.gathered + i * w.padded_value_dim;
    for (int64_t j = 0; j < w.padded_value_dim; j += n)
      hn::StoreU(hn::Mul(hn::LoadU(d, y + j), shrink), d, y + j);
  }
}

constexpr AttentionTable kTable = {weigh};

}  // namespace HWY_NAMESPACE
}  // namespace hg::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/attention/attention_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {

const AttentionTable& attention_table() { return *HG_SIMD_CHOOSE(kTable); }

namespace {

struct AttentionState : AttentionShape {
  // Only used by "blocks".
  const AttentionTable* attend = &attention_table();
  const GemmTable* gemm = &gemm_table();
  const PairTable* pairs = nullptr;  // operands are rounded for Precision::bf16
  int64_t query_block = 1, query_blocks = 0;
  int64_t lanes = 1, slot_bytes = 0;

  int64_t padded_value_dim() const { return padded_columns(value_dim); }
  // Of a rounded query or key.
  int64_t dim_pairs() const { return pairs ? pairs->pairs_of(dim) : 0; }
};

Status attention_prepare(PrepareContext& c) {
  const AttentionState s = {attention_shape(c)};
  if (c.out(0).dtype == f16 || c.out(0).dtype == bf16)
    c.set_workspace(c.out(0).count() * static_cast<int64_t>(sizeof(float)));
  c.make_state(s);
  return {};
}

// Any sizes: one query at a time, one key at a time.
void plain_run(const RunContext& c) noexcept {
  const AttentionState& s = c.state<AttentionState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    constexpr bool kDirect = std::is_same_v<T, W>;
    c.parallel_for(s.lead.count() * s.times, grain_of(s.keys * (s.dim + s.value_dim)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) {
                       const int64_t t = row % s.times;
                       const AttentionOffsets o = attention_offsets(s, row / s.times);
                       const AttentionMask<T> mask = attention_mask<T>(c, s, o.mask);
                       const T* q = c.in(0).as<T>() + o.q + t * s.q_time;
                       const T* k = c.in(1).as<T>() + o.k;
                       const T* v = c.in(2).as<T>() + o.v;
                       T* y = c.out(0).as<T>() + row * s.value_dim;
                       W* sum = nullptr;
                       if constexpr (kDirect)
                         sum = y;
                       else
                         sum = c.workspace<W>() + row * s.value_dim;
                       W top = -std::numeric_limits<W>::infinity(), total = 0;
                       for (int64_t j = 0; j < s.value_dim; ++j) sum[j] = 0;
                       for (int64_t key = 0; key < s.keys; ++key) {
                         W score = 0;
                         for (int64_t e = 0; e < s.dim; ++e)
                           score += load(q + e * s.q_dim) * load(k + key * s.k_time + e * s.k_dim);
                         score = mask(score * static_cast<W>(s.scale), t, key);
                         if (score == -std::numeric_limits<W>::infinity()) continue;
                         if (score > top || std::isnan(score)) {
                           const W shrink = std::exp(top - score);
                           for (int64_t j = 0; j < s.value_dim; ++j) sum[j] *= shrink;
                           total *= shrink;
                           top = score;
                         }
                         const W weight = std::exp(score - top);  // NaN for a top of infinity
                         total += weight;
                         for (int64_t j = 0; j < s.value_dim; ++j)
                           sum[j] += weight * load(v + key * s.v_time + j * s.v_dim);
                       }
                       for (int64_t j = 0; j < s.value_dim; ++j)
                         store(y + j, total == 0 ? W(0) : sum[j] / total);
                     }
                   });
  });
}

// Positions of the parts of a slot, in floats. `wide` holds data that is not f32 already.
struct Slot {
  int64_t wide, keys, values, scores, gathered, added, top, sum;  // queries come first
  int64_t rounded_queries, rounded_rows, end;
  Slot(const AttentionState& s, bool widens) {
    const int64_t padding = 2 * kColumnStep;  // panels are padded to whole vectors
    wide = widens ? kQueryBlock * s.dim : 0;
    keys = wide + (widens ? kKeyBlock * std::max(s.dim, s.value_dim) : 0);
    const int64_t pairs = s.dim_pairs();
    values = keys + kKeyBlock * std::max(s.dim, pairs);
    scores = values + kKeyBlock * (s.value_dim + padding);
    gathered = scores + kQueryBlock * kKeyBlock;
    added = gathered + kQueryBlock * s.padded_value_dim();
    top = added + kQueryBlock * kKeyBlock;
    sum = top + kQueryBlock;
    // Rounded queries, and the keys or weights of a block; tiles read beyond the last row.
    constexpr int64_t kRows = kQueryBlock + kTileSide;
    rounded_queries = sum + kQueryBlock;
    rounded_rows = rounded_queries + kRows * pairs;
    end = rounded_rows;
    if (s.pairs) end += std::max(kKeyBlock * pairs, kRows * s.pairs->pairs_of(kKeyBlock));
  }
};

// A matrix in f32: in place, or a copy.
struct Matrix {
  const float* data;
  int64_t row, column;
};
Matrix as_floats(const Tensor& from, int64_t offset, int64_t rows, int64_t columns, int64_t row,
                 int64_t column, float* copy) {
  if (from.dtype == f32) return {from.as<float>() + offset, row, column};
  if (from.dtype == i8)  // without its scales
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        copy[i * columns + j] = from.as<int8_t>()[offset + i * row + j * column];
  for_float(from.dtype, [&]<class T>() {
    if constexpr (sizeof(T) == 2) {
      const T* const x = from.as<T>() + offset;
      if (column == 1 && row == columns)  // short rows cost more than one long one
        return half_table().widen(rows * columns, x, copy);
      for (int64_t i = 0; i < rows; ++i) {
        if (column == 1)
          half_table().widen(columns, x + i * row, copy + i * columns);
        else
          for (int64_t j = 0; j < columns; ++j)
            copy[i * columns + j] = load(x + i * row + j * column);
      }
    }
  });
  return {copy, columns, 1};
}

// Rows of k numbers as pairs, each followed by zeros up to `pairs` of them.
void round_rows(const Matrix& from, int64_t rows, int64_t k, int64_t pairs, float* to) {
  for (int64_t i = 0; i < rows; ++i, to += pairs)
    round_to_pairs(k, from.data + i * from.row, from.column, pairs, to);
}

// The two products of a block of queries and a block of keys.
struct BlockProducts {
  const AttentionState& s;
  const AttentionScores& w;
  Matrix q;
  float *keys, *values;   // panels
  float *queries, *rows;  // with pairs: the rounded queries, and rows of keys or weights

  void score(const Matrix& k) const {
    const int64_t nr = s.gemm->nr;
    Sweep sweep = {.rows = w.queries,
                   .columns = w.keys,
                   .k = s.dim,
                   .left = w.queries,
                   .a = q.data,
                   .a_row = q.row,
                   .a_col = q.column,
                   .panels = keys,
                   .y = w.scores,
                   .y_row = kKeyBlock};
    if (s.pairs) {
      sweep.k = sweep.a_row = s.dim_pairs();
      sweep.a = queries;
      sweep.panel_step = sweep.k * nr;
      round_rows(k, w.keys, s.dim, sweep.k, rows);
      s.gemm->pack(sweep.k, w.keys, rows, 1, sweep.k, keys, sweep.panel_step);
      return s.pairs->gemm.sweep(sweep);
    }
    sweep.panel_step = s.dim * nr;
    s.gemm->pack(s.dim, w.keys, k.data, k.column, k.row, keys, sweep.panel_step);
    s.gemm->sweep(sweep);
  }

  void gather(const Matrix& v) const {
    const int64_t nr = s.gemm->nr;
    Sweep sweep = {.rows = w.queries,
                   .columns = s.value_dim,
                   .k = w.keys,
                   .left = w.queries,
                   .a = w.scores,
                   .a_row = kKeyBlock,
                   .a_col = 1,
                   .panels = values,
                   .y = w.gathered,
                   .y_row = w.padded_value_dim,
                   .add = true};
    if (s.pairs) {
      sweep.k = sweep.a_row = s.pairs->pairs_of(w.keys);
      sweep.a = rows;
      sweep.panel_step = sweep.k * nr;
      round_rows({w.scores, kKeyBlock, 1}, w.queries, w.keys, sweep.k, rows);
      const int64_t used = pairs_of(w.keys);
      for (int64_t p = 0; p < used; ++p) {
        const float* const even = v.data + 2 * p * v.row;
        s.pairs->spread(s.value_dim, even, 2 * p + 1 < w.keys ? even + v.row : nullptr,
                        values + p * nr, sweep.panel_step);
      }
      for (int64_t j = 0; j < s.value_dim; j += nr)
        std::fill_n(values + j / nr * sweep.panel_step + used * nr, (sweep.k - used) * nr, 0.0f);
      return s.pairs->gemm.sweep(sweep);
    }
    sweep.panel_step = w.keys * nr;
    s.gemm->pack(w.keys, s.value_dim, v.data, v.row, v.column, values, sweep.panel_step);
    s.gemm->sweep(sweep);
  }
};

template <class T>
void attend_block(const RunContext& c, const AttentionState& s, int64_t head, int64_t first,
                  float* memory) {
  const Slot slot(s, c.in(1).dtype != f32);
  const AttentionOffsets o = attention_offsets(s, head);
  const AttentionMask<T> mask = attention_mask<T>(c, s, o.mask);
  AttentionScores w = {.queries = std::min(s.query_block, s.times - first),
                       .scores = memory + slot.scores,
                       .scale = static_cast<float>(s.scale),
                       .gathered = memory + slot.gathered,
                       .padded_value_dim = s.padded_value_dim(),
                       .top = memory + slot.top,
                       .sum = memory + slot.sum};
  const Matrix q =
      as_floats(c.in(0), o.q + first * s.q_time, w.queries, s.dim, s.q_time, s.q_dim, memory);
  for (int64_t i = 0; i < w.queries; ++i) {
    w.top[i] = -HUGE_VALF;
    w.sum[i] = 0;
  }
  for (int64_t i = 0; i < w.queries * w.padded_value_dim; ++i) w.gathered[i] = 0;
  const BlockProducts products = {.s = s,
                                  .w = w,
                                  .q = q,
                                  .keys = memory + slot.keys,
                                  .values = memory + slot.values,
                                  .queries = memory + slot.rounded_queries,
                                  .rows = memory + slot.rounded_rows};
  if (s.pairs) round_rows(q, w.queries, s.dim, s.dim_pairs(), products.queries);
  const int64_t last_key = s.causal ? std::min(s.keys, first + w.queries) : s.keys;
  for (int64_t key = 0; key < last_key; key += kKeyBlock) {
    w.keys = std::min(kKeyBlock, last_key - key);
    w.added = nullptr;
    const bool has_mask = c.has(3) || (s.causal && key + w.keys > first + 1);
    if (has_mask && !find_added(mask, first, key, memory + slot.added, w)) continue;
    const Matrix k = as_floats(c.in(1), o.k + key * s.k_time, w.keys, s.dim, s.k_time, s.k_dim,
                               memory + slot.wide);
    if (s.dim == 0) std::fill_n(w.scores, w.queries * kKeyBlock, 0.0f);  // no product writes them
    products.score(k);
    scale_keys(c, s, o, 0, key, w.keys, w.queries, w.scores);
    s.attend->weigh(w);
    scale_keys(c, s, o, 1, key, w.keys, w.queries, w.scores);
    const Matrix v = as_floats(c.in(2), o.v + key * s.v_time, w.keys, s.value_dim, s.v_time,
                               s.v_dim, memory + slot.wide);
    products.gather(v);
  }
  T* y = c.out(0).as<T>() + (head * s.times + first) * s.value_dim;
  for (int64_t i = 0; i < w.queries; ++i) {
    const float scale = w.sum[i] == 0 ? 0.0f : 1 / w.sum[i];
    for (int64_t e = 0; e < s.value_dim; ++e)
      store(y + i * s.value_dim + e, w.gathered[i * w.padded_value_dim + e] * scale);
  }
}

bool blocks_accept(const PrepareContext& c) {
  const Sizes &q = c.in(0).shape, &v = c.in(2).shape;
  return c.out(0).dtype != f64 && q.back() <= kMaxHeadDim && v.back() <= kMaxHeadDim;
}

Status blocks_prepare(PrepareContext& c) {
  AttentionState s = {attention_shape(c)};
  // Values are read row by row.
  if (c.out(0).dtype == f32 && c.precision() == Precision::bf16 && s.dim > 0 && s.value_dim > 0 &&
      s.v_dim == 1)
    s.pairs = tile_pair_table();
  s.query_blocks = (s.times + kQueryBlock - 1) / kQueryBlock;
  if (s.times > 0) s.query_block = (s.times + s.query_blocks - 1) / s.query_blocks;
  const int64_t tiles = s.lead.count() * s.query_blocks;
  const int64_t each = s.query_block * s.keys * (s.dim + s.value_dim);
  s.lanes = tile_lanes(c, tiles * each > kLeastForThreads ? tiles : 1);
  s.slot_bytes = Slot(s, c.in(1).dtype != f32).end * 4;
  c.set_workspace(tile_workspace(s.lanes, s.slot_bytes));
  c.make_state(std::move(s));
  return {};
}

void blocks_run(const RunContext& c) noexcept {
  const AttentionState& s = c.state<AttentionState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      for_tiles(c, s.lead.count() * s.query_blocks, s.lanes, s.slot_bytes,
                [&](int64_t index, float* slot) {
                  attend_block<T>(c, s, index / s.query_blocks,
                                  index % s.query_blocks * s.query_block, slot);
                });
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "attention",
     .name = "blocks",
     .accepts = blocks_accept,
     .prepare = blocks_prepare,
     .run = blocks_run,
     .strided = kAllStrided},
    {.op = "attention",
     .name = "plain",
     .prepare = attention_prepare,
     .run = plain_run,
     .strided = kAllStrided,
     .is_fallback = true},
    {.op = "mixed_attention",
     .name = "blocks",
     .prepare = blocks_prepare,
     .run = blocks_run,
     .strided = kAllStrided,
     .is_fallback = true},
};

}  // namespace

std::span<const KernelDef> attention() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif  // HWY_ONCE
