// SPDX-License-Identifier: Apache-2.0
// Causal convolutions: if a model pads x on both sides and cuts off as many outputs at the end as
// zeros were added there, x is padded only in front and those outputs are not computed.
#include "lib/compile/pattern.h"

namespace hg {
namespace {

// conv [n, o, time + padding], cut to [n, o, time]
Value pad_in_front(const Match& m) {
  const AttrReader conv = m.attrs("conv"), cut = m.attrs("cut");
  const Value x = m.value("x"), w = m.value("w");
  const Dim last = cut.integer("dim");
  if (x.rank() != 3 || conv.flag("transposed") || !(last == Dim(2) || last == Dim(-1)) ||
      !(cut.integer("start") == Dim(0)) || !(cut.integer("step") == Dim(1)) ||
      !(conv.integers("stride")[0] == Dim(1)))
    return Value();
  const Dim padding = conv.integers("padding")[0], dilation = conv.integers("dilation")[0];
  if (!padding.is_constant() || padding.constant() < 1 || !(m.root().dim(2) == x.dim(2)) ||
      !(padding == dilation * (w.dim(2) - Dim(1))))
    return Value();
  const Value padded =
      m.graph().call("pad", {x}, {{"pads", std::vector<Dim>{0, 0, 0, 0, padding, 0}}});
  std::vector<Value> inputs = {padded, w};
  if (m.has("b")) inputs.push_back(m.value("b"));
  return m.graph().call("conv", inputs,
                        {{"dilation", conv.raw("dilation")},
                         {"groups", conv.raw("groups")},
                         {"activation", conv.raw("activation")},
                         {"exact", conv.raw("exact")}});
}

constexpr Rule kRules[] = {
    {"y: slice[cut](conv[conv](x, w))", pad_in_front},
    {"y: slice[cut](conv[conv](x, w, b))", pad_in_front},
};

}  // namespace

Status pad_causal(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules);
}

}  // namespace hg
