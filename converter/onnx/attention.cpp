// SPDX-License-Identifier: Apache-2.0
// Attention and related ops: rotary embeddings, linear attention.
#include <cmath>

#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {

Value heads_apart(const Value& x, const Dim& heads) {
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, floordiv(x.dim(2), heads)}), {0, 2, 1, 3});
}
Value heads_together(const Value& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

Value places(Graph& g, const Dim& size, Shape shape) {
  return reshape(g.call("arange", {}, {{"end", size}}), std::move(shape));
}

Value heads_repeated(const Value& x, const Dim& times) {
  if (times == Dim(1)) return x;
  const Value each = expand(reshape(x, {x.dim(0), x.dim(1), 1, x.dim(2), x.dim(3)}),
                            {x.dim(0), x.dim(1), times, x.dim(2), x.dim(3)});
  return reshape(each, {x.dim(0), x.dim(1) * times, x.dim(2), x.dim(3)});
}

Value rotated(const Value& x, const Value& cos, const Value& sin, const Dim& size,
              bool interleaved) {
  const int last = x.rank() - 1;
  const Dim half = floordiv(size, 2);
  const Value turning = slice(x, last, 0, size);
  const Value x1 = interleaved ? slice(turning, last, 0, size, 2) : slice(turning, last, 0, half);
  const Value x2 =
      interleaved ? slice(turning, last, 1, size, 2) : slice(turning, last, half, size);
  const Value real = cos * x1 - sin * x2, imaginary = sin * x1 + cos * x2;
  Value y;
  if (interleaved) {
    Shape pair = real.shape();
    pair.emplace_back(1);
    y = reshape(concat({reshape(real, pair), reshape(imaginary, pair)}, last + 1), turning.shape());
  } else {
    y = concat({real, imaginary}, last);
  }
  return size == x.dim(last) ? y : concat({y, slice(x, last, size, x.dim(last))}, last);
}

Value angles(const Value& cache, const Value& at) {
  const Value found = looked_up(cache, at);
  return reshape(found, {at.dim(0), 1, at.dim(1), cache.dim(1)});
}

const hg::Node* maker_of(const Graph& graph, ValueId id) {
  const int32_t at = id == kNoValue ? -1 : graph.value_info(id).node;
  return at < 0 ? nullptr : &graph.nodes()[static_cast<size_t>(at)];
}

std::optional<double> scale_attribute(Node& n) {
  if (!n.has("scale") || n.real("scale") == 0) return std::nullopt;
  return n.real("scale");
}

namespace {

// The mask from all inputs and attributes: a bool (true: visible), and separately an added bias.
struct Mask {
  Value seen, added;
  void see(const Value& more) { seen = seen ? logical_and(seen, more) : more; }
};

Mask mask_of(Node& n, const Value& q, const Dim& keys, const Dim& past) {
  Graph& g = n.graph();
  Mask mask;
  const Dim queries = q.dim(2);
  if (n.has(3)) {
    Value given = n.in(3);
    if (!(given.dim(-1) == keys)) {  // keys beyond the mask are hidden
      Dims pads = one_each(2 * given.rank(), 0);
      pads.back() = keys - given.dim(-1);
      given = given.dtype() == boolean ? pad(given, pads)
                                       : pad(given, pads, PadMode::constant, -INFINITY);
    }
    (given.dtype() == boolean ? mask.seen : mask.added) = given;
  }
  const int64_t left = n.integer("left_window_size", -1),
                right = n.integer("right_window_size", -1);
  const bool causal = n.flag("is_causal"), counted = n.has(6);
  Value lengths;  // i64[batch, 1, 1, 1]
  if (counted) lengths = reshape(cast(n.in(6), i64), {q.dim(0), 1, 1, 1});
  if (causal || left >= 0 || right >= 0) {
    Value row = places(g, queries, {queries, 1});
    const Value column = places(g, keys, {1, keys});
    if (counted)
      row = row + (lengths - size_value(g, queries));
    else if (!(past == Dim(0)))
      row = row + size_value(g, past);
    if (causal) mask.see(le(column, row));
    if (left >= 0) mask.see(le(row - column, g.scalar(left, i64)));
    if (right >= 0) mask.see(le(column - row, g.scalar(right, i64)));
  }
  if (counted) mask.see(lt(places(g, keys, {1, 1, 1, keys}), lengths));
  return mask;
}

void attention_of(Node& n) {
  Value q = n.in(0), k = n.in(1), v = n.in(2);
  const bool flat = q.rank() == 3;
  if (flat) {
    const Dim heads = n.integer("q_num_heads"), kv = n.integer("kv_num_heads");
    q = heads_apart(q, heads);
    k = heads_apart(k, kv);
    v = heads_apart(v, kv);
  }
  if (q.rank() != 4) n.refuse(str_cat("its query is ", q.shape()));
  Dim past = 0;
  if (n.has(4) != n.has(5)) n.refuse("only one of past_key and past_value is given");
  if (n.has(4)) {
    past = n.in(4).dim(2);
    k = concat({n.in(4), k}, 2);
    v = concat({n.in(5), v}, 2);
  }
  const Value present_k = k, present_v = v;
  const bool causal_alone = n.flag("is_causal") && past == Dim(0) && !n.has(3) && !n.has(6) &&
                            n.integer("left_window_size", -1) < 0 &&
                            n.integer("right_window_size", -1) < 0;
  const Mask mask = causal_alone ? Mask() : mask_of(n, q, k.dim(2), past);
  const double softcap = n.real("softcap", 0.0);
  const bool scores = n.output_count() > 3;
  if (!q.dim(3).is_constant() && !n.has("scale")) n.refuse("the size of a head is open");
  const double scale = n.has("scale") && n.real("scale") != 0
                           ? n.real("scale")
                           : 1 / std::sqrt(static_cast<double>(q.dim(3).constant()));
  Value y, product;
  // Plain if every query sees a key. A query without keys has the result 0, not NaN.
  const bool plain = !scores && softcap == 0 && !mask.seen && !mask.added;
  if (plain) {
    y = attention(q, k, v, {}, causal_alone, scale);
  } else {
    // Separate steps, because the scores may be requested as a result.
    const Dim group = floordiv(q.dim(1), k.dim(1));
    const Value keys = heads_repeated(k, group), values = heads_repeated(v, group);
    const double root = std::sqrt(scale);
    const Value s = matmul(q * root, permute(keys * root, {0, 1, 3, 2}));
    product = s;
    Value capped = s;
    if (softcap > 0) capped = hg::tanh(s / softcap) * softcap;
    const int64_t mode = n.integer("qk_matmul_output_mode", 0);
    if (mode == 1) product = capped;
    Value biased = capped;
    const Value never = constant_like(s, -INFINITY), zero = constant_like(s, 0);
    if (mask.added) biased = biased + cast(mask.added, s.dtype());
    const Value seen = causal_alone ? mask_of(n, q, k.dim(2), past).seen : mask.seen;
    if (seen) biased = where(seen, biased, never);
    if (mode == 2) product = biased;
    const int64_t precision = n.integer("softmax_precision", 0);
    const DType wide = precision == 1 ? f32 : precision == 11 ? f64 : s.dtype();
    // A query that sees no key has probabilities of zero.
    const Value any_key = any(ne(biased, never), {Dim(3)}, true);
    Value p = softmax(cast(where(any_key, biased, zero), wide), 3);
    p = cast(where(any_key, p, constant_like(p, 0)), s.dtype());
    if (mode == 3) product = p;
    y = matmul(p, values);
  }
  if (flat) y = heads_together(y);
  if (!product) product = y;
  n.give({y, present_k, present_v, product});
}

void rotary_embedding(Node& n) {
  const Value given = n.in(0);
  Value cos = n.in(1), sin = n.in(2);
  // [batch, heads, time, size]
  const bool flat = given.rank() == 3;
  const Value x = flat ? heads_apart(given, n.integer("num_heads")) : given;
  if (x.rank() != 4) n.refuse(str_cat("its input is ", given.shape()));
  Dim size = n.integer("rotary_embedding_dim", 0);
  if (size == Dim(0)) size = x.dim(3);
  if (n.has(3)) {
    const Value at = cast(n.in(3), i64);
    cos = n.op("embedding", {cos, at});
    sin = n.op("embedding", {sin, at});
  }
  const Shape along = {cos.dim(0), 1, cos.dim(1), cos.dim(2)};
  const Value y = rotated(x, reshape(cos, along), reshape(sin, along), size, n.flag("interleaved"));
  n.give(flat ? heads_together(y) : y);
}

void linear_attention(Node& n) {
  const Dim heads = n.integer("q_num_heads"), kv = n.integer("kv_num_heads");
  const std::string rule = n.string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    n.refuse(str_cat("attribute 'update_rule' is '", rule, "'"));
  const Value given = n.in(0);
  const DType dtype = given.dtype();
  const auto heads_of = [&](int i, const Dim& count) {
    return heads_apart(cast(n.in(i), f32), count);
  };
  const Value q = heads_of(0, heads), k = heads_of(1, kv), v = heads_of(2, kv);
  const Dim time = q.dim(2);
  if (!time.is_constant() || time.constant() > 1024)
    n.refuse(str_cat("its length ", time, " is open or large, and it runs step by step"),
             "give a number for the length with --dim");
  if (!q.dim(3).is_constant()) n.refuse("the size of a head is open");
  double scale = n.real("scale", 0.0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.dim(3).constant()));
  Value decay, beta;
  if (gated) decay = heads_of(4, kv);
  if (delta) beta = heads_of(5, n.in(5).dim(2));
  const DType state_dtype = n.has(3) ? n.type(3).dtype : dtype;
  // [batch, kv heads, key size, value size]
  Value state = n.has(3) ? cast(n.in(3), f32)
                         : expand(n.graph().scalar(0.0, f32), {q.dim(0), kv, k.dim(3), v.dim(3)});
  Values outputs;
  for (int64_t t = 0; t < time.constant(); ++t) {
    const auto column = [&](const Value& x) {  // [batch, heads, size, 1]
      return permute(slice(x, 2, t, t + 1), {0, 1, 3, 2});
    };
    const auto line = [&](const Value& x) { return slice(x, 2, t, t + 1); };
    if (gated) state = state * hg::exp(column(decay));
    Value update = line(v);
    if (delta) update = line(beta) * (update - matmul(line(k), state));
    state = state + column(k) * update;
    outputs.push_back(matmul(line(q), heads_repeated(state, floordiv(heads, kv))) * scale);
  }
  n.give({cast(heads_together(concat(outputs, 2)), dtype), cast(state, state_dtype)});
}

constexpr Builtin kRows[] = {
    {"onnx::Attention", row<attention_of>},
    {"onnx::RotaryEmbedding", row<rotary_embedding>},
    {"onnx::LinearAttention", row<linear_attention>},
};

}  // namespace

Rows attention_rows() { return kRows; }

}  // namespace hg::convert::onnx
