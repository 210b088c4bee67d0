// SPDX-License-Identifier: Apache-2.0
// Complex tensors: made from real ones, split into parts, and functions on them.
#include "converter/aten/complex.h"

#include <cmath>
#include <limits>

#include "converter/rows/complex_pairs.h"
#include "converter/rows/view.h"
#include "hg/ops/activation.h"
#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

Value op(std::string_view name, const Value& a) { return a.graph()->call(name, {a}); }
Value op(std::string_view name, const Value& a, const Value& b) {
  return a.graph()->call(name, {a, b});
}
Value number(const Value& like, double value) { return like.graph()->scalar(value, like.dtype()); }

Complex plus(const Complex& a, const Complex& b) {
  return {a.re + b.re, a.im && b.im ? a.im + b.im : a.im ? a.im : b.im};
}
Complex times(const Complex& a, const Complex& b) {
  if (!a.im && !b.im) return {a.re * b.re, Value()};
  if (!b.im) return {a.re * b.re, a.im * b.re};
  if (!a.im) return {a.re * b.re, a.re * b.im};
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
Complex conjugate(const Complex& x) { return {x.re, x.im ? -x.im : x.im}; }
Value absolute(const Complex& x) { return x.im ? op("hypot", x.re, x.im) : op("abs", x.re); }
Value direction(const Complex& x) { return op("atan2", imaginary(x), x.re); }
Complex divided(const Complex& a, const Complex& b) {
  if (!b.im) return {a.re / b.re, imaginary(a) / b.re};
  // Scales both down first, so that no square overflows.
  const Value size = op("maximum", op("abs", b.re), op("abs", b.im));
  const Complex small = {b.re / size, b.im / size};
  const Value square = small.re * small.re + small.im * small.im;
  const Complex y = times({a.re / size, imaginary(a) / size}, conjugate(small));
  return {y.re / square, y.im / square};
}
Complex polar_of(const Value& size, const Value& angle) {
  return {size * op("cos", angle), size * op("sin", angle)};
}
Value choose(const Value& condition, const Value& then, const Value& otherwise) {
  return condition.graph()->call("where", {condition, then, otherwise});
}
Value is_equal(const Value& a, double number_) { return op("eq", a, number(a, number_)); }
// An imaginary part of 0 stays 0, also where e^x is infinite.
Complex exponential(const Complex& x) {
  const Value im = imaginary(x);
  const Complex y = polar_of(op("exp", x.re), im);
  return {y.re, choose(is_equal(im, 0), im, y.im)};
}
Complex logarithm(const Complex& x) { return {op("log", absolute(x)), direction(x)}; }
// The larger part is the root of a sum without cancellation, and the other follows from their
// product, x.im / 2 (Kahan, Branch Cuts for Complex Elementary Functions, 1987).
Complex root_of(const Complex& x) {
  const Value im = imaginary(x), size = op("abs", im);
  const Value large = op("sqrt", op("abs", x.re) * 0.5 + absolute(x) * 0.5);
  const Value zero = is_equal(large, 0);
  const Value ratio = size * 0.5 / choose(zero, number(large, 1), large);
  const Value small = choose(is_equal(size, std::numeric_limits<double>::infinity()), size, ratio);
  const Value is_right = op("ge", x.re, number(x.re, 0));
  return {choose(is_right, large, small), op("copysign", choose(is_right, small, large), im)};
}
Complex sine(const Complex& x) {
  return {op("sin", x.re) * op("cosh", x.im), op("cos", x.re) * op("sinh", x.im)};
}
Complex cosine(const Complex& x) {
  return {op("cos", x.re) * op("cosh", x.im), -(op("sin", x.re) * op("sinh", x.im))};
}
Complex sine_of_hyperbola(const Complex& x) {
  return {op("sinh", x.re) * op("cos", x.im), op("cosh", x.re) * op("sin", x.im)};
}
Complex cosine_of_hyperbola(const Complex& x) {
  return {op("cosh", x.re) * op("cos", x.im), op("sinh", x.re) * op("sin", x.im)};
}
Complex square_of(const Complex& x) { return times(x, x); }
// inf + nan i for 0
Complex reciprocal_of(const Complex& x) {
  const Complex y = divided({number(x.re, 1), Value()}, x);
  const Value inf = number(y.re, std::numeric_limits<double>::infinity());
  return {choose(is_equal(absolute(x), 0), inf, y.re), y.im};
}
Complex sign_of(const Complex& x) {
  const Value size = absolute(x), is_zero = is_equal(size, 0), zero = number(size, 0);
  const Value by = choose(is_zero, number(size, 1), size);
  return {choose(is_zero, zero, x.re) / by, choose(is_zero, zero, x.im) / by};
}

template <Complex (*f)(const Complex&)>
void function(Call& call) {
  return_complex(call, f(complex_operands(call, {"self"})[0]));
}

template <Complex (*f)(const Complex&, const Complex&)>
void function_of_two(Call& call) {
  if (call.has("rounding_mode")) call.refuse("rounding_mode", "rounds complex numbers");
  const auto x = complex_operands(call, {"self", "other"});
  return_complex(call, f(x[0], x[1]));
}

// ---- Views ----

Item view(Call& call, const Call::Forward& forward, const Call::Inverse& inverse) {
  return Item(call.make_view(call.ref("self"), forward, inverse, {}));
}
void give(Call& call, Item item) { call.returns(std::vector<Item>{std::move(item)}); }

template <int k>
void part(Call& call) {
  give(call, view(
                 call, [](Value base) { return part_of(base, k); },
                 [](Value base, Value value) { return with_part(base, k, value); }));
}

Value conjugated(const Value& pairs) { return pairs_of(conjugate(parts_of(pairs))); }

// ---- Products ----

Complex matmul(const Complex& a, const Complex& b) {
  const auto real = [](const Value& x, const Value& y) { return op("matmul", x, y); };
  if (!b.im) return {real(a.re, b.re), a.im ? real(a.im, b.re) : Value()};
  if (!a.im) return {real(a.re, b.re), real(a.re, b.im)};
  return {real(a.re, b.re) - real(a.im, b.im), real(a.re, b.im) + real(a.im, b.re)};
}

Complex scaled(Call& call, std::string_view factor, const Complex& x) {
  if (!call.has(factor)) return x;
  return times(complex_operands(call, {factor})[0], x);
}

void add_product(Call& call, std::string_view a, std::string_view b) {
  const auto x = complex_operands(call, {"self", a, b});
  return_complex(call, plus(scaled(call, "beta", x[0]), scaled(call, "alpha", matmul(x[1], x[2]))));
}

}  // namespace

