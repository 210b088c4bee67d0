// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention.
#include <cmath>

#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/graph/real.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

// q: [batch..., heads, time, dim], k: [batch..., kv_heads, keys, dim], v: [batch..., kv_heads,
// keys, value_dim]. batch and heads may be missing. heads is a multiple of kv_heads.
Status infer_sizes(InferContext& c) {
  const TensorType &q = c.in(0), &k = c.in(1), &v = c.in(2);
  const size_t rank = q.shape.size();
  if (rank < 2 || k.shape.size() != rank || v.shape.size() != rank)
    return c.fail("q, k and v must have the same rank of at least 2: q is ", q.shape, ", k is ",
                  k.shape, ", v is ", v.shape);
  bool fits = c.require_equal(q.shape[rank - 1], k.shape[rank - 1]) &&
              c.require_equal(k.shape[rank - 2], v.shape[rank - 2]);
  for (size_t i = 0; i + 2 < rank; ++i) {
    fits = fits && c.require_equal(k.shape[i], v.shape[i]);
    const Dim &a = q.shape[i], &b = k.shape[i];
    if (i + 3 == rank) {
      if (a.is_constant() && b.is_constant())
        fits = fits && (a == b || (b.constant() > 0 && a.constant() % b.constant() == 0));
    } else {
      fits = fits && c.require_equal(a, b);
    }
  }
  if (!fits)
    return c.fail("sizes do not fit: q is ", q.shape, ", k is ", k.shape, ", v is ", v.shape);
  if (given(c, 3)) {
    const TensorType& mask = c.in(3);
    if (mask.dtype != boolean && mask.dtype != q.dtype)
      return c.fail("mask must be bool or ", q.dtype, ", but is ", mask.dtype);
    bool spreads = mask.shape.size() <= rank;
    for (size_t i = 0; spreads && i < mask.shape.size(); ++i) {
      const Dim& size = mask.shape[mask.shape.size() - 1 - i];
      const Dim& of_scores = i == 0 ? k.shape[rank - 2] : q.shape[rank - 1 - i];
      spreads = size == Dim(1) || !certainly_differ(size, of_scores);
    }
    if (!spreads) {
      Shape scores(q.shape.begin(), q.shape.end() - 1);
      scores.push_back(k.shape[rank - 2]);
      return c.fail("mask ", mask.shape, " does not broadcast to ", scores);
    }
  }
  if (!c.attrs().has("scale") && !q.shape[rank - 1].is_constant())
    return c.fail("needs a scale, as the size of the heads, ", q.shape[rank - 1], ", is not known");
  c.out(0).dtype = q.dtype;
  c.out(0).shape.assign(q.shape.begin(), q.shape.end() - 1);
  c.out(0).shape.push_back(v.shape[rank - 1]);
  return {};
}

Status attention_infer(InferContext& c) {
  const DType q = c.in(0).dtype, k = c.in(1).dtype, v = c.in(2).dtype;
  if (!is_float(q)) return c.fail("q must be a float tensor, but is ", q);
  if (k != q || v != q) return c.fail("q is ", q, ", k is ", k, ", v is ", v);
  return infer_sizes(c);
}

Status mixed_attention_infer(InferContext& c) {
  const DType q = c.in(0).dtype, k = c.in(1).dtype, v = c.in(2).dtype;
  if (q != f32 || k != v || (k != f16 && k != bf16 && k != i8))
    return c.fail("q is ", q, ", k is ", k, ", v is ", v,
                  "; q must be f32, the others f16, bf16 or i8");
  for (int i = 1; i <= 2; ++i) {
    if (given(c, i + 3) != (k == i8)) return c.fail("only k and v of i8 have scales");
    if (k != i8) continue;
    Shape scales = c.in(i).shape;
    if (scales.empty()) break;  // which the next check rejects
    scales.back() = Dim(1);
    if (!c.require_equal(c.in(i + 3), TensorType{f32, scales}))
      return c.fail("scales of ", c.in(i), " are ", c.in(i + 3));
  }
  return infer_sizes(c);
}

