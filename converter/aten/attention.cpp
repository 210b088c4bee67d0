// SPDX-License-Identifier: Apache-2.0
// Attention: scaled_dot_product_attention, and the fused layers that the fast paths of
// nn.MultiheadAttention and nn.TransformerEncoderLayer call.
#include <algorithm>
#include <cmath>

#include "converter/aten/softmax.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "converter/script/script_ops.h"
#include "hg/op.h"
#include "hg/ops/matmul.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

// Prepends dims of size 1 to equalize the ranks, and broadcasts all batch dims except heads. With
// grouped queries, k and v keep their smaller number of heads.
void same_batch(Call& call, Value& q, Value& k, Value& v, bool grouped) {
  const int rank = std::max({q.rank(), k.rank(), v.rank()});
  Shape lead;
  for (Value* x : {&q, &k, &v}) {
    Shape shape = x->shape();
    shape.insert(shape.begin(), static_cast<size_t>(rank - x->rank()), Dim(1));
    *x = reshaped(*x, shape);
    Shape mine(shape.begin(), shape.end() - 2);
    if (grouped && !mine.empty()) mine.back() = 1;
    Result<Shape> both = broadcast(lead, mine);
    if (!both.ok())
      call.refuse("query", "its batch sizes do not broadcast with those of key, value");
    lead = *both;
  }
  for (Value* x : {&q, &k, &v}) {
    Shape shape = lead;
    if (grouped && !shape.empty()) shape.back() = x->dim(-3);
    shape.push_back(x->dim(-2));
    shape.push_back(x->dim(-1));
    *x = expanded(*x, shape);
  }
  if (!grouped || rank < 3 || k.dim(-3) == v.dim(-3)) return;
  for (Value* x : {&k, &v}) {  // the op needs equal head counts: repeats each
    const Dim heads = x->dim(-3), times = floordiv(q.dim(-3), heads);
    Shape shape = x->shape();
    shape.insert(shape.end() - 2, times);
    Shape each = x->shape();
    each.insert(each.end() - 2, Dim(1));
    *x = expanded(reshaped(*x, each), shape);
    shape.erase(shape.end() - 3);
    shape[shape.size() - 3] = heads * times;
    *x = reshaped(*x, shape);
  }
}

// Returns 1 / sqrt(head size) unless given.
Real scale_of(Call& call, const Value& q) {
  if (call.has("scale")) return scalar(call, "scale");
  const Dim& size = q.dim(-1);
  if (size.is_constant()) return 1 / std::sqrt(static_cast<double>(size.constant()));
  return Real(hg::rsqrt(convert::cast(size_value(call.graph(), size), f64)));
}

Value attention_of(Call& call, const Values& inputs) {
  std::vector<NamedReal> scale;
  if (call.has("scale") || !inputs[0].dim(-1).is_constant())
    scale.push_back({"scale", scale_of(call, inputs[0])});
  return call_with(call.graph(), "attention", inputs, scale,
                   {{"causal", call.flag("is_causal", false)}});
}

void check_dropout(Call& call) {
  if (call.real("dropout_p", 0.0) != 0)
    call.refuse("dropout_p", "dropout inside attention is not supported; trace in eval mode");
}

// softmax(q k^T scale + mask), for callers that also need the weights. A query that sees no key has
// weights of 0 if `safe`, as in torch 2.5 and later, and otherwise NaN.
Value attention_weights(Graph& g, const Value& q, const Value& k, const Value& mask,
                        const Real& scale, bool causal, bool safe) {
  Dims swap;
  for (int i = 0; i < k.rank(); ++i) swap.emplace_back(i);
  std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
  Value scores = g.call("matmul", {q, permute(k, swap)}) * scale;
  const Value lowest = g.scalar(-HUGE_VAL, q.dtype());
  if (causal) {
    auto count_up = [&](const Dim& end) {
      return g.call("arange", {},
                    {{"start", Dim(0)}, {"end", end}, {"step", Dim(1)}, {"dtype", i64}});
    };
    const Value rows = reshaped(count_up(q.dim(-2)), {q.dim(-2), Dim(1)});
    scores = g.call("where", {g.call("ge", {rows, count_up(k.dim(-2))}), scores, lowest});
  }
  if (mask) {
    scores = mask.dtype() == boolean ? g.call("where", {mask, scores, lowest})
                                     : g.call("add", {scores, convert::cast(mask, q.dtype())});
  }
  return safe && mask ? safe_softmax(scores, -1) : g.call("softmax", {scores}, {{"dim", -1}});
}