namespace of_complex {

void abs(Call& call) { call.returns(absolute(complex_operands(call, {"self"})[0])); }
void angle(Call& call) { call.returns(direction(complex_operands(call, {"self"})[0])); }
void reciprocal(Call& call) { function<reciprocal_of>(call); }
void square(Call& call) { function<square_of>(call); }
void sqrt(Call& call) { function<root_of>(call); }
void exp(Call& call) { function<exponential>(call); }
void log(Call& call) { function<logarithm>(call); }
void sin(Call& call) { function<sine>(call); }
void cos(Call& call) { function<cosine>(call); }
void sinh(Call& call) { function<sine_of_hyperbola>(call); }
void cosh(Call& call) { function<cosine_of_hyperbola>(call); }
void sgn(Call& call) { function<sign_of>(call); }
void mul(Call& call) { function_of_two<times>(call); }
void div(Call& call) { function_of_two<divided>(call); }

// x^n as products for small integers n, otherwise as e^(n log x). For x = 0 it is what C's cpow()
// returns: 0, inf + nan i or nan + nan i if the real part of n is above, below or equal to 0.
void pow(Call& call) {
  const Item* exponent = call.find("exponent");
  const auto x = complex_operands(call, {"self", "exponent"});
  const bool whole = exponent->is_int() || exponent->is_bool() ||
                     (exponent->is_real() && std::abs(call.real("exponent")) == 2);
  const double n = whole ? call.real("exponent") : 0;
  const bool is_product = whole && n >= -8 && n <= 8;
  const bool is_root = exponent->is_real() && std::abs(call.real("exponent")) == 0.5;
  if (is_root && call.real("exponent") > 0) return return_complex(call, root_of(x[0]));
  if (!is_product && !is_root && !x[0].im && !x[1].im)
    call.refuse("exponent", "makes complex numbers of real ones");
  Complex y = {number(x[0].re, 1), Value()};
  if (is_product) {
    for (int i = 0; i < static_cast<int>(std::abs(n)); ++i) y = i == 0 ? x[0] : times(y, x[0]);
    if (n == 0) y = {expanded(y.re, x[0].re.shape()), Value()};
    if (n >= 0) return return_complex(call, y);
    y = reciprocal_of(y);
  } else if (is_root) {
    y = reciprocal_of(root_of(x[0]));
  } else {
    y = exponential(times(x[1], logarithm(x[0])));
  }
  const Value none = is_equal(absolute(x[0]), 0), zero = number(y.re, 0);
  const Value nan = number(y.re, std::numeric_limits<double>::quiet_NaN());
  const Value inf = number(y.re, std::numeric_limits<double>::infinity());
  const Value rises = op("gt", x[1].re, number(x[1].re, 0));
  const Value falls = op("lt", x[1].re, number(x[1].re, 0));
  return_complex(call, {choose(none, choose(rises, zero, choose(falls, inf, nan)), y.re),
                        choose(none, choose(rises, zero, nan), y.im)});
}

void equal_to(Call& call) {
  const auto x = complex_operands(call, {"self", "other"});
  const Value same =
      op("logical_and", op("eq", x[0].re, x[1].re), op("eq", imaginary(x[0]), imaginary(x[1])));
  call.returns(call.kind() == "aten::ne" ? op("logical_not", same) : same);
}

void any_part(Call& call) {  // isnan, isinf
  const Complex x = complex_operands(call, {"self"})[0];
  const std::string_view name = call.kind().substr(6);
  call.returns(op("logical_or", op(name, x.re), op(name, x.im)));
}
void isfinite(Call& call) {
  const Complex x = complex_operands(call, {"self"})[0];
  call.returns(op("logical_and", op("isfinite", x.re), op("isfinite", x.im)));
}
void isreal(Call& call) {
  const Complex x = complex_operands(call, {"self"})[0];
  call.returns(op("eq", x.im, number(x.im, 0)));
}

// ---- Views ----

void real(Call& call) { part<0>(call); }
void imag(Call& call) { part<1>(call); }
void view_as_real(Call& call) {
  give(call, view(
                 call, [](Value base) { return base; }, [](Value, Value value) { return value; }));
}
void conj(Call& call) {
  const Item result = view(
      call, [](Value base) { return conjugated(base); },
      [](Value, Value value) { return conjugated(value); });
  call.as_complex(std::get<TensorRef>(result.value));
  give(call, result);
}
void conj_copy(Call& call) {
  return_complex(call, conjugate(parts_of(call.read(call.ref("self")))));
}

// Conjugates and transposes.
void adjoint(Call& call) {
  const Complex x = conjugate(parts_of(call.read(call.ref("self"))));
  const int rank = x.re.rank();
  if (rank < 2) call.refuse("self", "must have at least two dims");
  Dims order;
  for (int d = 0; d < rank; ++d) order.emplace_back(d);
  std::swap(order[rank - 1], order[rank - 2]);
  return_complex(call, {permute(x.re, order), permute(x.im, order)});
}

// ---- Products ----

void linear(Call& call) {
  std::vector<std::string_view> names = {"input", "weight"};
  if (call.has("bias")) names.push_back("bias");
  auto x = complex_operands(call, names);
  const auto transposed = [](const Value& w) {
    return w && w.rank() == 2 ? permute(w, {1, 0}) : w;
  };
  if (x[1].re.rank() != 2) call.refuse("weight", "must be a matrix");
  const Complex y = matmul(x[0], {transposed(x[1].re), transposed(x[1].im)});
  return_complex(call, x.size() > 2 ? plus(y, x[2]) : y);
}

void addmm(Call& call) { add_product(call, "mat1", "mat2"); }
void baddbmm(Call& call) { add_product(call, "batch1", "batch2"); }

void addcmul(Call& call) {
  const auto x = complex_operands(call, {"self", "tensor1", "tensor2"});
  return_complex(call, plus(x[0], scaled(call, "value", times(x[1], x[2]))));
}

void vdot(Call& call) {
  const auto x = complex_operands(call, {"self", "other"});
  const Complex y = times(conjugate(x[0]), x[1]);
  const auto total = [](const Value& v) {
    return v ? v.graph()->call("sum", {v}, {{"dim", Dims{0}}}) : v;
  };
  return_complex(call, {total(y.re), total(y.im)});
}

}  // namespace of_complex

