// SPDX-License-Identifier: Apache-2.0
// Attention of one or a few queries, as in a decoder's step. Reading keys and values dominates the
// time, so they are read in place, and once for all heads that share them. Long keys are divided
// into parts, each with its own maximum and sum. Parts are joined in order, so the result does not
// depend on the number of threads (Dao et al. 2023, Flash-Decoding).
#include <cmath>

#include "kernels/attention/attention_rows.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/gemv_simd.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kFewQueries = 8;            // of all heads that share keys
constexpr int64_t kPartKeys = 4 * kKeyBlock;  // of one task

struct FewQueries : AttentionShape {
  const AttentionTable* attend = &attention_table();
  const GemvTable* products = &gemv_table();
  int64_t groups = 0;  // heads that share keys and values
  int64_t rows = 0;    // queries of a group: heads, times
  int64_t parts = 0;
  int64_t lanes = 1, slot_bytes = 0, results_at = 0;  // of the workspace

  int64_t padded_value_dim() const { return padded_columns(value_dim); }
  // The result of one part, in floats: weighted sums of values, largest scores, and sums of
  // weights.
  int64_t top_at() const { return rows * padded_value_dim(); }
  int64_t sum_at() const { return top_at() + rows; }
  int64_t result_size() const { return sum_at() + rows; }
  float* result(const RunContext& c, int64_t index) const {
    return reinterpret_cast<float*>(c.workspace<char>() + results_at) + index * result_size();
  }
};

// Positions of the parts of a slot, in floats. `wide` holds data that is not f32 already.
struct FewSlot {
  int64_t wide, scores, added, mixed, end;  // queries come first
  FewSlot(const FewQueries& s, bool widens) {
    wide = s.rows * s.dim;
    scores = wide + (widens ? kKeyBlock * std::max(s.dim, s.value_dim) : 0);
    added = scores + s.rows * kKeyBlock;
    mixed = added + s.times * kKeyBlock;
    end = mixed + s.rows * s.value_dim;
  }
};

// Prefetches rows of keys or values. One stream of reads, as of a block of rows, waits for memory
// most of the time.
template <class T>
void expect_rows(const T* from, int64_t rows, int64_t row, int64_t columns) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  if (row == columns) {
    columns *= rows;
    rows = 1;
  }
  for (int64_t i = 0; i < rows; ++i, from += row)
    for (int64_t j = 0; j < columns; j += kLine) __builtin_prefetch(from + j, 0, 2);
}

// Computes one part of the keys of one group.
template <class T>
void attend_part(const RunContext& c, const FewQueries& s, int64_t index, float* memory) {
  const FewSlot slot(s, !std::is_same_v<T, float>);
  const int64_t group = index / s.parts, head = group * s.heads_per_key_head;
  const AttentionOffsets o = attention_offsets(s, head);
  float *const result = s.result(c, index), *const scores = memory + slot.scores,
               *const mixed = memory + slot.mixed;
  for (int64_t h = 0; h < s.heads_per_key_head; ++h) {
    const T* q = c.in(0).as<T>() + attention_offsets(s, head + h).q;
    for (int64_t t = 0; t < s.times; ++t)
      for (int64_t e = 0; e < s.dim; ++e)
        memory[(h * s.times + t) * s.dim + e] = load(q + t * s.q_time + e * s.q_dim);
  }
  std::fill_n(result, s.top_at(), 0.0f);
  std::fill_n(result + s.top_at(), s.rows, -HUGE_VALF);
  std::fill_n(result + s.sum_at(), s.rows, 0.0f);

  const int64_t begin = index % s.parts * kPartKeys;
  const int64_t all = s.causal ? std::min(s.keys, s.times) : s.keys;
  const int64_t end = std::min(all, begin + kPartKeys);
  for (int64_t key = begin; key < end; key += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, end - key),
                  next = std::min(kKeyBlock, end - key - keys);
    expect_rows(c.in(2).as<T>() + o.v + key * s.v_time, keys, s.v_time, s.value_dim);
    const Matrix k = as_floats(c.in(1).as<T>() + o.k + key * s.k_time, keys, s.dim, s.k_time, 1,
                               memory + slot.wide);
    s.products->dots(s.rows, keys, s.dim, memory, s.dim, k.data, k.row, scores, kKeyBlock);
    AttentionScores w = {.queries = s.times,
                         .keys = keys,
                         .scale = static_cast<float>(s.scale),
                         .padded_value_dim = s.padded_value_dim()};
    bool has_keys = true;
    for (int64_t h = 0, mask_at = -1; h < s.heads_per_key_head; ++h) {
      const int64_t row = h * s.times, at = attention_offsets(s, head + h).mask;
      w.scores = scores + row * kKeyBlock;
      w.gathered = result + row * s.padded_value_dim();
      w.top = result + s.top_at() + row;
      w.sum = result + s.sum_at() + row;
      if ((c.has(3) || s.causal) && at != mask_at)  // most heads share a mask
        has_keys = find_added(attention_mask<T>(c, s, at), 0, key, memory + slot.added, w);
      mask_at = at;
      if (has_keys)
        s.attend->weigh(w);
      else
        std::fill_n(w.scores, s.times * kKeyBlock, 0.0f);
    }
    expect_rows(c.in(1).as<T>() + o.k + (key + keys) * s.k_time, next, s.k_time, s.dim);
    const Matrix v = as_floats(c.in(2).as<T>() + o.v + key * s.v_time, keys, s.value_dim, s.v_time,
                               1, memory + slot.wide);
    s.products->combine(s.rows, s.value_dim, keys, scores, kKeyBlock, 1, v.data, v.row, mixed,
                        s.value_dim);
    for (int64_t row = 0; row < s.rows; ++row)
      for (int64_t e = 0; e < s.value_dim; ++e)
        result[row * s.padded_value_dim() + e] += mixed[row * s.value_dim + e];
  }
}

