// SPDX-License-Identifier: Apache-2.0
// Recognizes attention written as products around a softmax, with scale and mask. Also merges
// scales, repeated heads and repeated masks into the attention op.
#include <algorithm>
#include <cmath>

#include "lib/compile/pattern.h"

namespace hg {
namespace {

constexpr double kHides = -1e30;  // scores this low have no weight

// Whether no element can be -inf. If such a mask hides all keys from a query, the original computes
// NaN, but the attention op computes 0.
bool is_finite(const Graph& graph, const CompileContext& context, ValueId id, int depth) {
  if (depth == 0) return false;
  if (!is_float(graph.value_info(id).type.dtype)) return true;
  if (const TensorData* data = fixed_data(graph, context, id)) {
    const Tensor& tensor = data->tensor;
    if (tensor.dtype != f32 || !tensor.is_contiguous()) return false;
    const float* x = tensor.as<float>();
    return std::all_of(x, x + tensor.count(), [](float value) { return std::isfinite(value); });
  }
  const int32_t index = graph.value_info(id).node;
  if (index < 0) return false;
  const Node& node = graph.nodes()[index];
  if ((node.op->def.traits & kKeepsFinite) == 0) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) {
    return in == kNoValue || is_finite(graph, context, in, depth - 1);
  });
}

// Returns the condition if the mask is 0 where it holds and -inf elsewhere; otherwise the mask.
Value condition_of(const Match& m, const Value& mask) {
  const int32_t index = m.graph().value_info(mask.id()).node;
  if (index < 0) return mask;
  const Node& node = m.graph().nodes()[index];
  if (node.op->name() != "where") return mask;
  const auto number = [&](int i) {
    return constant_number(m.graph(), m.context(), node.inputs[i]).value_or(1);
  };
  const Value condition = m.graph().value(node.inputs[0]);
  return number(1) == 0 && number(2) == -HUGE_VAL && condition.shape() == mask.shape() ? condition
                                                                                       : mask;
}

// y = softmax(scale q k^T + mask) v
Value attention(const Match& m) {
  Graph& g = m.graph();
  Value q = m.value("q"), k = m.value("k"), v = m.value("v");
  const int rank = q.rank();
  if (rank < 2 || k.rank() != rank || v.rank() != rank) return Value();
  const Dim axis = m.attrs("softmax").integer("dim");
  if (!(axis == Dim(-1) || axis == Dim(rank - 1))) return Value();
  // k^T is a permute of k, which may move more than the last two dims.
  std::vector<Dim> dims;
  bool is_permuted = false;
  for (const Dim& dim : m.attrs("perm").integers("dims"))
    dims.push_back(dim.constant() < 0 ? dim + rank : dim);
  std::swap(dims[rank - 1], dims[rank - 2]);
  for (int d = 0; d < rank; ++d) is_permuted |= !(dims[d] == Dim(d));
  if (is_permuted) k = g.call("permute", {k}, {{"dims", dims}});
  for (int d = 0; d + 2 < rank; ++d)
    if (!(q.dim(d) == k.dim(d)) || !(k.dim(d) == v.dim(d))) return Value();
  const double scale = m.number("s1", 1) / m.number("d1", 1) * m.number("s2", 1) /
                       m.number("d2", 1) * m.number("s3", 1) / m.number("d3", 1);
  Value mask = m.value("mask");
  if (m.has("keep")) {
    const double hidden = m.number("hidden");
    if (std::isnan(hidden) || hidden > kHides) return Value();
    if (std::isinf(hidden) && !m.has("guarded")) return Value();
    mask = m.value("keep");
    if (std::isfinite(hidden)) mask = g.call("where", {mask, g.scalar(0.0), g.scalar(hidden)});
  } else if (mask && m.has("guarded")) {
    // A query from which all keys are hidden yields NaN, which the model replaces by 0, as the
    // attention op does.
    mask = condition_of(m, mask);
  } else if (mask && !is_finite(g, m.context(), mask.id(), 12)) {
    return Value();
  }
  return g.call("attention", {q, k, v, mask}, {{"scale", scale}});
}

