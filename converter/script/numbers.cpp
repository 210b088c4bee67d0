// SPDX-License-Identifier: Apache-2.0
// Script numbers: Python arithmetic on constants, sizes, and data-dependent numbers, which are
// tensors of rank 0 in the graph.
#include "converter/script/numbers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "converter/memory/item_tree.h"
#include "converter/script/script_ops.h"
#include "hg/ops/movement.h"

namespace hg::convert {

std::string_view op_of(const NodeCall& call) {
  return call.kind().substr(call.kind().find(':') + 2);
}

std::optional<DType> declared(const NodeCall& call) {
  const auto& types = call.node().output_types;
  if (types.size() != 1) return std::nullopt;
  if (types[0] == "int") return i64;
  if (types[0] == "float") return f64;
  if (types[0] == "bool") return boolean;
  return std::nullopt;
}

bool give_scalar(NodeCall& call, std::optional<Scalar> scalar) {
  if (scalar && declared(call) == f64) scalar = to_real(*scalar);
  if (scalar && declared(call) == boolean) scalar = to_boolean(*scalar);
  if (!scalar) return false;
  call.give(item_of(call.memory(), *scalar));
  return true;
}

void give_number(NodeCall& call, Value value) {
  call.give(Item(call.memory().make_number(cast(value, declared(call).value_or(value.dtype())))));
}

Value number_in(const Value& element) {
  if (is_float(element.dtype())) return cast(hg::detach(element), f64);
  return cast(element, element.dtype() == boolean ? boolean : i64);
}

namespace {

// Returns the result of op on two numbers as a term of sizes, from their terms.
std::optional<Dim> term_of_two(Memory& memory, TermOf term_of, std::string_view op, const Item& a,
                               const Item& b) {
  const auto term = [&](const Item& item) -> std::optional<Scalar> {
    if (const auto scalar = scalar_of(item)) return scalar;
    const auto* tensor = std::get_if<TensorRef>(&item.value);
    const auto dim = tensor ? (memory.*term_of)(*tensor) : std::nullopt;
    return dim ? std::optional(Scalar::of(*dim)) : std::nullopt;
  };
  const auto x = term(a), y = term(b);
  const auto result = x && y ? apply(op, *x, *y) : std::nullopt;
  return result && result->is_integral() ? std::optional(result->top) : std::nullopt;
}

}  // namespace

namespace {

// The graph op on two numbers, with the evaluation order and rounding of libtorch's own arithmetic.
Value computed(Graph& g, std::string_view op, std::string_view graph_op, const Value& p,
               const Value& q) {
  if (is_float(p.dtype())) {
    if (op == "floor_divide") return g.call("floor", {g.call("div", {p, q})});
    if (op == "remainder") return g.call("fmod", {g.call("add", {q, g.call("fmod", {p, q})}), q});
    if (op == "min") return g.call("where", {g.call("lt", {p, q}), p, q});
    if (op == "max") return g.call("where", {g.call("gt", {p, q}), p, q});
  }
  return g.call(graph_op, {p, q});
}

}  // namespace

Item combine(NodeCall& call, std::string_view op, std::string_view graph_op, const Item& a,
             const Item& b) {
  const auto x = scalar_of(a), y = scalar_of(b);
  if (x && y)
    if (const auto result = apply(op, *x, *y)) return item_of(call.memory(), *result);
  Value p = number_value(call.memory(), a), q = number_value(call.memory(), b);
  const bool real = is_float(p.dtype()) || is_float(q.dtype()) || op == "div" ||
                    (op == "pow" && declared(call) == f64);
  const DType dtype = real ? f64 : i64;
  // Division by zero has a result for tensors, but raises for numbers.
  if (dtype == i64 && y && y->top == Dim(0) &&
      (op == "floor_divide" || op == "remainder" || op == "trunc_divide" || op == "fmod"))
    throw Raised{"division by zero"};
  const TensorRef number = call.memory().make_number(
      computed(call.graph(), op, graph_op, cast(p, dtype), cast(q, dtype)));
  if (dtype == i64)
    call.memory().set_term(number,
                           [&memory = call.memory(), op = std::string(op), a, b](TermOf term_of) {
                             return term_of_two(memory, term_of, op, a, b);
                           });
  return Item(number);
}

namespace {

bool binary_as(NodeCall& call, std::string_view op, std::string_view graph_op) {
  if (call.argument_count() < 2 || !is_numeric(call.at(0)) || !is_numeric(call.at(1))) return false;
  const Item result = combine(call, op, graph_op, call.at(0), call.at(1));
  if (give_scalar(call, scalar_of(result))) return true;
  const Value value = number_value(call.memory(), result);
  if (value.dtype() == declared(call).value_or(value.dtype()))
    call.give(result);
  else
    give_number(call, value);
  return true;
}

bool unary_as(NodeCall& call, std::string_view op, std::string_view graph_op, bool to_int) {
  if (call.argument_count() < 1 || !is_numeric(call.at(0))) return false;
  if (const auto a = scalar_of(call.at(0))) {
    auto result = apply(op, *a);
    if (result && to_int) {
      const bool constant = result->is_constant();
      result = to_integer(*result);
      if (!result && constant)
        throw Refusal{
            str_cat(op, "() of ", describe(call.at(0)), " raises an exception in PyTorch"), ""};
    }
    if (give_scalar(call, result)) return true;
  }
  if (op == "neg") {
    const Item negative = combine(call, "sub", "sub", Item(0), call.at(0));
    if (declared(call).value_or(i64) == i64 && negative.is_tensor() &&
        std::get<TensorRef>(negative.value)->number_dtype() == i64) {
      call.give(negative);
      return true;
    }
  }
  Value y = number_value(call.memory(), call.at(0));
  if (y.dtype() == boolean) y = cast(y, i64);
  const bool rounds = op == "floor" || op == "ceil" || op == "round" || op == "trunc";
  if (!rounds || is_float(y.dtype())) y = call.graph().call(graph_op, {y});
  give_number(call, to_int ? cast(y, i64) : y);
  return true;
}

bool factorial(NodeCall& call) {
  int64_t product = 1;
  const int64_t n = call.number_at(0);
  if (n < 0 || n > 20) throw Refusal{str_cat("factorial() of ", n), ""};
  for (int64_t i = 2; i <= n; ++i) product *= i;
  call.give(Item(product));
  return true;
}

double log_of(double x, double base) { return std::log(x) / std::log(base); }

constexpr double kDegree = 0.017453292519943295;  // pi / 180
double radians(double x) { return x * kDegree; }
double degrees(double x) { return x / kDegree; }

bool divmod(NodeCall& call) {
  if (const auto by = scalar_of(call.at(1)); by && by->is_constant() && by->as_double() == 0)
    throw Raised{"division by zero"};
  const Item quotient = combine(call, "floor_divide", "floor_divide", call.at(0), call.at(1));
  const Item rest = combine(call, "remainder", "remainder", call.at(0), call.at(1));
  call.returns(std::vector<Item>{quotient, rest});
  return true;
}

}  // namespace

namespace numbers {

bool arithmetic(NodeCall& call) { return binary_as(call, op_of(call), op_of(call)); }

bool floor_divide(NodeCall& call) { return binary_as(call, "floor_divide", "floor_divide"); }

bool min(NodeCall& call) { return binary_as(call, "min", "minimum"); }

bool max(NodeCall& call) { return binary_as(call, "max", "maximum"); }

bool pow(NodeCall& call) {
  if (call.argument_count() < 2 || !is_numeric(call.at(0)) || !is_numeric(call.at(1))) return false;
  const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
  if (a && b && a->is_constant() && b->is_constant()) {
    const bool real = call.node().output_types.at(0) == "float" || !a->is_integral() ||
                      !b->is_integral() || b->as_double() < 0;
    if (a->as_double() == 0 && b->as_double() < 0)
      throw Refusal{"0 to a negative power raises an exception in PyTorch", ""};
    if (real) {
      call.give(Item(std::pow(a->as_double(), b->as_double())));
      return true;
    }
  }
  return binary_as(call, "pow", "pow");
}

bool sign(NodeCall& call) { return unary_as(call, op_of(call), op_of(call), false); }

// math.floor and math.ceil return ints in TorchScript.
bool round(NodeCall& call) {
  const bool to_int = !call.node().output_types.empty() && call.node().output_types[0] == "int";
  return unary_as(call, op_of(call), op_of(call), to_int);
}

bool shift(NodeCall& call) {
  if (!is_numeric(call.at(0)) || !is_numeric(call.at(1))) return false;
  const bool left = call.kind() == "aten::__lshift__";
  const auto by = scalar_of(call.at(1));
  if (!by || !by->is_constant() || !scalar_of(call.at(0))) {
    give_number(call, call.graph().call(left ? "bitwise_left_shift" : "bitwise_right_shift",
                                        {cast(number_value(call.memory(), call.at(0)), i64),
                                         cast(number_value(call.memory(), call.at(1)), i64)}));
    return true;
  }
  const int64_t bits = call.number_at(1);
  if (bits < 0 || bits > 62) throw Refusal{str_cat("a shift by ", bits), ""};
  const Dim x = call.integer_at(0), factor = int64_t{1} << bits;
  call.give(Item(left ? x * factor : floordiv(x, factor)));
  return true;
}

bool gcd(NodeCall& call) {
  if (!is_numeric(call.at(0)) || !is_numeric(call.at(1))) return false;
  const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
  if (a && b && a->is_constant() && b->is_constant())
    call.give(Item(std::gcd(a->top.constant(), b->top.constant())));
  else
    give_number(call,
                call.graph().call("gcd", {cast(number_value(call.memory(), call.at(0)), i64),
                                          cast(number_value(call.memory(), call.at(1)), i64)}));
  return true;
}

bool function(NodeCall& call, double (*f)(double)) {
  if (call.argument_count() != 1 || !is_numeric(call.at(0))) return false;
  const auto a = scalar_of(call.at(0));
  if (a && a->is_constant()) {
    call.give(Item(f(a->as_double())));
    return true;
  }
  give_number(call,
              call.graph().call(op_of(call), {cast(number_value(call.memory(), call.at(0)), f64)}));
  return true;
}

bool function_of_two(NodeCall& call, double (*f)(double, double)) {
  if (call.argument_count() != 2 || !is_numeric(call.at(0)) || !is_numeric(call.at(1)))
    return false;
  const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
  if (!a || !b || !a->is_constant() || !b->is_constant())
    throw Refusal{str_cat(op_of(call), "() of numbers that are not constant"), ""};
  call.give(Item(f(a->as_double(), b->as_double())));
  return true;
}

bool log(NodeCall& call) { return math<std::log>(call) || math_of_two<log_of>(call); }
double scaled(double x, double power) { return std::ldexp(x, static_cast<int>(power)); }

}  // namespace numbers

namespace {

bool true_divide(NodeCall& call) { return binary_as(call, "div", "div"); }

bool remainder_of_math(NodeCall& call) {
  const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
  if (!a || !b || !a->is_constant() || !b->is_constant()) return false;
  call.give(Item(std::remainder(a->as_double(), b->as_double())));
  return true;
}

bool absolute(NodeCall& call) { return unary_as(call, "abs", "abs", false); }

constexpr Row kRows[] = {
    {.op = "aten::truediv", .script = {true_divide}},
    {.op = "aten::floordiv", .script = {numbers::floor_divide}},
    {.op = "aten::mathremainder", .script = {remainder_of_math}},
    {.op = "prim::abs", .script = {numbers::sign}},
    {.op = "aten::fabs", .script = {absolute}},
    {.op = "aten::factorial", .script = {factorial}},
    {.op = "aten::gamma", .script = {numbers::math<std::tgamma>}},
    {.op = "aten::radians", .script = {numbers::math<radians>}},
    {.op = "aten::degrees", .script = {numbers::math<degrees>}},
    {.op = "aten::divmod", .script = {divmod}},
};

}  // namespace

std::span<const Row> number_rows() { return kRows; }

}  // namespace hg::convert
