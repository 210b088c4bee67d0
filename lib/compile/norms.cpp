// SPDX-License-Identifier: Apache-2.0
// Recognizes layer_norm and rms_norm written as arithmetic over the last dim, and group_norm as
// exporters write it: an instance norm of groups with factors of 1, followed by the real factors.

#include "lib/compile/pattern.h"

namespace hg {
namespace {

// Whether the reduction runs only over the last dim, whose size is known, and keeps it.
bool is_over_last(const Match& m, std::string_view node, const Value& x) {
  const AttrReader attrs = m.attrs(node);
  const std::span<const Dim> dims = attrs.integers("dim");
  return dims.size() == 1 && (dims[0] == Dim(-1) || dims[0] == Dim(x.rank() - 1)) &&
         attrs.flag("keepdim") && x.rank() > 0 && x.dim(-1).is_constant();
}

NamedAttrs norm_attrs(const Value& x, double eps) {
  return {{"normalized_shape", {x.dim(-1)}}, {"eps", eps}};
}

Value rms_norm(const Match& m) {
  const Value x = m.value("x");
  if (!is_over_last(m, "mean", x)) return Value();
  return m.graph().call("rms_norm", {x}, norm_attrs(x, m.number("eps")));
}

Value layer_norm(const Match& m) {
  const Value x = m.value("x");
  if (!is_over_last(m, "mean", x) || !is_over_last(m, "var", x)) return Value();
  const Node& var = m.node("var");
  if (var.op->name() == "var" && m.attrs("var").real("correction") != 0) return Value();
  return m.graph().call("layer_norm", {x}, norm_attrs(x, m.number("eps")));
}

bool fits(const Match& m, const Value& x) {  // a factor or summand per element
  return x.rank() == 1 && x.dim(0) == m.root().dim(-1) &&
         m.attrs("n").integers("normalized_shape").size() == 1;
}

Value with_weight(const Match& m) {
  const Value x = m.value("x"), weight = m.value("weight");
  if (!fits(m, weight)) return Value();
  return m.graph().call(m.node("n").op->name(), {x, weight},
                        norm_attrs(x, m.attrs("n").real("eps")));
}

Value with_bias(const Match& m) {
  const Value x = m.value("x"), bias = m.value("bias");
  if (!fits(m, bias)) return Value();
  return m.graph().call("layer_norm", {x, m.value("weight"), bias},
                        norm_attrs(x, m.attrs("n").real("eps")));
}

// ---- group_norm ----

// One value per channel of x, in a shape that broadcasts to x, as a list; empty otherwise.
Value channels_of(const Value& v, const Value& x) {
  const int rank = v.rank(), channel = rank - x.rank() + 1;
  if (channel < 0 || channel > 1 || !(v.dim(channel) == x.dim(1))) return Value();
  for (int d = 0; d < rank; ++d)
    if (d != channel && !(v.dim(d) == Dim(1))) return Value();
  return v.graph()->call("reshape", {v}, {{"shape", {x.dim(1)}}});
}

NamedAttrs group_attrs(const Match& m) {
  return {{"groups", m.attrs("n").integer("groups")}, {"eps", m.attrs("n").real("eps")}};
}

Value group_norm_alone(const Match& m) {
  if (!is_filled(m, m.value("ones").id(), 1) || !is_filled(m, m.value("zeros").id(), 0))
    return Value();
  return m.graph().call("group_norm", {m.value("x")}, group_attrs(m));
}

// Reshapes groups to channels, and back.
Value group_norm_of_groups(const Match& m) {
  const Value x = m.value("x");
  const std::span<const Dim> shape = m.attrs("s").integers("shape");
  const Dim groups = m.attrs("n").integer("groups");
  if (x.rank() < 2 || shape.size() < 2 || !(shape[0] == x.dim(0)) || !(shape[1] == groups) ||
      !(m.root().shape() == x.shape()) || !groups.is_constant() || !x.dim(1).is_constant() ||
      x.dim(1).constant() % groups.constant() != 0)
    return Value();
  return m.graph().call("group_norm", {x}, group_attrs(m));
}

Value group_norm_with_weight(const Match& m) {
  const Value x = m.value("x"), weight = channels_of(m.value("weight"), x);
  if (!weight) return Value();
  return m.graph().call("group_norm", {x, weight}, group_attrs(m));
}

Value group_norm_with_bias(const Match& m) {
  const Value x = m.value("x"), bias = channels_of(m.value("bias"), x);
  if (!bias) return Value();
  return m.graph().call("group_norm", {x, m.value("weight"), bias}, group_attrs(m));
}

constexpr Rule kRules[] = {
    // Must run before rms_norm, whose pattern is the second half of layer_norm.
    {"centred: sub(x, mean[mean](x))\n"
     "square: mul(centred, centred) | pow(centred, 2) | square(centred)\n"
     "variance: mean[var](square) | var[var](x)\n"
     "shifted: add(variance, $eps)\n"
     "inverse: rsqrt(shifted) | pow(shifted, -0.5) | reciprocal(sqrt(shifted)) |"
     " div(1, sqrt(shifted))\n"
     "y: mul(centred, inverse) | div(centred, sqrt(shifted))",
     layer_norm},
    {"square: mul(x, x) | pow(x, 2) | square(x)\n"
     "shifted: add(mean[mean](square), $eps)\n"
     "inverse: rsqrt(shifted) | pow(shifted, -0.5) | reciprocal(sqrt(shifted)) |"
     " div(1, sqrt(shifted))\n"
     "y: mul(x, inverse) | div(x, sqrt(shifted))",
     rms_norm},
    {"y: mul(rms_norm[n](x), weight) | mul(layer_norm[n](x), weight)", with_weight},
    {"y: add(layer_norm[n](x, weight), bias)", with_bias},
    {"y: group_norm[n](x, ones, zeros)", group_norm_alone},
    {"y: reshape(group_norm[n](reshape[s](x)))", group_norm_of_groups},
    {"y: mul(group_norm[n](x), weight)", group_norm_with_weight},
    {"y: add(group_norm[n](x, weight), bias)", group_norm_with_bias},
};

}  // namespace

Status find_norms(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules);
}

}  // namespace hg