// The last two dims are swapped while the other dims are merged into one. They may stay separate.
Value swap_last(const Match& m) {
  const Value flat = m.value("r1"), y = m.root();
  const int rank = y.rank();
  if (flat.rank() != 3 || rank < 4) return Value();
  const std::span<const Dim> dims = m.attrs("p").integers("dims");
  if (!(dims[0] == Dim(0)) || !(dims[1] == Dim(2) || dims[1] == Dim(-1))) return Value();
  if (!(y.dim(-1) == flat.dim(1)) || !(y.dim(-2) == flat.dim(2))) return Value();
  Shape apart = y.shape();
  std::swap(apart[rank - 1], apart[rank - 2]);
  std::vector<Dim> order;
  for (int d = 0; d < rank; ++d) order.emplace_back(d);
  std::swap(order[rank - 1], order[rank - 2]);
  Value x = m.value("x");
  if (!(x.shape() == apart)) x = m.graph().call("reshape", {x}, {{"shape", apart}});
  return m.graph().call("permute", {x}, {{"dims", order}});
}

NamedAttrs attrs_with_scale(const Match& m, double factor) {
  const AttrReader attrs = m.attrs("a");
  const double scale = attrs.has("scale")
                           ? attrs.real("scale")
                           : 1 / std::sqrt(static_cast<double>(m.value("q").dim(-1).constant()));
  return {{"scale", scale * factor}, {"causal", attrs.flag("causal")}};
}

// Moves a scale of queries or keys into the scale of the scores.
Value scale_scores(const Match& m) {
  if (!m.value("q").dim(-1).is_constant()) return Value();
  const double factor =
      m.number("s1", 1) / m.number("d1", 1) * m.number("s2", 1) / m.number("d2", 1);
  if (!(factor > 0)) return Value();
  return m.graph().call("attention", {m.value("q"), m.value("k"), m.value("v"), m.value("mask")},
                        attrs_with_scale(m, factor));
}

// Whether `wide` repeats each head of x consecutively, as the op does itself.
bool repeats_heads(const Value& x, const Value& split, const Value& spread, const Value& wide) {
  const int rank = x.rank();
  if (rank < 3 || split.rank() != rank + 1 || spread.rank() != rank + 1 || wide.rank() != rank)
    return false;
  for (int d = 0; d < rank - 2; ++d)
    if (!(split.dim(d) == x.dim(d)) || !(spread.dim(d) == x.dim(d))) return false;
  return split.dim(rank - 2) == Dim(1) && spread.dim(rank - 2).is_constant() &&
         split.dim(-1) == x.dim(-1) && split.dim(-2) == x.dim(-2) && wide.dim(-1) == x.dim(-1) &&
         wide.dim(-2) == x.dim(-2);
}

Value group_heads(const Match& m) {
  const Value k = m.value("k"), v = m.value("v");
  if (!repeats_heads(k, m.value("k1"), m.value("k2"), m.value("k3")) ||
      !repeats_heads(v, m.value("v1"), m.value("v2"), m.value("v3")) ||
      !m.value("q").dim(-1).is_constant())
    return Value();
  return m.graph().call("attention", {m.value("q"), k, v, m.value("mask")}, attrs_with_scale(m, 1));
}

// Whether each dim of the mask is 1 or equals that of the scores, so that no run has to check it.
bool surely_spreads(const Value& mask, const Value& q, const Value& k) {
  const int rank = q.rank();
  for (int d = 1; d <= mask.rank(); ++d) {
    const Dim& scores = d == 1 ? k.dim(rank - 2) : q.dim(rank - d);
    if (!(mask.dim(-d) == Dim(1)) && !(mask.dim(-d) == scores)) return false;
  }
  return true;
}

// Whether the mask never changes, hides no key and adds nothing.
bool changes_nothing(const Match& m, const Value& mask) {
  const TensorData* data = fixed_data(m.graph(), m.context(), mask.id());
  if (data == nullptr || !data->tensor.is_contiguous()) return false;
  const Tensor& tensor = data->tensor;
  const auto all = [&]<class T>(T value) {
    const T* x = tensor.as<T>();
    return std::all_of(x, x + tensor.count(), [&](T each) { return each == value; });
  };
  if (tensor.dtype == boolean) return all(true);
  return tensor.dtype == f32 && all(0.0f);
}

