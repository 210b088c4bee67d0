// SPDX-License-Identifier: Apache-2.0
// Attention without the matrix of scores: blocks of queries walk over blocks of keys and keep a
// running maximum, sum and weighted mean (Dao et al. 2022, FlashAttention, algorithm 1).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
// clang-format off
#include "kernels/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vector_math-inl.h"
#include "kernels/attention_block.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

// c += a b. a: [rows, inner], b: [inner, columns], c: [rows, columns]; columns is a multiple of
// kColumnStep, rows of four.
void multiply_add(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                  int64_t rows, int64_t inner, int64_t columns) {
  const D d;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  const bool pairs = columns % (2 * n) == 0;
  for (int64_t i = 0; i < rows; i += 4) {
    const float* a0 = a + i * lda;
    float* c0 = c + i * ldc;
    if (pairs) {
      for (int64_t j = 0; j < columns; j += 2 * n) {
        auto c00 = hn::LoadU(d, c0 + j), c01 = hn::LoadU(d, c0 + j + n);
        auto c10 = hn::LoadU(d, c0 + ldc + j), c11 = hn::LoadU(d, c0 + ldc + j + n);
        auto c20 = hn::LoadU(d, c0 + 2 * ldc + j), c21 = hn::LoadU(d, c0 + 2 * ldc + j + n);
        auto c30 = hn::LoadU(d, c0 + 3 * ldc + j), c31 = hn::LoadU(d, c0 + 3 * ldc + j + n);
        const float* bk = b + j;
        for (int64_t k = 0; k < inner; ++k, bk += ldb) {
          const auto b0 = hn::LoadU(d, bk), b1 = hn::LoadU(d, bk + n);
          const auto r0 = hn::Set(d, a0[k]), r1 = hn::Set(d, a0[lda + k]);
          const auto r2 = hn::Set(d, a0[2 * lda + k]), r3 = hn::Set(d, a0[3 * lda + k]);
          c00 = hn::MulAdd(r0, b0, c00);
          c01 = hn::MulAdd(r0, b1, c01);
          c10 = hn::MulAdd(r1, b0, c10);
          c11 = hn::MulAdd(r1, b1, c11);
          c20 = hn::MulAdd(r2, b0, c20);
          c21 = hn::MulAdd(r2, b1, c21);
          c30 = hn::MulAdd(r3, b0, c30);
          c31 = hn::MulAdd(r3, b1, c31);
        }
        hn::StoreU(c00, d, c0 + j);
        hn::StoreU(c01, d, c0 + j + n);
        hn::StoreU(c10, d, c0 + ldc + j);
        hn::StoreU(c11, d, c0 + ldc + j + n);
        hn::StoreU(c20, d, c0 + 2 * ldc + j);
        hn::StoreU(c21, d, c0 + 2 * ldc + j + n);
        hn::StoreU(c30, d, c0 + 3 * ldc + j);
        hn::StoreU(c31, d, c0 + 3 * ldc + j + n);
      }
      continue;
    }
    for (int64_t j = 0; j < columns; j += n) {
      auto s0 = hn::LoadU(d, c0 + j), s1 = hn::LoadU(d, c0 + ldc + j);
      auto s2 = hn::LoadU(d, c0 + 2 * ldc + j), s3 = hn::LoadU(d, c0 + 3 * ldc + j);
      const float* bk = b + j;
      for (int64_t k = 0; k < inner; ++k, bk += ldb) {
        const auto b0 = hn::LoadU(d, bk);
        s0 = hn::MulAdd(hn::Set(d, a0[k]), b0, s0);
        s1 = hn::MulAdd(hn::Set(d, a0[lda + k]), b0, s1);
        s2 = hn::MulAdd(hn::Set(d, a0[2 * lda + k]), b0, s2);
        s3 = hn::MulAdd(hn::Set(d, a0[3 * lda + k]), b0, s3);
      }
      hn::StoreU(s0, d, c0 + j);
      hn::StoreU(s1, d, c0 + ldc + j);
      hn::StoreU(s2, d, c0 + 2 * ldc + j);
      hn::StoreU(s3, d, c0 + 3 * ldc + j);
    }
  }
}

// Turns the scores of a block into weights exp(s - m) and rescales what was gathered so far.
void soft_block(AttentionBlock& w, int64_t keys) {
  const D d;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < kQueryBlock; ++i) {
    float* s = w.scores + i * kKeyBlock;
    auto top = hn::Set(d, w.top[i]);
    float old_top = w.top[i];
    for (int64_t j = 0; j < keys; j += n) top = hn::Max(top, hn::LoadU(d, s + j));
    float new_top = hn::GetLane(hn::MaxOfLanes(d, top));
    if (new_top == -HUGE_VALF) {  // no key so far
      for (int64_t j = 0; j < keys; ++j) s[j] = 0;
      continue;
    }
    w.top[i] = new_top;
    const auto shift = hn::Set(d, new_top);
    auto sum = hn::Zero(d);
    for (int64_t j = 0; j < keys; j += n) {
      const auto p = exp_of(hn::Sub(hn::LoadU(d, s + j), shift));
      hn::StoreU(p, d, s + j);
      sum = hn::Add(sum, p);
    }
    const float added = hn::GetLane(hn::SumOfLanes(d, sum));
    if (old_top == new_top) {
      w.sum[i] += added;
      continue;
    }
    const auto scale = exp_of(hn::Set(d, old_top - new_top));
    w.sum[i] = w.sum[i] * hn::GetLane(scale) + added;
    float* y = w.gathered + i * w.padded_value_dim;
    for (int64_t j = 0; j < w.padded_value_dim; j += n)
      hn::StoreU(hn::Mul(hn::LoadU(d, y + j), scale), d, y + j);
  }
}

}  // namespace

