// SPDX-License-Identifier: Apache-2.0
// Recognizes activations that a model computes with arithmetic ops.
#include "lib/compile/pattern.h"

namespace hg {
namespace {

Value gelu(const Match& m) { return m.graph().call("gelu", {m.value("x")}); }
Value gelu_tanh(const Match& m) {
  return m.graph().call("gelu", {m.value("x")}, {{"approximate", "tanh"}});
}
Value silu(const Match& m) { return m.graph().call("silu", {m.value("x")}); }
bool limits_to(const Match& m, double most) {
  return !m.has("limit") ||
         (m.attrs("limit").real("min_val") == 0 && m.attrs("limit").real("max_val") == most);
}
Value hardswish(const Match& m) {
  return limits_to(m, 6) ? m.graph().call("hardswish", {m.value("x")}) : Value();
}
Value hardsigmoid(const Match& m) {
  return limits_to(m, 6) ? m.graph().call("hardsigmoid", {m.value("x")}) : Value();
}
// ONNX's hardsigmoid is a line clamped to [0, 1]. Its slope is an f32 close to 1/6, which differs
// from 1/6 in f64.
Value hardsigmoid_of_line(const Match& m) {
  if (m.value("x").dtype() == f64 || !limits_to(m, 1)) return {};
  return m.graph().call("hardsigmoid", {m.value("x")});
}

constexpr Rule kRules[] = {
    {"square: mul(x, x) | pow(x, 2)\n"
     "cube: mul(square, x) | pow(x, 3)\n"
     "small: mul(square, 0.044715) | mul(x, mul(x, 0.044715))\n"
     "sum: add(x, mul(cube, 0.044715)) | add(x, mul(small, x))\n"
     "inner: mul(sum, 0.7978845608028654)\n"
     "inside: inner | mul(mul(x, 0.7978845608028654), add(small, 1))\n"
     "t: add(tanh(inside), 1)\n"
     "y: mul(mul(x, 0.5), t) | mul(mul(x, t), 0.5) | mul(x, mul(t, 0.5))",
     gelu_tanh},
    {"inside: div(x, 1.4142135623730951) | mul(x, 0.7071067811865476)\n"
     "e: add(erf(inside), 1)\n"
     "y: mul(mul(x, 0.5), e) | mul(mul(x, e), 0.5) | mul(x, mul(e, 0.5))",
     gelu},
    {"y: mul(x, sigmoid(x))", silu},
    {"clamped: hardtanh[limit](add(x, 3)) | clamp(add(x, 3), 0, 6)\n"
     "y: div(mul(x, clamped), 6) | mul(x, div(clamped, 6)) | mul(x, hardsigmoid(x)) |"
     "   mul(mul(x, clamped), 0.16666666666666667) | mul(x, mul(clamped, 0.16666666666666667))",
     hardswish},
    {"clamped: hardtanh[limit](add(x, 3)) | clamp(add(x, 3), 0, 6)\n"
     "y: div(clamped, 6) | mul(clamped, 0.16666666666666667)",
     hardsigmoid},
    {"line: add(mul(x, 0.16666666666666667), 0.5) | add(div(x, 6), 0.5)\n"
     "y: hardtanh[limit](line) | clamp(line, 0, 1)",
     hardsigmoid_of_line},
};

}  // namespace

Status find_activations(Graph& graph, const CompileContext& context) {
  return apply_rules(graph, context, kRules);
}

}  // namespace hg
