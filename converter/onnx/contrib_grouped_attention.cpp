// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's GroupQueryAttention. Its caches have one of two forms:
// - In a decoder, whose lengths are counted from a mask of all positions, the cache is the
//   concatenation of past and new positions, and the mask says which of them are tokens. Padding
//   may be anywhere.
// - Otherwise, the tokens of each sequence are at the beginning of the cache, as in ONNX Runtime.
// Both have the same results if all positions are tokens.
#include <algorithm>
#include <cmath>

#include "converter/onnx/contrib.h"
#include "hg/op.h"

namespace hg::convert::onnx {
namespace {

// ---- The cache of a decoder ----

// Returns the node of this op that computes a value, which may be converted to another dtype.
const hg::Node* maker_named(const Graph& graph, ValueId id, std::string_view op) {
  const hg::Node* node = maker_of(graph, id);
  while (node != nullptr && node->op->name() == "cast") node = maker_of(graph, node->inputs[0]);
  return node != nullptr && node->op->name() == op ? node : nullptr;
}

bool is_one(const Graph& graph, ValueId id) {
  const TensorData* const data = graph.constant_of(id);
  if (data == nullptr || data->tensor.count() != 1) return false;
  const DType dtype = data->tensor.dtype;
  if (dtype == i64) return data->tensor.as<int64_t>()[0] == 1;
  return dtype == i32 && data->tensor.as<int32_t>()[0] == 1;
}

bool is_input(const Graph& graph, ValueId id) {
  return std::find(graph.inputs().begin(), graph.inputs().end(), id) != graph.inputs().end();
}

// Returns the sum over dim 1 of a mask, from which the lengths are computed; null if they are
// computed otherwise.
const hg::Node* count_of_tokens(const Graph& graph, ValueId lengths) {
  const hg::Node* const last = maker_named(graph, lengths, "sub");
  if (last == nullptr || !is_one(graph, last->inputs[1])) return nullptr;
  const hg::Node* const count = maker_named(graph, last->inputs[0], "sum");
  if (count == nullptr) return nullptr;
  const std::span<const Dim> dims = AttrReader(count->op, count->attrs).integers("dim");
  return dims.size() == 1 && dims[0] == Dim(1) ? count : nullptr;
}

// Returns the mask, an input [batch, past + time], if the lengths of the sequences and of the
// longest one come from it, and the past is an input. Declares this size.
Value mask_of_decoder(Node& n, const Value& past, const Dim& time) {
  const Graph& g = n.graph();
  const hg::Node* const count = past ? count_of_tokens(g, n.in(5).id()) : nullptr;
  if (count == nullptr || !is_input(g, past.id()) || !n.flag("causal", true)) return {};
  ValueId id = count->inputs[0];
  for (const hg::Node* cast = maker_of(g, id); cast != nullptr && cast->op->name() == "cast";
       cast = maker_of(g, id))
    id = cast->inputs[0];
  if (!is_input(g, id) || g.value_info(id).type.rank() != 2) return {};
  const Value mask = n.graph().value(id);
  const Dim length = mask.dim(1);
  if (n.only_data_decides(6)) {
    const hg::Node* const longest = maker_named(g, n.in(6).id(), "amax");
    if (longest == nullptr || maker_named(g, longest->inputs[0], "sum") != count) return {};
  } else if (n.dim(6) != length) {
    return {};
  }
  n.call().environment().note_mask(g.value_info(id).name);
  const Dim whole = past.dim(2) + time, before = length - time;
  if (length == whole) return mask;
  if (!length.symbol().empty())
    n.call().environment().equate(length, whole);
  else if (!before.symbol().empty())
    n.call().environment().equate(past.dim(2), before);
  return {};
}

// The tokens of past and new positions, i64[batch, past + time].
struct Tokens {
  Value are_tokens, positions;
};

Tokens tokens_of(const Value& mask) {
  Tokens tokens;
  tokens.are_tokens = gt(mask, constant_like(mask, 0));
  const Value count = cumsum(cast(tokens.are_tokens, i64), 1);
  tokens.positions = maximum(count - constant_like(count, 1), constant_like(count, 0));
  return tokens;
}

// Returns bool[batch, 1, time, past + time]: the keys that each query sees. Padding sees itself,
// so that its results are finite.
Value seen_in_decoder(Node& n, const Tokens& tokens, const Dim& past, const Dim& time) {
  Graph& g = n.graph();
  const Dim batch = tokens.positions.dim(0), keys = tokens.positions.dim(1);
  const Value column = places(g, keys, {1, 1, 1, keys});
  const Value row = places(g, time, {1, 1, time, 1}) + size_value(g, past);
  Value seen = logical_and(reshape(tokens.are_tokens, {batch, 1, 1, keys}), le(column, row));
  if (const int64_t window = n.integer("local_window_size", -1); window > 0) {
    const Value key = reshape(tokens.positions, {batch, 1, 1, keys});
    const Value query = reshape(slice(tokens.positions, 1, past, keys), {batch, 1, time, 1});
    seen = logical_and(seen, lt(query - key, g.scalar(window, i64)));
  }
  return logical_or(seen, eq(column, row));
}

// ---- The cache of ONNX Runtime ----

// The sequence lengths of a batch, i64[batch, 1, 1, 1], with and without the new positions.
struct Lengths {
  Value total, past;
  Dim present;  // positions in the returned cache
};

Lengths lengths_of(Node& n, const Dim& batch, const Dim& time, const Dim& past) {
  Graph& g = n.graph();
  Lengths lengths;
  const Dim total = n.dim(6);
  lengths.total = reshape(cast(n.in(5), i64), {batch, 1, 1, 1}) + g.scalar(int64_t{1}, i64);
  lengths.present = past == Dim(0) ? total : max(past, total);
  const Value before = lengths.total - size_value(g, time);
  const Value none = expand(constant_like(before, 0), before.shape());
  // A sequence with the total length is the first prompt, padded at the end.
  if (time == total)
    lengths.past = none;
  else if (time.is_constant() && total.is_constant())
    lengths.past = before;
  else
    lengths.past = where(eq(size_value(g, time), size_value(g, total)), none, before);
  return lengths;
}

// Returns the cache with new keys or values after the past ones of each sequence, followed by
// zeros.
Value cached(Node& n, const Value& past, const Value& fresh, const Lengths& lengths) {
  Graph& g = n.graph();
  if (!past) return fresh;
  const Dim time = fresh.dim(2), present = lengths.present;
  const Value all = concat({past, fresh}, 2);
  const Value at = places(g, present, {1, 1, present, 1});
  const Value from_fresh = at - lengths.past + size_value(g, past.dim(2));
  const Value from = where(lt(at, lengths.past), at, from_fresh);
  const Value last = size_value(g, all.dim(2) - Dim(1));
  const Shape shape = {fresh.dim(0), fresh.dim(1), present, fresh.dim(3)};
  const Value taken = gather(all, expand(minimum(from, last), shape), 2);
  const Value filled = lt(at, lengths.past + size_value(g, time));
  return where(filled, taken, constant_like(taken, 0));
}

Value head_norm(Node& n, const Value& x, int weight, std::string_view own) {
  if (!n.has(weight)) return x;
  const double shared = n.real("qk_norm_epsilon", double{1e-6f});
  return rms_norm(x, {x.dim(3)}, n.in(weight), n.real(own, shared));
}

// Softmax over the keys and one additional score per head, whose probability is dropped.
Value softmax_with_sink(const Value& scores, const Value& sink) {
  const Shape column = {scores.dim(0), scores.dim(1), scores.dim(2), Dim(1)};
  const Value all = concat({scores, expand(sink, column)}, 3);
  return slice(softmax(all, 3), 3, 0, scores.dim(3));
}

void refuse_what_is_not_here(Node& n) {
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (n.string(name, "NONE") != "NONE") n.refuse(str_cat("attribute '", name, "' is not NONE"));
  if (n.integer("qk_output", 0) != 0) n.refuse("attribute 'qk_output' is not 0");
  if (n.has(12) || n.has(13)) n.refuse("its cache is quantized");
  if (n.has(16)) n.refuse("input query_seqlens is given");
  if (n.has(3) != n.has(4)) n.refuse("only one of past_key and past_value is given");
}

// The keys and values with the past ones, and which of them each query sees.
struct Cache {
  Value k, v, seen;
};

void rotate(Node& n, Value& q, Value& k, const Value& positions) {
  const Value cos = n.in(7), sin = n.in(8);
  const Value limit = size_value(n.graph(), cos.dim(0) - Dim(1));
  const Value inside = minimum(positions, limit);
  const bool interleaved = n.flag("rotary_interleaved");
  const Dim size = cos.dim(1) * Dim(2);
  q = rotated(q, angles(cos, inside), angles(sin, inside), size, interleaved);
  k = rotated(k, angles(cos, inside), angles(sin, inside), size, interleaved);
}

// Tables of angles may depend on the length of the text: a branch chooses between a short and a
// long one. The keys of a past were then rotated by the table for their length, so a run that needs
// the other table must read all tokens again.
void guard_tables(Node& n, const Dim& past, const Dim& time) {
  const Dim rows = n.in(7).dim(0);
  if (rows.is_constant()) {
    if (maker_named(n.graph(), n.in(7).id(), "if") != nullptr)
      n.refuse("its angles come from a branch, and their number does not show which one");
    return;
  }
  Bindings no_time;
  if (time.symbol().empty() || !no_time.bind(time.symbol(), 0).ok())
    n.refuse("its angles depend on the length of the text, and the number of new tokens is fixed");
  n.graph().guard(min(past, 1) * (rows - rows.substitute(no_time)), Relation::eq, 0,
                  "angles of other sizes in longer texts, for which all tokens must be read again");
}

Cache cache_of_decoder(Node& n, const Value& mask, Value& q, Value k, const Value& v) {
  const Value past_k = n.in(3), past_v = n.in(4);
  const Dim past = past_k.dim(2), time = q.dim(2), whole = mask.dim(1);
  const Tokens tokens = tokens_of(mask);
  if (n.flag("do_rotary")) {
    guard_tables(n, past, time);
    // ONNX Runtime rejects longer texts.
    n.graph().guard(whole, Relation::le, n.in(7).dim(0), "GroupQueryAttention");
    rotate(n, q, k, n.has(9) ? cast(n.in(9), i64) : slice(tokens.positions, 1, past, whole));
  }
  return {concat({past_k, k}, 2), concat({past_v, v}, 2), seen_in_decoder(n, tokens, past, time)};
}

Cache cache_with_lengths(Node& n, Value& q, Value k, const Value& v) {
  Graph& g = n.graph();
  const Value past_k = n.in_or_none(3), past_v = n.in_or_none(4);
  const Dim batch = q.dim(0), time = q.dim(2);
  const Lengths lengths = lengths_of(n, batch, time, past_k ? past_k.dim(2) : Dim(0));
  if (n.flag("do_rotary"))
    rotate(n, q, k,
           n.has(9) ? cast(n.in(9), i64)
                    : places(g, time, {1, time}) + reshape(lengths.past, {batch, 1}));
  Cache cache = {cached(n, past_k, k, lengths), cached(n, past_v, v, lengths), {}};
  const Dim keys = cache.k.dim(2);
  const Value column = places(g, keys, {1, 1, 1, keys});
  const Value row = places(g, time, {1, 1, time, 1}) + lengths.past;  // position of each query
  cache.seen = n.flag("causal", true) ? le(column, row) : lt(column, lengths.total);
  if (const int64_t window = n.integer("local_window_size", -1); window > 0)
    cache.seen = logical_and(cache.seen, lt(row - column, g.scalar(window, i64)));
  return cache;
}

void group_query_attention(Node& n) {
  refuse_what_is_not_here(n);
  const Dim heads = n.integer("num_heads"), kv_heads = n.integer("kv_num_heads");
  Value q, k, v;
  if (n.has(1)) {
    q = heads_apart(n.in(0), heads);
    k = heads_apart(n.in(1), kv_heads);
    v = heads_apart(n.in(2), kv_heads);
  } else {
    const Value all = heads_apart(n.in(0), heads + kv_heads + kv_heads);
    q = slice(all, 1, 0, heads);
    k = slice(all, 1, heads, heads + kv_heads);
    v = slice(all, 1, heads + kv_heads, all.dim(1));
  }
  q = head_norm(n, q, 14, "q_norm_epsilon");
  k = head_norm(n, k, 15, "k_norm_epsilon");
  const Value mask = mask_of_decoder(n, n.in_or_none(3), q.dim(2));
  // The window of such a cache is that of the attention, so a cache of all positions has the same
  // results.
  if (!mask && n.flag("sliding_window_cache") && !n.call().environment().has_equations())
    n.refuse("attribute 'sliding_window_cache' is 1, and its lengths are not those of a mask");
  if (mask && n.flag("sliding_window_cache"))
    n.call().environment().note_difference(
        "its caches hold the last keys and values, and those of the file hold all");
  const Cache cache = mask ? cache_of_decoder(n, mask, q, k, v) : cache_with_lengths(n, q, k, v);
  std::optional<double> scale = scale_attribute(n);
  if (!scale && !q.dim(3).is_constant()) n.refuse("the size of a head is open");
  if (!scale) scale = 1 / std::sqrt(static_cast<double>(q.dim(3).constant()));
  const double softcap = n.real("softcap", 0.0);
  const bool sinks = n.has(11) || n.integer("smooth_softmax", -1) == 1;
  // The bias has one column per used position. The cache may have more positions, which are hidden.
  const Dim keys = cache.k.dim(2);
  Value added = n.in_or_none(10), y;
  if (added && !(added.dim(3) == keys))
    added = pad(added, {0, 0, 0, 0, 0, 0, 0, keys - added.dim(3)});
  if (softcap <= 0 && !sinks) {
    Value seen = cache.seen;
    if (added) seen = where(seen, added, constant_like(q, -INFINITY));
    y = attention(q, cache.k, cache.v, seen, false, *scale);
  } else {
    const Dim group = floordiv(heads, kv_heads);
    Value scores = matmul(q, permute(heads_repeated(cache.k, group), {0, 1, 3, 2})) * *scale;
    if (softcap > 0) scores = hg::tanh(scores / softcap) * softcap;
    if (added) scores = scores + added;
    scores = where(cache.seen, scores, constant_like(scores, -INFINITY));
    Value sink;
    if (sinks) sink = n.has(11) ? reshape(n.in(11), {1, heads, 1, 1}) : constant_like(scores, 0);
    const Value p = sinks ? softmax_with_sink(scores, sink) : softmax(scores, 3);
    y = matmul(p, heads_repeated(cache.v, group));
  }
  n.give({heads_together(y), cache.k, cache.v});
}

constexpr Builtin kRows[] = {
    {"com.microsoft::GroupQueryAttention", row<group_query_attention>},
};

}  // namespace

Rows contrib_grouped_attention_rows() { return kRows; }

}  // namespace hg::convert::onnx