void attend_scores(AttentionBlock& w, int64_t dim) {
  for (float& s : w.scores) s = 0;
  multiply_add(w.queries, kMaxHeadDim, w.keys, kKeyBlock, w.scores, kKeyBlock, kQueryBlock, dim,
               kKeyBlock);
}
void attend_values(AttentionBlock& w, int64_t keys, int64_t padded_keys) {
  soft_block(w, padded_keys);
  multiply_add(w.scores, kKeyBlock, w.values, w.padded_value_dim, w.gathered, w.padded_value_dim,
               kQueryBlock, keys, w.padded_value_dim);
}

constexpr AttentionTable kTable = {attend_scores, attend_values};

}  // namespace HWY_NAMESPACE
}  // namespace hg::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/attention_shape.h"

namespace hg::kernels {
namespace {

struct AttentionState : AttentionShape {
  const AttentionTable* attend = HG_SIMD_CHOOSE(kTable);
};

Status attention_prepare(PrepareContext& c) {
  const AttentionState s = {attention_shape(c)};
  if (c.out(0).dtype == f16 || c.out(0).dtype == bf16)
    c.set_workspace(c.out(0).count() * static_cast<int64_t>(sizeof(float)));
  c.make_state(s);
  return {};
}

// Any sizes: one query after the other, one key after the other.
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
                         W weight = 1;
                         if (score > top || std::isnan(score)) {
                           const W shrink = std::exp(top - score);
                           for (int64_t j = 0; j < s.value_dim; ++j) sum[j] *= shrink;
                           total *= shrink;
                           top = score;
                         } else {
                           weight = std::exp(score - top);
                         }
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

template <class T>
void attend_block(const RunContext& c, const AttentionState& s, int64_t head, int64_t first) {
  AttentionBlock w;
  const AttentionOffsets o = attention_offsets(s, head);
  const AttentionMask<T> mask = attention_mask<T>(c, s, o.mask);
  const bool masked = s.causal || c.has(3);
  const int64_t times = std::min(kQueryBlock, s.times - first);
  w.padded_value_dim = (s.value_dim + kColumnStep - 1) / kColumnStep * kColumnStep;
  const T* q = c.in(0).as<T>() + o.q + first * s.q_time;
  for (int64_t i = 0; i < kQueryBlock; ++i) {
    float* row = w.queries + i * kMaxHeadDim;
    for (int64_t e = 0; e < s.dim; ++e)
      row[e] = i < times ? static_cast<float>(load(q + i * s.q_time + e * s.q_dim)) *
                               static_cast<float>(s.scale)
                         : 0.0f;
    w.top[i] = -HUGE_VALF;
    w.sum[i] = 0;
  }
  for (int64_t i = 0; i < kQueryBlock * w.padded_value_dim; ++i) w.gathered[i] = 0;
  const int64_t last_key = s.causal ? std::min(s.keys, first + times) : s.keys;
  for (int64_t key = 0; key < last_key; key += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, last_key - key);
    const T* k = c.in(1).as<T>() + o.k + key * s.k_time;
    const T* v = c.in(2).as<T>() + o.v + key * s.v_time;
    for (int64_t e = 0; e < s.dim; ++e)  // transposed: [dim, keys]
      for (int64_t j = 0; j < kKeyBlock; ++j)
        w.keys[e * kKeyBlock + j] =
            j < keys ? static_cast<float>(load(k + j * s.k_time + e * s.k_dim)) : 0.0f;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t e = 0; e < w.padded_value_dim; ++e)
        w.values[j * w.padded_value_dim + e] =
            e < s.value_dim ? static_cast<float>(load(v + j * s.v_time + e * s.v_dim)) : 0.0f;
    s.attend->scores(w, s.dim);
    for (int64_t i = 0; i < kQueryBlock; ++i) {
      float* scores = w.scores + i * kKeyBlock;
      if (masked && i < times)
        for (int64_t j = 0; j < keys; ++j)
          scores[j] = static_cast<float>(mask(scores[j], first + i, key + j));
      for (int64_t j = keys; j < kKeyBlock; ++j) scores[j] = -HUGE_VALF;
    }
    s.attend->values(w, keys, kKeyBlock);
  }
  T* y = c.out(0).as<T>() + (head * s.times + first) * s.value_dim;
  for (int64_t i = 0; i < times; ++i) {
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
  HG_TRY(attention_prepare(c));
  c.set_workspace(0);
  return {};
}

void blocks_run(const RunContext& c) noexcept {
  const AttentionState& s = c.state<AttentionState>();
  const int64_t blocks = (s.times + kQueryBlock - 1) / kQueryBlock;
  for_float(c.out(0).dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const int64_t each = kQueryBlock * s.keys * (s.dim + s.value_dim);
      c.parallel_for(s.lead.count() * blocks, grain_of(each, 1 << 18),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i)
                         attend_block<T>(c, s, i / blocks, i % blocks * kQueryBlock);
                     });
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "attention",
     .device = Device::cpu,
     .name = "blocks",
     .accepts = blocks_accept,
     .prepare = blocks_prepare,
     .run = blocks_run,
     .strided = kAllStrided},
    {.op = "attention",
     .device = Device::cpu,
     .name = "plain",
     .prepare = attention_prepare,
     .run = plain_run,
     .strided = kAllStrided},
};

}  // namespace

std::span<const KernelDef> attention() { return kKernels; }

}  // namespace hg::kernels
#endif  // HWY_ONCE
