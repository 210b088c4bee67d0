// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: arithmetic, comparisons, activations, casts.
#include <cmath>

#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {
namespace {

// ---- One input ----

template <Value (*F)(const Value&)>
void unary(Node& n) {
  n.give(F(n.in(0)));
}

// The graph op has no u8, for which the specification also defines the op.
void absolute(Node& n) {
  const Value x = n.in(0);
  n.give(x.dtype() == u8 ? x : hg::abs(x));
}
// The sign of NaN is NaN in ONNX, but 0 in PyTorch.
void signum(Node& n) {
  const Value x = n.in(0), y = hg::sign(x);
  n.give(is_float(x.dtype()) ? where(isnan(x), x, y) : y);
}
void rounded(Node& n) { n.give(hg::round(n.in(0))); }
void identity(Node& n) { n.give_item(n.item(0)); }

void rectified(Node& n) {
  const Value x = n.in(0);
  n.give(is_float(x.dtype()) ? relu(x) : maximum(x, constant_like(x, 0)));
}

void is_infinite(Node& n) {
  const Value x = n.in(0);
  const bool negative = n.flag("detect_negative", true), positive = n.flag("detect_positive", true);
  const Value inf = constant_like(x, INFINITY);
  if (negative && positive) return n.give(isinf(x));
  if (!negative && !positive) return n.give(logical_and(isinf(x), isnan(x)));
  n.give(positive ? eq(x, inf) : eq(x, -inf));
}

void softplus_of(Node& n) {
  const Value x = n.in(0);
  // The graph op returns x itself above 20, where f64 still resolves the difference.
  n.give(x.dtype() == f64 ? logaddexp(x, constant_like(x, 0)) : softplus(x));
}

void softsign(Node& n) {
  const Value x = n.in(0);
  n.give(x / (hg::abs(x) + 1.0));
}

void leaky(Node& n) { n.give(leaky_relu(n.in(0), n.real("alpha", double{0.01f}))); }
void elu_of(Node& n) { n.give(elu(n.in(0), n.real("alpha", 1.0))); }
void selu(Node& n) {
  const double alpha = n.real("alpha", double{1.67326319217681884765625f});
  n.give(elu(n.in(0), alpha, n.real("gamma", double{1.05070102214813232421875f})));
}
void celu(Node& n) {
  const double alpha = n.real("alpha", 1.0);
  n.give(elu(n.in(0), alpha, 1.0, 1.0 / alpha));
}
void thresholded(Node& n) {
  const Value x = n.in(0);
  n.give(where(gt(x, constant_like(x, n.real("alpha", 1.0))), x, constant_like(x, 0)));
}
void hard_sigmoid(Node& n) {
  const Value x = n.in(0);
  const Value line = x * n.real("alpha", double{0.2f}) + n.real("beta", double{0.5f});
  n.give(hardtanh(line, 0, 1));
}
void shrink(Node& n) {
  const Value x = n.in(0);
  const double lambda = n.real("lambd", 0.5), bias = n.real("bias", 0.0);
  const Value low = constant_like(x, -lambda), high = constant_like(x, lambda);
  const Value zero = constant_like(x, 0), shift = constant_like(x, bias);
  n.give(where(lt(x, low), x + shift, where(gt(x, high), x - shift, zero)));
}
void gelu_of(Node& n) {
  n.give(gelu(n.in(0), n.string("approximate", "none") == "tanh" ? GeluApproximation::tanh
                                                                 : GeluApproximation::none));
}
void swish_of(Node& n) { n.give(swish(n.in(0), n.real("alpha", 1.0))); }

// ---- Two inputs ----

// Before opset 7, the attributes `broadcast` and `axis` align the second input.
Value aligned(Node& n, const Value& a, const Value& b) {
  if (n.opset() >= 7 || !n.flag("broadcast") || b.rank() >= a.rank()) return b;
  if (!n.has("axis")) return b;
  const int axis = n.axis(n.integer("axis"), a.rank());
  Shape shape = b.shape();
  while (static_cast<int>(shape.size()) + axis < a.rank()) shape.emplace_back(1);
  return reshape(b, std::move(shape));
}

template <Value (*F)(const Value&, const Value&)>
void binary(Node& n) {
  const Value a = n.in(0);
  n.give(F(a, aligned(n, a, n.in(1))));
}

Value quotient(const Value& a, const Value& b) {
  return is_float(a.dtype()) ? hg::div(a, b) : trunc_divide(a, b);
}
Value exclusive(const Value& a, const Value& b) { return logical_xor(a, b); }

void power(Node& n) {
  const Value a = n.in(0);
  Value b = aligned(n, a, n.in(1));
  if (is_float(a.dtype()) || is_integer(b.dtype())) return n.give(pow(a, cast(b, a.dtype())));
  n.give(cast(pow(cast(a, b.dtype()), b), a.dtype()));
}

void modulo(Node& n) {
  const Value a = n.in(0), b = n.in(1);
  n.give(n.flag("fmod") ? fmod(a, b) : remainder(a, b));
}

void shifted(Node& n) {
  const Value a = n.in(0), b = n.in(1);
  const std::string direction = n.string("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    n.refuse(str_cat("attribute 'direction' is '", direction, "'"));
  n.give(direction == "LEFT" ? bitwise_left_shift(a, b) : bitwise_right_shift(a, b));
}

void parametric(Node& n) {
  const Value x = n.in(0);
  Value slope = n.in(1);
  // Before opset 7, one slope per channel may lack the dims after the channels.
  if (n.opset() < 7 && slope.rank() == 1 && x.rank() > 2 && slope.dim(0) != Dim(1)) {
    Shape shape = {slope.dim(0)};
    while (static_cast<int>(shape.size()) + 1 < x.rank()) shape.emplace_back(1);
    slope = reshape(slope, std::move(shape));
  }
  n.give(where(lt(x, constant_like(x, 0)), x * slope, x));
}

// ---- Any number of inputs ----

template <Value (*F)(const Value&, const Value&)>
void folded(Node& n) {
  Value y = n.in(0);
  for (int i = 1; i < n.input_count(); ++i) y = F(y, n.in(i));
  n.give(y);
}
void averaged(Node& n) {
  Value y = n.in(0);
  for (int i = 1; i < n.input_count(); ++i) y = y + n.in(i);
  n.give(y / constant_like(y, n.input_count()));
}

// ---- Selection, clamping, casts ----

void chosen(Node& n) { n.give(where(n.in(0), n.in(1), n.in(2))); }

void clip(Node& n) {
  Value x = n.in(0);
  if (n.opset() < 11) {
    if (n.has("min")) x = maximum(x, constant_like(x, n.real("min")));
    if (n.has("max")) x = minimum(x, constant_like(x, n.real("max")));
    return n.give(x);
  }
  const Value low = n.in_or_none(1), high = n.in_or_none(2);
  const auto scalar = [](const Value& limit) { return reshape(limit, {}); };
  if (!low && !high) return n.give_item(n.item(0));
  if (low && high && n.is_constant(1) && n.is_constant(2) && is_float(x.dtype())) {
    const double from = n.real(1), to = n.real(2);
    if (from <= to) return n.give(hardtanh(x, from, to));
  }
  if (low) x = maximum(x, scalar(low));
  if (high) x = minimum(x, scalar(high));
  n.give(x);
}

Value converted(const Value& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  // NaN is true, like everything that is not 0.
  if (dtype == boolean) return ne(x, constant_like(x, 0));
  return cast(x, dtype);
}

void cast_to(Node& n) {
  if (n.opset() < 6) n.refuse("Cast of opset 5 and older is not supported");
  n.give(converted(n.numbers(0), n.dtype("to")));
}
void cast_like(Node& n) { n.give(converted(n.numbers(0), n.type(1).dtype)); }

// Reinterprets the bits as another dtype of the same size.
void bit_cast(Node& n) {
  const Value x = n.in(0);
  const DType to = n.dtype("to");
  n.give(x.dtype() == to ? x : view_dtype(x, to));
}

void swiglu(Node& n) {
  const Value gate = n.in(0);
  n.give(gate * sigmoid(gate * n.real("alpha", 1.0)) * n.in(1));
}

constexpr Builtin kRows[] = {
    {"onnx::Abs", row<absolute>},
    {"onnx::Neg", row<unary<neg>>},
    {"onnx::Sign", row<signum>},
    {"onnx::Sqrt", row<unary<hg::sqrt>>},
    {"onnx::Exp", row<unary<hg::exp>>},
    {"onnx::Log", row<unary<hg::log>>},
    {"onnx::Sin", row<unary<hg::sin>>},
    {"onnx::Cos", row<unary<hg::cos>>},
    {"onnx::Tan", row<unary<hg::tan>>},
    {"onnx::Asin", row<unary<hg::asin>>},
    {"onnx::Acos", row<unary<hg::acos>>},
    {"onnx::Atan", row<unary<hg::atan>>},
    {"onnx::Sinh", row<unary<hg::sinh>>},
    {"onnx::Cosh", row<unary<hg::cosh>>},
    {"onnx::Tanh", row<unary<hg::tanh>>},
    {"onnx::Asinh", row<unary<hg::asinh>>},
    {"onnx::Acosh", row<unary<hg::acosh>>},
    {"onnx::Atanh", row<unary<hg::atanh>>},
    {"onnx::Erf", row<unary<hg::erf>>},
    {"onnx::Sigmoid", row<unary<sigmoid>>},
    {"onnx::Floor", row<unary<hg::floor>>},
    {"onnx::Ceil", row<unary<hg::ceil>>},
    {"onnx::Round", row<rounded>},
    {"onnx::Reciprocal", row<unary<reciprocal>>},
    {"onnx::Not", row<unary<logical_not>>},
    {"onnx::BitwiseNot", row<unary<bitwise_not>>},
    {"onnx::IsNaN", row<unary<isnan>>},
    {"onnx::IsInf", row<is_infinite>},
    {"onnx::Identity", moving_row<identity>},
    {"onnx::Relu", row<rectified>},
    {"onnx::LeakyRelu", row<leaky>},
    {"onnx::ThresholdedRelu", row<thresholded>},
    {"onnx::Elu", row<elu_of>},
    {"onnx::Selu", row<selu>},
    {"onnx::Celu", row<celu>},
    {"onnx::Softplus", row<softplus_of>},
    {"onnx::Softsign", row<softsign>},
    {"onnx::HardSigmoid", row<hard_sigmoid>},
    {"onnx::HardSwish", row<unary<hardswish>>},
    {"onnx::Mish", row<unary<mish>>},
    {"onnx::Gelu", row<gelu_of>},
    {"onnx::Swish", row<swish_of>},
    {"onnx::SwiGLU", row<swiglu>},
    {"onnx::Shrink", row<shrink>},
    {"onnx::PRelu", row<parametric>},
    {"onnx::Add", row<binary<add>>},
    {"onnx::Sub", row<binary<sub>>},
    {"onnx::Mul", row<binary<mul>>},
    {"onnx::Div", row<binary<quotient>>},
    {"onnx::Pow", row<power>},
    {"onnx::Mod", row<modulo>},
    {"onnx::And", row<binary<logical_and>>},
    {"onnx::Or", row<binary<logical_or>>},
    {"onnx::Xor", row<binary<exclusive>>},
    {"onnx::BitwiseAnd", row<binary<bitwise_and>>},
    {"onnx::BitwiseOr", row<binary<bitwise_or>>},
    {"onnx::BitwiseXor", row<binary<bitwise_xor>>},
    {"onnx::BitShift", row<shifted>},
    {"onnx::Equal", row<binary<eq>>},
    {"onnx::Less", row<binary<lt>>},
    {"onnx::LessOrEqual", row<binary<le>>},
    {"onnx::Greater", row<binary<gt>>},
    {"onnx::GreaterOrEqual", row<binary<ge>>},
    {"onnx::Max", row<folded<maximum>>},
    {"onnx::Min", row<folded<minimum>>},
    {"onnx::Sum", row<folded<add>>},
    {"onnx::Mean", row<averaged>},
    {"onnx::Where", row<chosen>},
    {"onnx::Clip", row<clip>},
    {"onnx::Cast", row<cast_to>},
    {"onnx::CastLike", row<cast_like>},
    {"onnx::BitCast", row<bit_cast>},
};

}  // namespace

Rows elementwise_rows() { return kRows; }

}  // namespace hg::convert::onnx
