// SPDX-License-Identifier: Apache-2.0
// Numbers of the script: Python's arithmetic on constants and sizes, and on numbers that only data
// decides, which are tensors of rank 0 in the graph.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "converter/leaves.h"
#include "converter/surely.h"

namespace hg::convert {

namespace {

std::string_view op_of(const NodeCall& call) {
  return call.kind().substr(call.kind().find(':') + 2);
}

// The dtype of a number that the script says the node gives; none for `Scalar`.
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
  if (!scalar) return false;
  call.give(item_of(call.memory(), *scalar));
  return true;
}

void give_number(NodeCall& call, Value value) {
  call.give(Item(call.memory().make_number(cast(value, declared(call).value_or(value.dtype())))));
}

// The result of op as a size, from both as sizes.
std::optional<Dim> size_of_two(Memory& memory, std::string_view op, const Item& a, const Item& b) {
  const auto size = [&](const Item& item) -> std::optional<Scalar> {
    if (const auto scalar = scalar_of(item)) return scalar;
    const auto* tensor = std::get_if<TensorRef>(&item.value);
    const auto dim = tensor ? memory.size_of(*tensor) : std::nullopt;
    return dim ? std::optional(Scalar::of(*dim)) : std::nullopt;
  };
  const auto x = size(a), y = size(b);
  const auto result = x && y ? apply(op, *x, *y) : std::nullopt;
  return result && result->is_integral() ? std::optional(result->top) : std::nullopt;
}

}  // namespace

