// SPDX-License-Identifier: Apache-2.0
// Recognizes rotary position embeddings: x cos + [-b, a] sin, where [a, b] = x.
#include <algorithm>

#include "lib/compile/pattern.h"

namespace hg {
namespace {

// Whether the slice is the first or the second half of x's last dim.
bool is_half(const Match& m, std::string_view node, const Value& x, bool second) {
  const AttrReader attrs = m.attrs(node);
  const Dim size = x.dim(-1), half = floordiv(size, Dim(2));
  const Dim dim = attrs.integer("dim");
  if (!size.is_constant() || size.constant() % 2 != 0) return false;
  const Dim start = attrs.integer("start"), end = attrs.integer("end");
  if (!start.is_constant() || !end.is_constant()) return false;
  const auto place = [&](const Dim& at) {  // negative counts from the end; then clamped
    const int64_t i = at.constant() < 0 ? at.constant() + size.constant() : at.constant();
    return std::clamp<int64_t>(i, 0, size.constant());
  };
  return (dim == Dim(-1) || dim == Dim(x.rank() - 1)) && attrs.integer("step") == Dim(1) &&
         place(start) == (second ? half.constant() : 0) &&
         place(end) == (second ? size : half).constant();
}

Value rope(const Match& m) {
  const Value x = m.value("x");
  const Dim joined = m.attrs("joined").integer("dim");
  if (x.rank() == 0 || !(joined == Dim(-1) || joined == Dim(x.rank() - 1)) ||
      !is_half(m, "first", x, false) || !is_half(m, "second", x, true))
    return Value();
  return m.graph().call("rope", {x, m.value("cos"), m.value("sin")});
}

constexpr Rule kRules[] = {
    {"rotated: concat[joined](neg(slice[second](x)), slice[first](x))\n"
     "y: add(mul(x, cos), mul(rotated, sin))",
     rope},
};

}  // namespace

Status find_rope(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules);
}

}  // namespace hg
