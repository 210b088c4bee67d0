// SPDX-License-Identifier: Apache-2.0
// Products with one matrix become linear, with what is added to and multiplied with their columns.
#include "lib/compile/pattern.h"

namespace hg {
namespace {

// x [..., k] w [k, n]
Value linear_of_matmul(const Match& m) {
  const Value x = m.value("x"), w = m.value("w");
  if (w.rank() != 2 || x.rank() < 2) return Value();
  if (fixed_data(m.graph(), m.context(), w.id()) == nullptr) return Value();
  const Value columns = m.graph().call("permute", {w}, {{"dims", {1, 0}}});
  return m.graph().call("linear", {x, columns});
}

// x [..., k] times a weight [n, k] that is turned, as a shared one is
Value linear_of_turned(const Match& m) {
  const Value x = m.value("x"), w = m.value("w");
  if (w.rank() != 2 || x.rank() < 2) return Value();
  if (fixed_data(m.graph(), m.context(), w.id()) == nullptr) return Value();
  const Dim first = m.attrs("p").integers("dims")[0];
  if (!(first == Dim(1) || first == Dim(-1))) return Value();
  return m.graph().call("linear", {x, w});
}

// linear(x, w) + b
Value add_bias(const Match& m) {
  const Value b = m.value("b");
  if (b.rank() != 1 || !(b.dim(0) == m.root().dim(-1))) return Value();
  if (m.attrs("l").string("activation") != "none") return Value();
  return m.graph().call("linear", {m.value("x"), m.value("w"), b});
}

constexpr Rule kRules[] = {
    {"y: matmul(x, permute[p](w))", linear_of_turned},
    {"y: matmul(x, w)", linear_of_matmul},
    {"y: add(linear[l](x, w), b)", add_bias},
};

}  // namespace

Status form_linear(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules);
}

}  // namespace hg
