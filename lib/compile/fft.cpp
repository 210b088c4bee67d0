// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of and to real numbers, which models write as transforms of complex pairs.
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

// The conjugates of the second half are x's numbers 1, 2, .. in reverse.
Value to_real(const Match& m) {
  const Value x = m.value("x"), all = m.value("all"), rest = m.value("rest");
  const int rank = x.rank();
  const auto axis = [&](const Dim& dim) {
    const auto d = static_cast<int>(dim.constant());
    return d < 0 ? d + rank : d;
  };
  // Whether a slice takes what begins at `start` along dim d.
  const auto is_slice = [&](std::string_view name, int d, int64_t start) {
    const AttrReader attrs = m.attrs(name);
    return axis(attrs.integer("dim")) == d && attrs.integer("start") == Dim(start) &&
           attrs.integer("step") == Dim(1);
  };
  const auto is_number = [&](std::string_view part) { return m.value(part).dim(-1) == Dim(1); };
  const AttrReader transform = m.attrs("transform");
  const int d = axis(transform.integer("dim"));
  const Dim n = all.dim(d);
  const std::span<const Dim> flipped = m.attrs("rest").integers("dims");
  if (m.node("re").inputs[0] != m.node("im").inputs[0] || flipped.size() != 1 ||
      axis(flipped[0]) != d || axis(m.attrs("all").integer("dim")) != d ||
      axis(m.attrs("pairs").integer("dim")) != rank - 1 || !is_slice("middle", d, 1) ||
      !is_slice("re", rank - 1, 0) || !is_slice("im", rank - 1, 1) || !is_slice("y", rank - 1, 0) ||
      !is_number("re") || !is_number("im") || !is_number("y") ||
      !(m.value("minus").shape() == m.value("im").shape()) || !(rest.dim(-1) == Dim(2)) ||
      !(x.dim(d) == floordiv(n, 2) + 1))
    return Value();
  return m.graph().call("fft_to_real", {x},
                        {{"n", n},
                         {"dim", d},
                         {"inverse", transform.flag("inverse")},
                         {"norm", transform.string("norm")}});
}

constexpr Rule kRules[] = {
    {"y: fft[transform](concat[pairs](re, im))", of_real},
    {"rest: flip[rest](slice[middle](x))\n"
     "minus: reshape[minus](neg(reshape(slice[im](rest))))\n"
     "all: concat[all](x, concat[pairs](slice[re](rest), minus))\n"
     "y: slice[y](fft[transform](all))",
     to_real},
};

}  // namespace

Status find_real_fft(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules, true);
}

}  // namespace hg