namespace {

void view_as_complex(Call& call) {
  const Value x = call.tensor("self");
  if ((x.dtype() != f32 && x.dtype() != f64) || x.rank() < 1 || !(x.shape().back() == Dim(2)))
    call.refuse("self", str_cat("is ", x.dtype(), x.shape(),
                                ", but must be f32 or f64 with a last dim of 2"));
  const Item result = view(
      call, [](Value base) { return base; }, [](Value, Value value) { return value; });
  call.as_complex(std::get<TensorRef>(result.value));
  give(call, result);
}

void complex_of(Call& call) {
  const auto x = call.promoted({"real", "imag"}, true);
  if (x[0].dtype() != f32 && x[0].dtype() != f64)
    call.refuse("real", str_cat("is ", x[0].dtype(), ", not f32 or f64"));
  const Shape shape = broadcast_shape(call, "imag", x[0].shape(), x[1].shape());
  return_complex(call, {expanded(x[0], shape), expanded(x[1], shape)});
}

void polar(Call& call) {
  const auto x = call.promoted({"abs", "angle"}, true);
  return_complex(call, polar_of(x[0], x[1]));
}

constexpr Row kRows[] = {
    {"aten::view_as_complex", view_as_complex},
    {"aten::complex", complex_of},
    {"aten::polar", polar},
    {.op = "aten::view_as_real", .complex = of_complex::view_as_real},
    {.op = "aten::imag", .complex = of_complex::imag},
};

}  // namespace

std::span<const Row> complex() { return kRows; }

}  // namespace hg::convert::rows