// Repeats kv_heads to the number of heads: [.., h, ..] -> [.., h, heads / h, ..]
Value repeat_heads(const Value& x, const Dim& heads) {
  const int rank = x.rank();
  if (rank < 3 || x.dim(-3) == heads) return x;
  Shape shape = x.shape();
  shape[rank - 3] = heads;
  Shape split = x.shape();
  split.insert(split.end() - 2, Dim(1));
  Shape wide = split;
  wide[wide.size() - 3] = floordiv(heads, x.dim(-3));
  return reshape(expand(reshape(x, split), wide), shape);
}

struct Weights {
  Value q, k, v, p;  // in the dtype that is computed with, k and v with as many heads as q
  Real scale = 1;
};

// p = softmax(q k^T scale + mask). The score is -inf where a bool mask is false, or where key >
// time if causal. A query that sees no key has weights of 0.
Weights weights_of(ExpandContext& c) {
  Graph& g = c.graph();
  Weights w;
  const Value q = w.q = widened(c.in(0));
  const Dim heads = q.rank() > 2 ? q.dim(-3) : Dim(1);
  const Value k = w.k = repeat_heads(widened(c.in(1)), heads);
  w.v = repeat_heads(widened(c.in(2)), heads);
  const auto dim = [&] { return static_cast<double>(q.dim(-1).constant()); };
  w.scale = c.attrs().has("scale") ? real(c, "scale") : Real(1) / std::sqrt(std::max(1.0, dim()));
  const Value lowest = number(q, -HUGE_VAL), zero = number(q, 0);
  Value scores = op("matmul", q, transpose_last(k)) * w.scale;
  const bool causal = c.attrs().flag("causal");
  if (causal) {
    auto count_up = [&](const Dim& end) {
      return g.call("arange", {},
                    {{"start", Dim(0)}, {"end", end}, {"step", Dim(1)}, {"dtype", i64}});
    };
    const Value rows = reshape(count_up(q.dim(-2)), {q.dim(-2), Dim(1)});
    scores = where(op("ge", rows, count_up(k.dim(-2))), scores, lowest);
  }
  if (given(c, 3)) {
    const Value mask = c.in(3);
    scores = mask.dtype() == boolean ? where(mask, scores, lowest) : add(scores, widened(mask));
  }
  if (causal || given(c, 3)) {
    const Value dead = all(op("eq", scores, lowest), {-1}, true);
    w.p = g.call("softmax", {where(dead, zero, scores)}, {{"dim", -1}});
    w.p = where(dead, zero, w.p);
  } else {
    w.p = g.call("softmax", {scores}, {{"dim", -1}});
  }
  return w;
}

// y = p v
Status attention_expand(ExpandContext& c) {
  const Weights w = weights_of(c);
  c.set_out(0, cast(op("matmul", w.p, w.v), c.in(0).dtype()));
  return {};
}

// The expansion supplies the gradient of a mask, such as a position bias.
Status attention_grad(GradContext& c) {
  if (given(c, 3) && c.needs(3)) return {};
  const std::vector<Value> d =
      c.graph().calls("attention_grad", {c.in(0), c.in(1), c.in(2), input_or_none(c, 3), c.dout(0)},
                      {{"scale", c.attrs().raw("scale")}, {"causal", c.attrs().flag("causal")}});
  for (size_t i = 0; i < d.size(); ++i) c.set_grad(static_cast<int>(i), d[i]);
  return {};
}

Status attention_grad_infer(InferContext& c) {
  HG_TRY(attention_infer(c));
  if (!c.require_equal(c.in(4), c.out(0))) return c.fail("dy is ", c.in(4), ", y is ", c.out(0));
  for (int i = 0; i < 3; ++i) c.out(i) = c.in(i);
  return {};
}