// Joins the parts of one query into the result of the first part.
template <class T>
void join_parts(const RunContext& c, const FewQueries& s, int64_t group, int64_t row, T* y) {
  float top = -HUGE_VALF, sum = 0;
  for (int64_t part = 0; part < s.parts; ++part)
    top = std::max(top, s.result(c, group * s.parts + part)[s.top_at() + row]);
  float* const joined = s.result(c, group * s.parts) + row * s.padded_value_dim();
  for (int64_t part = 0; part < s.parts; ++part) {
    const float* const result = s.result(c, group * s.parts + part);
    const float* const values = result + row * s.padded_value_dim();
    // If no key is visible, sums are 0 or NaN.
    const float share = top == -HUGE_VALF ? 1.0f : std::exp(result[s.top_at() + row] - top);
    sum += share * result[s.sum_at() + row];
    for (int64_t e = 0; e < s.value_dim; ++e)
      joined[e] = part == 0 ? share * values[e] : joined[e] + share * values[e];
  }
  for (int64_t e = 0; e < s.value_dim; ++e) store(y + e, sum == 0 ? 0.0f : joined[e] / sum);
}

bool few_accept(const PrepareContext& c) {
  if (c.out(0).dtype == f64) return false;
  const AttentionShape s = attention_shape(c);
  const bool in_rows = (s.k_dim == 1 || s.dim <= 1) && (s.v_dim == 1 || s.value_dim <= 1);
  return in_rows && s.heads_per_key_head * s.times <= kFewQueries;
}

Status few_prepare(PrepareContext& c) {
  FewQueries s = {attention_shape(c)};
  s.rows = s.heads_per_key_head * s.times;
  s.groups = s.lead.count() / s.heads_per_key_head;
  s.parts = s.rows == 0 ? 0 : ceil_div(s.keys, kPartKeys);
  const int64_t tasks = s.groups * s.parts;
  const int64_t each = s.rows * std::min(s.keys, kPartKeys) * (s.dim + s.value_dim);
  s.lanes = tile_lanes(c, tasks * each > kLeastForThreads ? tasks : 1);
  s.slot_bytes = FewSlot(s, c.out(0).dtype != f32).end * 4;
  s.results_at = slot_step(tile_workspace(s.lanes, s.slot_bytes));
  c.set_workspace(s.results_at + tasks * s.result_size() * 4);
  c.make_state(std::move(s));
  return {};
}

void few_run(const RunContext& c) noexcept {
  const FewQueries& s = c.state<FewQueries>();
  for_float(c.out(0).dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      for_tiles(c, s.groups * s.parts, s.lanes, s.slot_bytes,
                [&](int64_t index, float* slot) { attend_part<T>(c, s, index, slot); });
      c.parallel_for(
          s.groups * s.rows, grain_of(s.parts * s.value_dim), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
              join_parts(c, s, i / s.rows, i % s.rows, c.out(0).as<T>() + i * s.value_dim);
          });
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "attention",
     .name = "few_queries",
     .accepts = few_accept,
     .prepare = few_prepare,
     .run = few_run,
     .strided = kAllStrided},
};

}  // namespace

std::span<const KernelDef> attention_few() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