Item combine(NodeCall& call, std::string_view op, std::string_view graph_op, const Item& a,
             const Item& b) {
  const auto x = scalar_of(a), y = scalar_of(b);
  if (x && y)
    if (const auto result = apply(op, *x, *y)) return item_of(call.memory(), *result);
  Value p = number_value(call.memory(), a), q = number_value(call.memory(), b);
  const DType dtype = is_float(p.dtype()) || is_float(q.dtype()) || op == "div" ? f64 : i64;
  // Where a tensor's division would give something, a number's raises.
  if (dtype == i64 && y && y->top == Dim(0) &&
      (op == "floor_divide" || op == "remainder" || op == "trunc_divide" || op == "fmod"))
    throw Raised{"division by zero"};
  const TensorRef number =
      call.memory().make_number(call.graph().call(graph_op, {cast(p, dtype), cast(q, dtype)}));
  if (dtype == i64)
    call.memory().set_size(number, [&memory = call.memory(), op = std::string(op), a, b]() {
      return size_of_two(memory, op, a, b);
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

bool binary(NodeCall& call) { return binary_as(call, op_of(call), op_of(call)); }
bool floordiv_numbers(NodeCall& call) { return binary_as(call, "floor_divide", "floor_divide"); }
bool min_numbers(NodeCall& call) { return binary_as(call, "min", "minimum"); }
bool max_numbers(NodeCall& call) { return binary_as(call, "max", "maximum"); }

bool pow_numbers(NodeCall& call) {
  if (call.argument_count() < 2 || !is_numeric(call.at(0)) || !is_numeric(call.at(1))) return false;
  const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
  if (a && b && a->is_constant() && b->is_constant()) {
    const bool real = call.node().output_types.at(0) == "float" || !a->is_integral() ||
                      !b->is_integral() || b->as_double() < 0;
    if (real) {
      call.give(Item(std::pow(a->as_double(), b->as_double())));
      return true;
    }
  }
  return binary_as(call, "pow", "pow");
}

bool unary_as(NodeCall& call, std::string_view op, std::string_view graph_op, bool to_int) {
  if (call.argument_count() < 1 || !is_numeric(call.at(0))) return false;
  if (const auto a = scalar_of(call.at(0))) {
    auto result = apply(op, *a);
    if (result && to_int) result = to_integer(*result);
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
  const Value x = number_value(call.memory(), call.at(0));
  const Value y = call.graph().call(graph_op, {cast(x, x.dtype() == boolean ? i64 : x.dtype())});
  give_number(call, to_int ? cast(y, i64) : y);
  return true;
}

bool unary(NodeCall& call) { return unary_as(call, op_of(call), op_of(call), false); }

// math.floor and math.ceil give ints in TorchScript.
bool rounded(NodeCall& call) {
  const bool to_int = !call.node().output_types.empty() && call.node().output_types[0] == "int";
  return unary_as(call, op_of(call), op_of(call), to_int);
}

template <double (*F)(double)>
bool math(NodeCall& call) {
  if (call.argument_count() != 1 || !is_numeric(call.at(0))) return false;
  const auto a = scalar_of(call.at(0));
  if (a && a->is_constant()) {
    call.give(Item(F(a->as_double())));
    return true;
  }
  give_number(call,
              call.graph().call(op_of(call), {cast(number_value(call.memory(), call.at(0)), f64)}));
  return true;
}

// Lists of numbers of which data decides some: whether all are equal, or not.
bool equal_by_data(NodeCall& call, const Item& a, const Item& b) {
  if (!a.is_list() || !b.is_list()) return false;
  const auto &x = std::get<std::shared_ptr<List>>(a.value)->items,
             &y = std::get<std::shared_ptr<List>>(b.value)->items;
  if (x.size() != y.size() || x.empty() || !std::all_of(x.begin(), x.end(), is_numeric) ||
      !std::all_of(y.begin(), y.end(), is_numeric))
    return false;
  Value all;
  for (size_t i = 0; i < x.size(); ++i) {
    const Value p = cast(number_value(call.memory(), x[i]), f64);
    const Value q = cast(number_value(call.memory(), y[i]), f64);
    const Value same = call.graph().call("eq", {p, q});
    all = all ? call.graph().call("logical_and", {all, same}) : same;
  }
  give_number(call, op_of(call) == "eq" ? all : call.graph().call("logical_not", {all}));
  return true;
}

bool compare_items(NodeCall& call) {
  if (call.argument_count() < 2) return false;
  const Item &a = call.at(0), &b = call.at(1);
  const std::string_view op = op_of(call);
  if (is_numeric(a) && is_numeric(b)) {
    const auto x = scalar_of(a), y = scalar_of(b);
    if (x && y)
      if (const auto result = compare(op, *x, *y)) {
        call.give(Item(*result));
        return true;
      }
    Value p = number_value(call.memory(), a), q = number_value(call.memory(), b);
    const DType dtype = is_float(p.dtype()) || is_float(q.dtype()) ? f64 : i64;
    give_number(call, call.graph().call(op, {cast(p, dtype), cast(q, dtype)}));
    return true;
  }
  if (a.is_tensor() || b.is_tensor()) return false;
  if (a.is_string() && b.is_string() && op != "eq" && op != "ne") {
    const int order = std::get<std::string>(a.value).compare(std::get<std::string>(b.value));
    call.give(Item(op == "lt"   ? order < 0
                   : op == "le" ? order <= 0
                   : op == "gt" ? order > 0
                                : order >= 0));
    return true;
  }
  if (op != "eq" && op != "ne") return false;
  const auto result = equal(a, b);
  if (!result && equal_by_data(call, a, b)) return true;
  if (!result)
    throw Refusal{
        text("whether ", describe(a), " equals ", describe(b), " is not known for all sizes"),
        "give the sizes as numbers in --input"};
  call.give(Item(*result == (op == "eq")));
  return true;
}

bool logic(NodeCall& call) {
  const std::string_view op = op_of(call);  // __and__ __or__ __xor__
  if (call.argument_count() < 2 || !is_numeric(call.at(0)) || !is_numeric(call.at(1))) return false;
  const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
  const bool bools = call.at(0).is_bool() && call.at(1).is_bool();
  if (a && b && a->is_constant() && b->is_constant() && a->is_integral() && b->is_integral()) {
    const int64_t x = a->top.constant(), y = b->top.constant();
    const int64_t z = op == "__and__" ? x & y : op == "__or__" ? x | y : x ^ y;
    call.give(bools ? Item(z != 0) : Item(z));
    return true;
  }
  const Value x = number_value(call.memory(), call.at(0));
  const Value y = number_value(call.memory(), call.at(1));
  const DType dtype = x.dtype() == boolean && y.dtype() == boolean ? boolean : i64;
  const std::string_view graph_op = op == "__and__"  ? "bitwise_and"
                                    : op == "__or__" ? "bitwise_or"
                                                     : "bitwise_xor";
  give_number(call, call.graph().call(graph_op, {cast(x, dtype), cast(y, dtype)}));
  return true;
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
  if (bits < 0 || bits > 62) throw Refusal{text("a shift by ", bits), ""};
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

bool factorial(NodeCall& call) {
  int64_t product = 1;
  const int64_t n = call.number_at(0);
  if (n < 0 || n > 20) throw Refusal{text("factorial() of ", n), ""};
  for (int64_t i = 2; i <= n; ++i) product *= i;
  call.give(Item(product));
  return true;
}

// atan2, copysign, ldexp, and log with a base.
template <double (*F)(double, double)>
bool math_of_two(NodeCall& call) {
  if (call.argument_count() != 2 || !is_numeric(call.at(0)) || !is_numeric(call.at(1)))
    return false;
  const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
  if (!a || !b || !a->is_constant() || !b->is_constant())
    throw Refusal{text(op_of(call), "() of numbers that are not constant"), ""};
  call.give(Item(F(a->as_double(), b->as_double())));
  return true;
}
double log_of(double x, double base) { return std::log(x) / std::log(base); }
double scaled(double x, double power) { return std::ldexp(x, static_cast<int>(power)); }

bool negation(NodeCall& call) {
  const auto a = scalar_of(call.at(0));
  if (a)
    if (const auto truth = to_boolean(*a)) {
      call.give(Item(truth->top == Dim(0)));
      return true;
    }
  give_number(call, call.graph().call("logical_not",
                                      {cast(number_value(call.memory(), call.at(0)), boolean)}));
  return true;
}

bool identity(NodeCall& call) {  // __is__ and __isnot__: None on either side, or bools
  const Item &a = call.at(0), &b = call.at(1);
  bool same;
  if (a.is_none() || b.is_none())
    same = a.is_none() && b.is_none();
  else if (a.is_tensor() && b.is_tensor())
    same = std::get<TensorRef>(a.value) == std::get<TensorRef>(b.value);
  else
    same = equal(a, b).value_or(false);
  call.give(Item(same == (call.kind() == "aten::__is__")));
  return true;
}

// One element of a tensor, as rank 0.
Value single(NodeCall& call, const TensorRef& tensor) {
  const Value value = call.memory().read(tensor);
  if (value.rank() == 0) return value;
  if (count(value.shape()) != Dim(1))
    throw Refusal{text("a tensor of shape ", value.shape(), " is used as a number"), ""};
  return call.graph().call("reshape", {value}, {{"shape", std::vector<Dim>()}});
}

template <DType T>
bool convert(NodeCall& call) {  // Int Float Bool and the implicit ones
  const Item& a = call.at(0);
  if (const auto* string = std::get_if<std::string>(&a.value)) {
    if constexpr (T == boolean) {
      call.give(Item(!string->empty()));
    } else if constexpr (T == i64) {
      int64_t value = 0;
      const char* end = string->data() + string->size();
      if (std::from_chars(string->data(), end, value).ptr != end)
        throw Refusal{text("int('", *string, "')"), ""};
      call.give(Item(value));
    } else {
      if (*string == "inf")
        call.give(Item(std::numeric_limits<double>::infinity()));
      else if (*string == "-inf")
        call.give(Item(-std::numeric_limits<double>::infinity()));
      else if (*string == "nan")
        call.give(Item(std::numeric_limits<double>::quiet_NaN()));
      else
        call.give(Item(std::strtod(string->c_str(), nullptr)));
    }
    return true;
  }
  if (const auto scalar = scalar_of(a)) {
    const auto result = T == i64       ? to_integer(*scalar)
                        : T == boolean ? to_boolean(*scalar)
                                       : to_real(*scalar);
    if (give_scalar(call, result)) return true;
  }
  if (const auto* tensor = std::get_if<TensorRef>(&a.value);
      tensor && T == boolean && is_surely_true(call.read(*tensor))) {
    call.give(Item(true));
    return true;
  }
  const Value value =
      a.is_tensor() ? single(call, std::get<TensorRef>(a.value)) : number_value(call.memory(), a);
  give_number(call, cast(value, T));
  return true;
}

bool to_number(NodeCall& call) {  // item and ScalarImplicit
  const Item& a = call.at(0);
  if (const auto scalar = scalar_of(a)) return give_scalar(call, scalar);
  const Value value =
      single(call, call.ref(call.node().argument_names.empty() ? std::string_view("self")
                                                               : call.node().argument_names[0]));
  give_number(call, cast(value, is_float(value.dtype())    ? f64
                                : value.dtype() == boolean ? boolean
                                                           : i64));
  return true;
}

bool to_tensor(NodeCall& call) {  // prim::NumToTensor
  const Item& a = call.at(0);
  if (const auto scalar = scalar_of(a)) {
    const DType dtype = scalar->kind == Scalar::Kind::boolean   ? boolean
                        : scalar->kind == Scalar::Kind::integer ? i64
                                                                : f64;
    call.give(Item(call.memory().make_known({dtype, 0, {*scalar}})));
  } else {
    call.give(Item(call.memory().make(number_value(call.memory(), a))));
  }
  return true;
}

bool same(NodeCall& call) {
  call.give(call.at(0));
  return true;
}

constexpr double kDegree = 0.017453292519943295;  // pi / 180
double radians(double x) { return x * kDegree; }
double degrees(double x) { return x / kDegree; }

bool is_special(NodeCall& call) {  // isnan isinf isfinite of a number
  if (!is_numeric(call.at(0))) return false;
  const auto a = scalar_of(call.at(0));
  if (a && a->is_constant()) {
    const double x = a->as_double();
    const std::string_view op = op_of(call);
    call.give(Item(op == "isnan"   ? std::isnan(x)
                   : op == "isinf" ? std::isinf(x)
                                   : std::isfinite(x)));
    return true;
  }
  give_number(call, call.graph().call(op_of(call), {number_value(call.memory(), call.at(0))}));
  return true;
}

bool is_integer_real(NodeCall& call) {
  const auto a = scalar_of(call.at(0));
  if (!a || !a->is_constant()) throw Refusal{"is_integer() of a number that is not constant", ""};
  call.give(Item(std::floor(a->as_double()) == a->as_double()));
  return true;
}

bool divmod(NodeCall& call) {
  const Item quotient = combine(call, "floor_divide", "floor_divide", call.at(0), call.at(1));
  const Item rest = combine(call, "remainder", "remainder", call.at(0), call.at(1));
  call.returns(std::vector<Item>{quotient, rest});
  return true;
}

bool to_bool_all(NodeCall& call) {  // aten::all and aten::any of bool[] or int[]
  const auto* list = std::get_if<std::shared_ptr<List>>(&call.at(0).value);
  if (list == nullptr) return false;
  const bool all = call.kind() == "aten::all";
  bool result = all;
  for (const Item& item : (*list)->items) {
    const auto scalar = scalar_of(item);
    const auto truth = scalar ? to_boolean(*scalar) : std::nullopt;
    if (!truth) return false;
    result = all ? result && truth->top != Dim(0) : result || truth->top != Dim(0);
  }
  call.give(Item(result));
  return true;
}

constexpr Builtin kBuiltins[] = {
    {"aten::add", binary},
    {"aten::sub", binary},
    {"aten::mul", binary},
    {"aten::div", binary},
    {"aten::truediv", [](NodeCall& call) { return binary_as(call, "div", "div"); }},
    {"aten::floordiv", floordiv_numbers},
    {"aten::floor_divide", floordiv_numbers},
    {"aten::remainder", binary},
    {"aten::fmod", binary},
    {"aten::mathremainder",
     [](NodeCall& call) {
       const auto a = scalar_of(call.at(0)), b = scalar_of(call.at(1));
       if (!a || !b || !a->is_constant() || !b->is_constant()) return false;
       call.give(Item(std::remainder(a->as_double(), b->as_double())));
       return true;
     }},
    {"aten::pow", pow_numbers},
    {"prim::min", min_numbers},
    {"prim::max", max_numbers},
    {"aten::min", min_numbers},
    {"aten::max", max_numbers},
    {"aten::neg", unary},
    {"aten::abs", unary},
    {"prim::abs", unary},
    {"aten::fabs", [](NodeCall& call) { return unary_as(call, "abs", "abs", false); }},
    {"aten::floor", rounded},
    {"aten::ceil", rounded},
    {"aten::round", rounded},
    {"aten::trunc", rounded},
    {"aten::sqrt", math<std::sqrt>},
    {"aten::exp", math<std::exp>},
    {"aten::expm1", math<std::expm1>},
    {"aten::log", math<std::log>},
    {"aten::log", math_of_two<log_of>},
    {"aten::atan2", math_of_two<std::atan2>},
    {"aten::copysign", math_of_two<std::copysign>},
    {"aten::ldexp", math_of_two<scaled>},
    {"aten::gcd", gcd},
    {"aten::factorial", factorial},
    {"aten::log2", math<std::log2>},
    {"aten::log10", math<std::log10>},
    {"aten::log1p", math<std::log1p>},
    {"aten::sin", math<std::sin>},
    {"aten::cos", math<std::cos>},
    {"aten::tan", math<std::tan>},
    {"aten::asin", math<std::asin>},
    {"aten::acos", math<std::acos>},
    {"aten::atan", math<std::atan>},
    {"aten::sinh", math<std::sinh>},
    {"aten::cosh", math<std::cosh>},
    {"aten::tanh", math<std::tanh>},
    {"aten::erf", math<std::erf>},
    {"aten::erfc", math<std::erfc>},
    {"aten::lgamma", math<std::lgamma>},
    {"aten::gamma", math<std::tgamma>},
    {"aten::radians", math<radians>},
    {"aten::degrees", math<degrees>},
    {"aten::eq", compare_items},
    {"aten::ne", compare_items},
    {"aten::lt", compare_items},
    {"aten::le", compare_items},
    {"aten::gt", compare_items},
    {"aten::ge", compare_items},
    {"aten::__and__", logic},
    {"aten::__or__", logic},
    {"aten::__xor__", logic},
    {"aten::__lshift__", shift},
    {"aten::__rshift__", shift},
    {"aten::__not__", negation},
    {"aten::__is__", identity},
    {"aten::__isnot__", identity},
    {"aten::Int", convert<i64>},
    {"aten::IntImplicit", convert<i64>},
    {"aten::Float", convert<f64>},
    {"aten::FloatImplicit", convert<f64>},
    {"aten::Bool", convert<boolean>},
    {"aten::item", to_number},
    {"aten::Number", to_number},
    {"aten::ScalarImplicit", to_number},
    {"prim::NumToTensor", to_tensor},
    {"aten::isnan", is_special},
    {"aten::isinf", is_special},
    {"aten::isfinite", is_special},
    {"aten::is_integer", is_integer_real},
    {"aten::divmod", divmod},
    {"aten::all", to_bool_all},
    {"aten::any", to_bool_all},
    {"prim::unchecked_cast", same},
    {"prim::unchecked_unwrap_optional", same},
    {"aten::_unwrap_optional",
     [](NodeCall& call) {
       if (call.at(0).is_none()) throw Refusal{"None is unwrapped", ""};
       return same(call);
     }},
    {"prim::profile", same},
    {"prim::profile_ivalue", same},
};

}  // namespace

std::span<const Builtin> number_builtins() { return kBuiltins; }

}  // namespace hg::convert
