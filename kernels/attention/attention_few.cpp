// SPDX-License-Identifier: Apache-2.0
// Attention of one or a few queries, as in a decoder's step. Reading keys and values dominates the
// time, so they are read in place, and once for all heads that share them. Long keys are divided
// into parts, each with its own maximum and sum. Parts are joined in order, so the result does not
// depend on the number of threads (Dao et al. 2023, Flash-Decoding).
#include <cmath>

#include "kernels/attention/attention_few_simd.h"
#include "kernels/attention/attention_rows.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kFewQueries = 8;            // of all heads that share keys
constexpr int64_t kPartKeys = 4 * kKeyBlock;  // of one task

struct FewQueries : AttentionShape {
  const AttentionTable* attend = &attention_table();
  const FewTable* products = nullptr;
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

// Positions of the parts of a slot, in floats.
struct FewSlot {
  int64_t scores, added, end;  // queries come first
  explicit FewSlot(const FewQueries& s) {
    scores = s.rows * padded_columns(s.dim);
    added = scores + s.rows * kKeyBlock;
    end = added + s.times * kKeyBlock;
  }
};

// Computes one part of the keys of one group.
template <class T>
void attend_part(const RunContext& c, const FewQueries& s, int64_t index, float* memory) {
  const FewSlot slot(s);
  const int64_t group = index / s.parts, head = group * s.heads_per_key_head;
  const AttentionOffsets o = attention_offsets(s, head);
  const auto row_at = [&](int input, int64_t offset) {
    const Tensor& rows = c.in(input);
    return static_cast<const char*>(rows.data) + offset * size_of(rows.dtype);
  };
  float *const result = s.result(c, index), *const scores = memory + slot.scores;
  std::fill_n(memory, slot.scores, 0.0f);
  for (int64_t h = 0; h < s.heads_per_key_head; ++h) {
    const T* q = c.in(0).as<T>() + attention_offsets(s, head + h).q;
    for (int64_t t = 0; t < s.times; ++t)
      for (int64_t e = 0; e < s.dim; ++e)
        memory[(h * s.times + t) * padded_columns(s.dim) + e] =
            load(q + t * s.q_time + e * s.q_dim);
  }
  std::fill_n(result, s.top_at(), 0.0f);
  std::fill_n(result + s.top_at(), s.rows, -HUGE_VALF);
  std::fill_n(result + s.sum_at(), s.rows, 0.0f);

  const int64_t begin = index % s.parts * kPartKeys;
  const int64_t all = s.causal ? std::min(s.keys, s.times) : s.keys;
  const int64_t end = std::min(all, begin + kPartKeys);
  for (int64_t key = begin; key < end; key += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, end - key);
    s.products->score(s.rows, keys, s.dim, memory, row_at(1, o.k + key * s.k_time), s.k_time,
                      scores);
    scale_keys(c, s, o, 0, key, keys, s.rows, scores);
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
    scale_keys(c, s, o, 1, key, keys, s.rows, scores);
    s.products->gather(s.rows, keys, s.value_dim, scores, row_at(2, o.v + key * s.v_time), s.v_time,
                       result);
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
  s.products = &few_table(c.in(1).dtype);
  s.rows = s.heads_per_key_head * s.times;
  s.groups = s.lead.count() / s.heads_per_key_head;
  s.parts = s.rows == 0 ? 0 : ceil_div(s.keys, kPartKeys);
  const int64_t tasks = s.groups * s.parts;
  const int64_t each = s.rows * std::min(s.keys, kPartKeys) * (s.dim + s.value_dim);
  s.lanes = tile_lanes(c, tasks * each > kLeastForThreads ? tasks : 1);
  s.slot_bytes = FewSlot(s).end * 4;
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

constexpr KernelDef few_queries(std::string_view op) {
  return {.op = op,
          .name = "few_queries",
          .accepts = few_accept,
          .prepare = few_prepare,
          .run = few_run,
          .strided = kAllStrided};
}
constexpr KernelDef kKernels[] = {few_queries("attention"), few_queries("mixed_attention")};

}  // namespace

std::span<const KernelDef> attention_few() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
