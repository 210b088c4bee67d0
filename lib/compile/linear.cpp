// SPDX-License-Identifier: Apache-2.0
// Turns products with one matrix into linear, and additions to the channels of linear and conv into
// their bias.
#include "lib/compile/pattern.h"

namespace hg {
namespace {

// x [..., k] w [k, n]
Value linear_of_matmul(const Match& m) {
  const Value x = m.value("x"), w = m.value("w");
  if (w.rank() != 2 || x.rank() < 2) return Value();
  if (fixed_type(m.graph(), m.context(), w.id()) == nullptr) return Value();
  const Value columns = m.graph().call("permute", {w}, {{"dims", {1, 0}}});
  return m.graph().call("linear", {x, columns});
}

// x [..., k] times a transposed weight [n, k], as models with tied weights have.
Value linear_of_turned(const Match& m) {
  const Value x = m.value("x"), w = m.value("w");
  if (w.rank() != 2 || x.rank() < 2) return Value();
  if (fixed_type(m.graph(), m.context(), w.id()) == nullptr) return Value();
  const Dim first = m.attrs("p").integers("dims")[0];
  if (!(first == Dim(1) || first == Dim(-1))) return Value();
  return m.graph().call("linear", {x, w});
}

// b, which broadcasts to y, as one number per element of y's dim; empty if it varies along other
// dims.
Value per_channel(const Value& b, const Value& y, int dim) {
  const int at = dim - (y.rank() - b.rank());
  if (at < 0 || !(b.dim(at) == y.dim(dim))) return Value();
  for (int d = 0; d < b.rank(); ++d)
    if (d != at && !(b.dim(d) == Dim(1))) return Value();
  return b.rank() == 1 ? b : b.graph()->call("reshape", {b}, {{"shape", {b.dim(at)}}});
}

// linear(x, w) + b, or mixed_linear
Value add_bias(const Match& m) {
  if (m.attrs("l").string("activation") != "none") return Value();
  const Value b = per_channel(m.value("b"), m.root(), m.root().rank() - 1);
  return b ? m.graph().call(m.node("l").op->name(), {m.value("x"), m.value("w"), b}) : Value();
}

// conv(x, w) + b
Value add_channels(const Match& m) {
  if (m.attrs("c").string("activation") != "none") return Value();
  const Value b = per_channel(m.value("b"), m.root(), 1);
  if (!b) return Value();
  return m.graph().call("conv", {m.value("x"), m.value("w"), b}, named_attrs(m.node("c")));
}

// quantized_linear(x, levels, scales) + b
Value add_bias_to_levels(const Match& m) {
  const AttrReader attrs = m.attrs("l");
  if (attrs.string("activation") != "none") return Value();
  const Value b = per_channel(m.value("b"), m.root(), m.root().rank() - 1);
  if (!b) return Value();
  return m.graph().call("quantized_linear",
                        {m.value("x"), m.value("levels"), m.value("scales"), m.value("offsets"), b},
                        named_attrs(m.node("l")));
}

constexpr Rule kRules[] = {
    {"y: matmul(x, permute[p](w))", linear_of_turned},
    {"y: matmul(x, w)", linear_of_matmul},
    {"y: add(linear[l](x, w), b)", add_bias},
    {"y: add(mixed_linear[l](x, w), b)", add_bias},
    {"q: quantized_linear[l](x, levels, scales) | quantized_linear[l](x, levels, scales, offsets)\n"
     "y: add(q, b)",
     add_bias_to_levels},
    {"y: add(conv[c](x, w), b)", add_channels},
};

}  // namespace

Status form_linear(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules);
}

}  // namespace hg