void scaled_dot_product_attention(Call& call) {
  Graph& g = call.graph();
  Value q = call.tensor("query"), k = call.tensor("key"), v = call.tensor("value");
  Value mask = call.tensor_or_none("attn_mask");
  same_batch(call, q, k, v, call.flag("enable_gqa", false));
  if (mask && mask.dtype() != boolean) mask = convert::cast(mask, q.dtype());
  const double p = call.real("dropout_p", 0.0);
  if (p != 0) {  // dropout needs explicit weights
    if (p < 0 || p >= 1 || call.flag("enable_gqa", false))
      call.refuse("dropout_p", "is supported in [0, 1), without enable_gqa");
    call.note("dropout inside attention runs in training mode, as traced");
    const Value weights =
        attention_weights(g, q, k, mask, scale_of(call, q), call.flag("is_causal", false), true);
    const Value kept = g.call("dropout", {weights}, {{"p", p}, {"training", true}});
    return call.returns(g.call("matmul", {kept, v}));
  }
  call.returns(attention_of(call, {q, k, v, mask}));
}

// _scaled_dot_product_attention_math -> (y, weights); in torch 1.13 without the suffix
template <bool kSafe>
void attention_math(Call& call) {
  check_dropout(call);
  Graph& g = call.graph();
  Value q = call.tensor("query"), k = call.tensor("key"), v = call.tensor("value");
  if (call.flag("enable_gqa", false)) call.refuse("enable_gqa", "is not supported here");
  same_batch(call, q, k, v, false);
  const Value p = attention_weights(g, q, k, call.tensor_or_none("attn_mask"), scale_of(call, q),
                                    call.flag("is_causal", false), kSafe);
  call.returns(Values{g.call("matmul", {p, v}), p});
}

// _scaled_dot_product_flash_attention_for_cpu -> (y, logsumexp [batch, heads, time])
void flash_attention_for_cpu(Call& call) {
  check_dropout(call);
  Graph& g = call.graph();
  Value q = call.tensor("query"), k = call.tensor("key"), v = call.tensor("value");
  Value mask = call.tensor_or_none("attn_mask");
  if (mask && mask.dtype() != boolean) mask = convert::cast(mask, q.dtype());
  const bool causal = call.flag("is_causal", false);
  const Value y = attention_of(call, {q, k, v, mask});
  Value scores = g.call("matmul", {q, permute(k, {0, 1, 3, 2})}) * scale_of(call, q);
  const Value lowest = g.scalar(-HUGE_VAL, q.dtype());
  if (causal) {
    const Value ones =
        g.call("expand", {g.scalar(int64_t{1}, boolean)}, {{"shape", Shape{q.dim(-2), k.dim(-2)}}});
    scores = g.call("where", {g.call("tril", {ones}, {{"diagonal", 0}}), scores, lowest});
  }
  if (mask)
    scores = mask.dtype() == boolean ? g.call("where", {mask, scores, lowest})
                                     : g.call("add", {scores, mask});
  const Value lse = g.call("logsumexp", {scores}, {{"dim", Dims{-1}}, {"keepdim", false}});
  call.returns(Values{y, lse});
}

// x [batch, time, width] -> [batch, heads, time, width / heads]
Value split_heads(const Value& x, const Dim& heads) {
  const Value split = reshaped(x, {x.dim(0), x.dim(1), heads, floordiv(x.dim(2), heads)});
  return permute(split, {0, 2, 1, 3});
}
Value join_heads(const Value& y) {
  return reshaped(permute(y, {0, 2, 1, 3}), {y.dim(0), y.dim(2), y.dim(1) * y.dim(3)});
}

Value rows_of(const Value& x, int from, int count, const Dim& width) {
  return x.graph()->call(
      "slice", {x},
      {{"dim", 0}, {"start", width * from}, {"end", width * (from + count)}, {"step", 1}});
}

// True hides a key. mask_type of torch's fast path: 0 is [time, keys], 1 is [batch, keys], 2 is
// [batch, heads, time, keys].
Value fast_path_mask(Call& call, const Value& mask) {
  if (!mask) return mask;
  Graph& g = call.graph();
  Value m = mask;
  const int64_t kind = call.number("mask_type", m.rank() == 4 ? 2 : 0);
  if (kind == 1)
    m = reshaped(m, {m.dim(0), Dim(1), Dim(1), m.dim(-1)});
  else if (kind != 0 && kind != 2)
    call.refuse("mask_type", "must be 0, 1 or 2");
  return m.dtype() == boolean ? g.call("logical_not", {m}) : m;
}

// If all keys are hidden, torch's fast path returns NaN, but the op `attention` returns 0.
Value attend_or_nan(const Value& q, const Value& k, const Value& v, const Value& mask) {
  Graph& g = *q.graph();
  const Value y = g.call("attention", {q, k, v, mask});
  if (!mask) return y;
  const Value hidden = mask.dtype() == boolean
                           ? g.call("logical_not", {mask})
                           : g.call("eq", {mask, g.scalar(-HUGE_VAL, mask.dtype())});
  const Value none = g.call("all", {hidden}, {{"dim", Dims{-1}}, {"keepdim", true}});
  return g.call("where", {none, g.scalar(std::nan(""), y.dtype()), y});
}

