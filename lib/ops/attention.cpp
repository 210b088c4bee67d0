// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention.
#include <cmath>

#include "hg/op.h"
#include "lib/ops/terms.h"

namespace hg::ops {
namespace {

using namespace term;

// q: [batch..., heads, time, dim], k: [batch..., kv_heads, keys, dim], v: [batch..., kv_heads,
// keys, value_dim], where batch and heads may be missing and heads is a multiple of kv_heads.
Status attention_infer(InferContext& c) {
  const TensorType &q = c.in(0), &k = c.in(1), &v = c.in(2);
  if (!is_float(q.dtype)) return c.fail("q must be a float tensor, it is ", q.dtype);
  if (k.dtype != q.dtype || v.dtype != q.dtype)
    return c.fail("q is ", q.dtype, ", k is ", k.dtype, ", v is ", v.dtype);
  const size_t rank = q.shape.size();
  if (rank < 2 || k.shape.size() != rank || v.shape.size() != rank)
    return c.fail("q, k and v must have the same rank of at least 2: q is ", q.shape, ", k is ",
                  k.shape, ", v is ", v.shape);
  bool fits = !differ(q.shape[rank - 1], k.shape[rank - 1]) &&
              !differ(k.shape[rank - 2], v.shape[rank - 2]);
  for (size_t i = 0; i + 2 < rank; ++i) {
    fits = fits && !differ(k.shape[i], v.shape[i]);
    const Dim &a = q.shape[i], &b = k.shape[i];
    if (i + 3 == rank) {
      if (a.is_constant() && b.is_constant())
        fits = fits && (a == b || (b.constant() > 0 && a.constant() % b.constant() == 0));
    } else {
      fits = fits && !differ(a, b);
    }
  }
  if (!fits)
    return c.fail("sizes do not fit: q is ", q.shape, ", k is ", k.shape, ", v is ", v.shape);
  Shape scores(q.shape.begin(), q.shape.end() - 1);
  scores.push_back(k.shape[rank - 2]);
  if (given(c, 3)) {
    const TensorType& mask = c.in(3);
    if (mask.dtype != boolean && mask.dtype != q.dtype)
      return c.fail("mask must be bool or ", q.dtype, ", it is ", mask.dtype);
    bool spreads = mask.shape.size() <= rank;
    for (size_t i = 0; spreads && i < mask.shape.size(); ++i) {
      const Dim& size = mask.shape[mask.shape.size() - 1 - i];
      spreads = size == Dim(1) || !differ(size, scores[rank - 1 - i]);
    }
    if (!spreads) return c.fail("mask ", mask.shape, " does not broadcast to ", scores);
  }
  if (!c.attrs().has("scale") && !q.shape[rank - 1].is_constant())
    return c.fail("needs a scale, as the size of the heads, ", q.shape[rank - 1], ", is not known");
  c.out(0).dtype = q.dtype;
  c.out(0).shape = Shape(q.shape.begin(), q.shape.end() - 1);
  c.out(0).shape.push_back(v.shape[rank - 1]);
  return {};
}

// kv_heads repeated so that there are as many as heads: [.., h, ..] -> [.., h, heads / h, ..]
Value repeat_heads(const Value& x, const Dim& heads) {
  const int rank = x.rank();
  if (rank < 3 || x.dim(-3) == heads) return x;
  Shape shape = x.shape();
  shape[static_cast<size_t>(rank - 3)] = heads;
  Shape split = x.shape();
  split.insert(split.end() - 2, Dim(1));
  Shape wide = split;
  wide[wide.size() - 3] = floordiv(heads, x.dim(-3));
  return reshape(expand(reshape(x, split), wide), shape);
}

// y = softmax(q k^T scale + mask) v. Where a bool mask is false, or causal and key > time, the
// score is -inf; a query that sees no key gives 0.
Status attention_expand(ExpandContext& c) {
  Graph& g = c.graph();
  const Value q = widened(c.in(0));
  const Dim heads = q.rank() > 2 ? q.dim(-3) : Dim(1);
  const Value k = repeat_heads(widened(c.in(1)), heads);
  const Value v = repeat_heads(widened(c.in(2)), heads);
  const double scale = c.attrs().has("scale")
                           ? c.attrs().real("scale")
                           : 1 / std::sqrt(static_cast<double>(q.dim(-1).constant()));
  const Value lowest = number(q, -HUGE_VAL), zero = number(q, 0);
  Value scores = mul(op("matmul", q, transpose_last(k)), scale);
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
  Value p;
  if (causal || given(c, 3)) {
    const Value dead = reduce("all", op("eq", scores, lowest), {-1}, true);
    p = g.call("softmax", {where(dead, zero, scores)}, {{"dim", -1}});
    p = where(dead, zero, p);
  } else {
    p = g.call("softmax", {scores}, {{"dim", -1}});
  }
  c.set_out(0, cast(op("matmul", p, v), c.in(0).dtype()));
  return {};
}

constexpr OpDef kOps[] = {
    // mask: bool (false hides a key) or added to the scores; it broadcasts to [batch..., heads,
    // time,
    // keys]. scale: 1 / sqrt(dim) when none.
    {.name = "attention",
     .signature = "attention(q, k, v, mask?, scale: float? = none, causal: bool = false) -> y",
     .infer = attention_infer,
     .expand = attention_expand},
};

}  // namespace

std::span<const OpDef> attention() { return kOps; }

}  // namespace hg::ops
