// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's attention ops, with built-in projections, key/value caches, rotary embeddings, and
// masks given as lengths. GroupQueryAttention is in contrib_grouped_attention.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "converter/onnx/contrib.h"
#include "converter/onnx/integers.h"
#include "hg/op.h"
#include "lib/graph/past_names.h"

namespace hg::convert::onnx {
namespace {

double lowest_of(DType dtype) {
  if (dtype == f16) return -65504;
  if (dtype == f64) return std::numeric_limits<double>::lowest();
  return std::numeric_limits<float>::lowest();
}

// Queries, keys and values [batch, heads, time, size], with past keys and values.
struct Parts {
  Value q, k, v;
  Value past_k, past_v;  // may be missing
  Value mask, added;     // as in the node; may be missing
  bool causal = false;
  double filter = -10000;  // added to hidden scores
  std::optional<double> scale;
};

struct Answer {
  Value y, k, v;  // y: [batch, time, heads * size]; k and v with the past
  Value scores;   // before the softmax, if requested
};

// Returns the bias added to the scores if lengths, starts or a mask of 0 and 1 hide keys.
Value padding_of(Node& n, const Parts& p, const Dim& keys) {
  Graph& g = n.graph();
  const Dim batch = p.q.dim(0), time = p.q.dim(2);
  const Value zero = constant_like(p.q, 0), hidden = constant_like(p.q, p.filter);
  const Value mask = p.mask;
  if (mask.rank() == 1) {
    const bool starts = mask.dim(0) == Dim(2) * batch && !(mask.dim(0) == batch);
    if (!starts && !(mask.dim(0) == batch))
      n.refuse(str_cat("its mask is ", mask.shape(), " for a batch of ", batch),
               "give a number for the batch with --dim");
    const Value at = places(g, keys, {1, 1, 1, keys});
    const auto limit = [&](const Dim& from) {
      return reshape(cast(slice(mask, 0, from, from + batch), i64), {batch, 1, 1, 1});
    };
    Value seen = lt(at, limit(0));
    if (starts) seen = logical_and(seen, ge(at, limit(batch)));
    return where(seen, zero, hidden);
  }
  const Value shown = gt(mask, constant_like(mask, 0));
  if (mask.rank() == 2)
    return where(reshape(shown, {mask.dim(0), 1, 1, mask.dim(1)}), zero, hidden);
  if (mask.rank() == 3)
    return where(reshape(shown, {mask.dim(0), 1, time, mask.dim(2)}), zero, hidden);
  n.refuse(str_cat("its mask is ", mask.shape(), ", of a rank that is not supported"));
}

Answer attended(Node& n, const Parts& p, bool wants_scores) {
  Graph& g = n.graph();
  Answer answer;
  answer.k = p.past_k ? concat({p.past_k, p.k}, 2) : p.k;
  answer.v = p.past_v ? concat({p.past_v, p.v}, 2) : p.v;
  const Dim past = p.past_k ? p.past_k.dim(2) : Dim(0), time = p.q.dim(2), keys = answer.k.dim(2);
  Value added;
  const auto add_to = [&](const Value& more) { added = added ? added + more : more; };
  if (p.added) add_to(p.added);
  bool causal_alone = false;
  Value padding;
  if (p.mask) padding = padding_of(n, p, keys);
  if (p.causal && !(time == Dim(1))) {
    const bool square = p.k.dim(2) == time;
    if (!square && !time.is_constant())
      n.refuse("it is unidirectional with open numbers of queries and of other keys",
               "give a number for the queries with --dim");
    causal_alone = !padding && !added && past == Dim(0) && square && !wants_scores;
    if (!causal_alone) {
      const Value row = places(g, time, {time, 1}) + size_value(g, past);
      const Value seen = le(places(g, keys, {1, keys}), row);
      padding = where(seen, padding ? padding : constant_like(p.q, 0),
                      constant_like(p.q, lowest_of(p.q.dtype())));
    }
  }
  if (padding) add_to(padding);
  if (!p.q.dim(3).is_constant() && !p.scale) n.refuse("the size of a head is open");
  const double scale =
      p.scale ? *p.scale : 1 / std::sqrt(static_cast<double>(p.q.dim(3).constant()));
  answer.y = heads_together(attention(p.q, answer.k, answer.v, added, causal_alone, scale));
  if (wants_scores) {
    answer.scores = matmul(p.q, permute(answer.k, {0, 1, 3, 2})) * scale;
    if (added) answer.scores = answer.scores + added;
  }
  return answer;
}

// Returns half i of [2, batch, heads, time, size].
Value half(Node& n, const Value& past, int64_t i) {
  return reshape(slice(past, 0, i, i + 1), n.sizes_from(past, 1));
}
Value stacked_pair(const Value& k, const Value& v) {
  const auto outer = [](const Value& x) {
    Shape shape = x.shape();
    shape.insert(shape.begin(), Dim(1));
    return reshape(x, std::move(shape));
  };
  return concat({outer(k), outer(v)}, 0);
}

void give_self_attention(Node& n, const Value& projected, const Dims& sizes, int mask, int past,
                         int added) {
  if (n.flag("do_rotary")) n.refuse("attribute 'do_rotary' is 1");
  if (n.flag("past_present_share_buffer")) n.refuse("attribute 'past_present_share_buffer' is 1");
  const Dim heads = n.integer("num_heads");
  const auto part = [&](const Dim& from, const Dim& size) {
    return heads_apart(slice(projected, 2, from, from + size), heads);
  };
  Parts p;
  p.q = part(0, sizes[0]);
  p.k = part(sizes[0], sizes[1]);
  p.v = part(sizes[0] + sizes[1], sizes[2]);
  p.causal = n.flag("unidirectional");
  p.filter = n.real("mask_filter_value", -10000.0);
  p.scale = scale_attribute(n);
  p.mask = n.in_or_none(mask);
  if (added >= 0) p.added = n.in_or_none(added);
  if (n.has(past)) {
    p.past_k = half(n, n.in(past), 0);
    p.past_v = half(n, n.in(past), 1);
  }
  const Answer answer = attended(n, p, false);
  if (n.output_count() == 1) return n.give(answer.y);
  if (!(p.k.dim(3) == p.v.dim(3))) n.refuse("keys and values of different sizes are given back");
  n.give({answer.y, stacked_pair(answer.k, answer.v)});
}

void self_attention(Node& n) {
  const Value x = n.in(0), weight = n.in(1);
  Value projected = matmul(x, weight);
  if (n.has(2)) projected = projected + n.in(2);
  Dims sizes = dims_of(n.integers("qkv_hidden_sizes"));
  if (sizes.empty()) sizes = one_each(3, floordiv(weight.dim(1), 3));
  if (sizes.size() != 3) n.refuse("attribute 'qkv_hidden_sizes' has not three numbers");
  give_self_attention(n, projected, sizes, 3, 4, 5);
}

// Attention with quantized inputs and weights (u8 or i8).
void quantized_self_attention(Node& n) {
  const Integers weight = integers_of(n, 1, 7);
  const IntegerSums sums = integer_product(integers_of(n, 0, 6), weight);
  const Value bias = n.in(2);
  const Value projected = cast(scaled(sums, scale_in(n, 3), scale_in(n, 4)), bias.dtype()) + bias;
  give_self_attention(n, projected, one_each(3, floordiv(weight.value.dim(1), 3)), 5, 8, -1);
}

// Returns part i of the three in [batch, time, heads, count, size], as [batch, heads, time, size].
Value packed_part(const Value& x, int64_t i) {
  const Value one = slice(x, 3, i, i + 1);
  return permute(reshape(one, {x.dim(0), x.dim(1), x.dim(2), x.dim(4)}), {0, 2, 1, 3});
}

void multi_head_attention(Node& n) {
  const Dim heads = n.integer("num_heads");
  const Value query = n.in(0);
  if (n.has(8) || n.has(9)) n.refuse("it shares the memory of its cache");
  Parts p;
  const auto biased = [&](const Value& x, const Dim& from) {
    const Value flat = n.has(3) ? x + slice(n.in(3), 0, from, from + x.dim(2)) : x;
    return heads_apart(flat, heads);
  };
  if (query.rank() == 5) {
    if (n.has(3)) n.refuse("it has a bias for queries, keys and values in one");
    p.q = packed_part(query, 0);
    p.k = packed_part(query, 1);
    p.v = packed_part(query, 2);
  } else {
    if (!n.has(1)) n.refuse("it has no key, and its query is no pack of three");
    const Value key = n.in(1);
    const Dim hidden = query.dim(2);
    p.q = biased(query, 0);
    if (key.rank() == 5) {
      if (n.has(3)) n.refuse("it has a bias for keys and values in one");
      p.k = packed_part(key, 0);
      p.v = packed_part(key, 1);
    } else if (key.rank() == 4) {
      p.k = key;
      p.v = n.in(2);
    } else {
      p.k = biased(key, hidden);
      p.v = biased(n.in(2), hidden + hidden);
    }
  }
  p.causal = n.flag("unidirectional");
  p.filter = n.real("mask_filter_value", -10000.0);
  p.scale = scale_attribute(n);
  p.mask = n.in_or_none(4);
  p.added = n.in_or_none(5);
  if (n.has(6) != n.has(7)) n.refuse("only one of past_key and past_value is given");
  p.past_k = n.in_or_none(6);
  p.past_v = n.in_or_none(7);
  const Answer answer = attended(n, p, n.output_count() > 3);
  n.give({answer.y, answer.k, answer.v, answer.scores});
}

// Returns whether elementwise ops compute a value from the largest element of an input.
bool depends_on_largest(const Graph& graph, ValueId id, int depth = 0) {
  constexpr int kMostOps = 12;
  const hg::Node* const node = depth == kMostOps ? nullptr : maker_of(graph, id);
  if (node == nullptr) return false;
  if (node->op->name() == "amax") return true;
  return ((node->op->def.traits & kElementwise) != 0 || node->op->name() == "cast") &&
         std::any_of(node->inputs.begin(), node->inputs.end(),
                     [&](ValueId input) { return depends_on_largest(graph, input, depth + 1); });
}

// Rejects a decoder with other positions in longer texts: its past has keys of the earlier ones,
// and prompts that run together would change each other.
void refuse_moving_positions(Node& n) {
  const Graph& g = n.graph();
  const bool has_past = std::any_of(g.inputs().begin(), g.inputs().end(), [&](ValueId id) {
    return past_suffix(g.value_info(id).name).has_value();
  });
  if (has_past && depends_on_largest(g, n.in(1).id()))
    n.refuse(
        "its positions depend on the largest one of a run, so that keys of a past would need all "
        "tokens to be read again");
}

void rotary_embedding_at_positions(Node& n) {
  refuse_moving_positions(n);
  const Value given = n.in(0), cos = n.in(2), sin = n.in(3);
  if (n.flag("is_packed_batching")) n.refuse("attribute 'is_packed_batching' is 1");
  if (n.real("scale", 1.0) != 1) n.refuse("attribute 'scale' is not 1");
  Dim size = n.integer("rotary_embedding_dim", 0);
  Value x = given;
  if (given.rank() == 3) {
    const int64_t heads = n.integer("num_heads", 0);
    if (!(size == Dim(0)) && heads == 0) n.refuse("attribute 'num_heads' is missing");
    const Dim head = size == Dim(0) ? cos.dim(1) * Dim(2) : floordiv(given.dim(2), heads);
    x = heads_apart(given, floordiv(given.dim(2), head));
  }
  if (x.rank() != 4) n.refuse(str_cat("its input is ", given.shape()));
  if (size == Dim(0)) size = cos.dim(1) * Dim(2);
  Value at = cast(n.in(1), i64);
  if (at.rank() == 1) at = reshape(at, {1, 1}) + places(n.graph(), x.dim(2), {1, x.dim(2)});
  const Value y = rotated(x, angles(cos, at), angles(sin, at), size, n.flag("interleaved"));
  n.give(given.rank() == 3 ? heads_together(y) : y);
}

constexpr Builtin kRows[] = {
    {"com.microsoft::Attention", row<self_attention>},
    {"com.microsoft::QAttention", row<quantized_self_attention>},
    {"com.microsoft::MultiHeadAttention", row<multi_head_attention>},
    {"com.microsoft::RotaryEmbedding", row<rotary_embedding_at_positions>},
};

}  // namespace

Rows contrib_attention_rows() { return kRows; }

}  // namespace hg::convert::onnx