// Reads the mask without its repetition, and drops a mask without effect.
Value plain_mask(const Match& m) {
  Graph& g = m.graph();
  const Value q = m.value("q"), k = m.value("k"), mask = m.value("mask");
  if (!mask || !q.dim(-1).is_constant() || !surely_spreads(mask, q, k)) return Value();
  Value plain = mask;
  const int32_t index = g.value_info(mask.id()).node;
  if (index >= 0 && g.nodes()[index].op->name() == "expand")
    plain = g.value(g.nodes()[index].inputs[0]);
  if (changes_nothing(m, plain)) plain = Value();
  if (plain && plain.id() == mask.id()) return Value();
  return g.call("attention", {q, k, m.value("v"), plain}, attrs_with_scale(m, 1));
}

constexpr Rule kRules[] = {
    {"y: reshape(permute[p](reshape[r1](x)))", swap_last},
    {"sq: mul(q, $s1) | div(q, $d1) | q\n"
     "kt: permute[perm](k) | mul(permute[perm](k), $s2) | div(permute[perm](k), $d2)\n"
     "product: matmul(sq, kt)\n"
     "scores: mul(product, $s3) | div(product, $d3) | product\n"
     "masked: where(keep, scores, $hidden) | add(scores, mask) | scores\n"
     "weights: softmax[softmax](masked)\n"
     "y: matmul(weights, v) | matmul(where[guarded](isnan(weights), 0, weights), v)",
     attention},
    {"kk: reshape[k3](expand[k2](reshape[k1](k)))\n"
     "vv: reshape[v3](expand[v2](reshape[v1](v)))\n"
     "y: attention[a](q, kk, vv, mask) | attention[a](q, kk, vv)",
     group_heads},
    {"y: attention[a](q, k, v, mask)", plain_mask},
    {"sq: mul(q, $s1) | div(q, $d1)\n"
     "sk: mul(k, $s2) | div(k, $d2)\n"
     "y: attention[a](sq, sk, v, mask) | attention[a](sq, k, v, mask) |"
     "   attention[a](q, sk, v, mask) | attention[a](sq, sk, v) | attention[a](sq, k, v) |"
     "   attention[a](q, sk, v)",
     scale_scores},
};

// Keys and values are read in 16 bits, or in 8 with their scales.
Value read_stored(const Match& m) {
  const Value k = m.value("k"), v = m.value("v"), ks = m.value("ks"), vs = m.value("vs");
  if (m.value("q").dtype() != f32 || k.dtype() != v.dtype()) return Value();
  const auto are_scales = [](const Value& scales, const Value& of) {
    Shape shape = of.shape();
    if (shape.empty()) return false;
    shape.back() = Dim(1);
    return scales.dtype() == f32 && scales.shape() == shape;
  };
  if (ks ? k.dtype() != i8 || !are_scales(ks, k) || !are_scales(vs, v)
         : k.dtype() != f16 && k.dtype() != bf16)
    return Value();
  const AttrReader attrs = m.attrs("a");
  return m.graph().call("mixed_attention", {m.value("q"), k, v, m.value("mask"), ks, vs},
                        {{"scale", attrs.raw("scale")}, {"causal", attrs.flag("causal")}});
}

constexpr Rule kMixedRules[] = {
    {"kk: cast(k)\n"
     "vv: cast(v)\n"
     "y: attention[a](q, kk, vv, mask) | attention[a](q, kk, vv)",
     read_stored},
    {"kk: mul(cast(k), ks)\n"
     "vv: mul(cast(v), vs)\n"
     "y: attention[a](q, kk, vv, mask) | attention[a](q, kk, vv)",
     read_stored},
};

}  // namespace

Status find_attention(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules);
}

Status mix_attention(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kMixedRules);
}

}  // namespace hg
