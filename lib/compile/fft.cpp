// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of real numbers that a model writes as complex pairs with zero imaginary
// parts.
#include "lib/compile/pattern.h"

namespace hg {
namespace {

// Whether all elements of a constant, or of one that is repeated or reshaped, are 0.
bool are_zeros(const Match& m, const Value& x) {
  const Graph& graph = m.graph();
  ValueId id = x.id();
  for (;;) {
    const int32_t made_by = graph.value_info(id).node;
    if (made_by < 0) return is_filled(m, id, 0);
    const Node& node = graph.nodes()[static_cast<size_t>(made_by)];
    if (node.op->def.name == "full") return AttrReader(node.op, node.attrs).real("value") == 0;
    if (node.op->def.view == nullptr || node.inputs.size() != 1) return false;
    id = node.inputs[0];
  }
}

Value of_real(const Match& m) {
  const Value re = m.value("re");
  const Dim joined = m.attrs("pairs").integer("dim");
  if (re.rank() < 2 || !(joined == Dim(-1) || joined == Dim(re.rank() - 1)) ||
      !(re.dim(-1) == Dim(1)) || !are_zeros(m, m.value("im")))
    return Value();
  const AttrReader attrs = m.attrs("transform");
  return m.graph().call("fft_of_real", {re},
                        {{"dim", attrs.integer("dim")},
                         {"inverse", attrs.flag("inverse")},
                         {"norm", attrs.string("norm")}});
}

constexpr Rule kRules[] = {{"y: fft[transform](concat[pairs](re, im))", of_real}};

}  // namespace

Status find_real_fft(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules, true);
}

}  // namespace hg