// Sums over the heads that share one head of k or v: the reverse of repeat_heads.
Value sum_heads(const Value& d, const Value& like) {
  const int rank = d.rank();
  if (rank < 3 || like.dim(-3) == d.dim(-3)) return d;
  Shape split = d.shape();
  split[rank - 3] = like.dim(-3);
  split.insert(split.end() - 2, floordiv(d.dim(-3), like.dim(-3)));
  return sum(reshape(d, split), {rank - 2});
}

// dv = p^T dy; ds = p (dp - sum(p dp)) scale with dp = dy v^T; dq = ds k, dk = ds^T q
Status attention_grad_expand(ExpandContext& c) {
  const Weights w = weights_of(c);
  const Value dy = widened(c.in(4));
  const Value dp = op("matmul", dy, transpose_last(w.v));
  const Value ds = mul(w.p, sub(dp, sum(mul(w.p, dp), {-1}, true))) * w.scale;
  const Value d[] = {op("matmul", ds, w.k),
                     sum_heads(op("matmul", transpose_last(ds), w.q), c.in(1)),
                     sum_heads(op("matmul", transpose_last(w.p), dy), c.in(2))};
  for (int i = 0; i < 3; ++i) c.set_out(i, cast(d[i], c.in(i).dtype()));
  return {};
}

Status mixed_attention_expand(ExpandContext& c) {
  const auto wide = [&](int i) {
    const Value levels = cast(c.in(i), f32);
    return given(c, i + 3) ? levels * c.in(i + 3) : levels;
  };
  c.set_out(
      0, c.graph().call("attention", {c.in(0), wide(1), wide(2), input_or_none(c, 3)},
                        {{"scale", c.attrs().raw("scale")}, {"causal", c.attrs().flag("causal")}}));
  return {};
}

double attention_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  const Sizes &q = in[0], &k = in[1], &v = in[2];
  const double rows = q.back() > 0 ? static_cast<double>(q.count() / q.back()) : 0;
  return 2 * rows * static_cast<double>(k[k.rank() - 2] * (q.back() + v.back()));
}
// The forward pass has two of the five products.
double attention_grad_flops(std::span<const Sizes> in, std::span<const Sizes> out,
                            const AttrReader& attrs) {
  return 2.5 * attention_flops(in, out, attrs);
}

constexpr OpDef kOps[] = {
    // Scaled dot product attention: softmax(q k^T * scale + mask) v.
    //
    // - q: [..., heads, time, dim], k: [..., kv_heads, keys, dim], v: [..., kv_heads, keys,
    //   value_dim]. heads must be a multiple of kv_heads.
    // - Result: [..., heads, time, value_dim].
    // - mask: bool (false hides a key) or added to the scores. Broadcasts to [..., heads, time,
    //   keys].
    // - causal: hides keys after the query's position.
    // - scale: 1 / sqrt(dim) by default, or 1 if dim is 0.
    //
    // A query that sees no key gets zeros.
    // C++: attention(q, k, v, mask, causal, scale)
    {.signature = "attention(q, k, v, mask?, scale: float? = none, causal: bool = false) -> y",
     .infer = attention_infer,
     .grad = attention_grad,
     .expand = attention_expand,
     .flops = attention_flops},
    // Attention in f32 whose keys and values are kept in f16 or bf16, or as levels of i8 with a
    // scale for each position: [..., kv_heads, keys, 1].
    {.signature = "mixed_attention(q, k, v, mask?, k_scale?, v_scale?, scale: float? = none, "
                  "causal: bool = false) -> y",
     .infer = mixed_attention_infer,
     .expand = mixed_attention_expand,
     .traits = kInternal,
     .flops = attention_flops},
    {.signature = "attention_grad(q, k, v, mask?, dy, scale: float? = none, causal: bool = false) "
                  "-> dq, dk, dv",
     .infer = attention_grad_infer,
     .expand = attention_grad_expand,
     .traits = kInternal,
     .flops = attention_grad_flops},
};

}  // namespace

std::span<const OpDef> attention() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