struct Projections {
  Value q, k, v;  // [batch, heads, time, dim]
};
Projections project(Call& call, const Value& q, const Value& k, const Value& v, const Dim& heads) {
  const Value weight = call.tensor("qkv_weight"), bias = call.tensor_or_none("qkv_bias");
  const Dim width = floordiv(weight.dim(0), 3);
  auto part = [&](const Value& x, int i) {
    return split_heads(
        linear(x, rows_of(weight, i, 1, width), bias ? rows_of(bias, i, 1, width) : Value()),
        heads);
  };
  return {part(q, 0), part(k, 1), part(v, 2)};
}

// Returns (y, weights or None).
void native_multi_head_attention(Call& call) {
  Graph& g = call.graph();
  const Dim heads = call.size("num_head");
  const Projections p =
      project(call, call.tensor("query"), call.tensor("key"), call.tensor("value"), heads);
  const Value mask = fast_path_mask(call, call.tensor_or_none("mask"));
  const Value proj_weight = call.tensor("proj_weight"),
              proj_bias = call.tensor_or_none("proj_bias");
  if (!call.flag("need_weights", true)) {
    const Value y = attend_or_nan(p.q, p.k, p.v, mask);
    call.returns({Item(call.make_tensor(linear(join_heads(y), proj_weight, proj_bias))), Item()});
    return;
  }
  if (!p.q.dim(-1).is_constant()) call.refuse("query", "the size of its last dim must be known");
  const double scale = 1 / std::sqrt(static_cast<double>(p.q.dim(-1).constant()));
  Value weights = attention_weights(g, p.q, p.k, mask, scale, false, false);
  const Value y = linear(join_heads(g.call("matmul", {weights, p.v})), proj_weight, proj_bias);
  if (call.flag("average_attn_weights", true))
    weights = g.call("mean", {weights}, {{"dim", Dims{1}}, {"keepdim", false}});
  call.returns(Values{y, weights});
}

void transformer_encoder_layer(Call& call) {
  Graph& g = call.graph();
  const Value src = call.tensor("src");
  const Dim heads = call.size("num_heads");
  const Real eps = scalar(call, "eps");
  const bool norm_first = call.flag("norm_first");
  const Value mask = fast_path_mask(call, call.tensor_or_none("mask"));
  auto norm = [&](const Value& x, std::string_view weight, std::string_view bias) {
    return call_with(g, "layer_norm", {x, call.tensor(weight), call.tensor(bias)}, {{"eps", eps}},
                     {{"normalized_shape", Dims{call.size("embed_dim")}}});
  };
  auto attend = [&](const Value& x) {
    const Projections p = project(call, x, x, x, heads);
    return linear(join_heads(attend_or_nan(p.q, p.k, p.v, mask)), call.tensor("proj_weight"),
                  call.tensor_or_none("proj_bias"));
  };
  auto feed_forward = [&](const Value& x) {
    Value h = linear(x, call.tensor("ffn_weight_1"), call.tensor_or_none("ffn_bias_1"));
    h = call.flag("use_gelu") ? g.call("gelu", {h}) : g.call("relu", {h});
    return linear(h, call.tensor("ffn_weight_2"), call.tensor_or_none("ffn_bias_2"));
  };
  auto add = [&](const Value& a, const Value& b) { return g.call("add", {a, b}); };
  Value x = src;
  if (norm_first) {
    x = add(x, attend(norm(x, "norm_weight_1", "norm_bias_1")));
    x = add(x, feed_forward(norm(x, "norm_weight_2", "norm_bias_2")));
  } else {
    x = norm(add(x, attend(x)), "norm_weight_1", "norm_bias_1");
    x = norm(add(x, feed_forward(x)), "norm_weight_2", "norm_bias_2");
  }
  call.returns(x);
}

constexpr Row kRows[] = {
    {"aten::scaled_dot_product_attention", scaled_dot_product_attention},
    {"aten::_scaled_dot_product_attention_math", attention_math<true>},
    {"aten::_scaled_dot_product_attention", attention_math<false>},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu},
    {"aten::_native_multi_head_attention", native_multi_head_attention},
    {.op = "aten::_transformer_encoder_layer_fwd",
     .run = transformer_encoder_layer,
     .script = {nested::encoder_layer},
     .takes_nested = true},
};

}  // namespace

std::span<const Row> attention() { return kRows; }

}  // namespace hg::convert::rows
