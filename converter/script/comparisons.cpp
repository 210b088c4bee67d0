// SPDX-License-Identifier: Apache-2.0
// Comparisons, and logical ops on numbers and other script items.
#include <algorithm>
#include <cmath>

#include "converter/memory/item_tree.h"
#include "converter/script/numbers.h"
#include "converter/script/script_ops.h"

namespace hg::convert {

Value compared(NodeCall& call, std::string_view op, const Item& a, const Item& b) {
  const Value p = number_value(call.memory(), a), q = number_value(call.memory(), b);
  const DType dtype = is_float(p.dtype()) || is_float(q.dtype()) ? f64 : i64;
  return call.graph().call(op, {cast(p, dtype), cast(q, dtype)});
}

namespace {

// Compares lists of numbers of which some are symbolic, such as two shapes.
bool equal_by_sizes(NodeCall& call, const Item& a, const Item& b) {
  if (!a.is_list() || !b.is_list()) return false;
  const auto &x = std::get<std::shared_ptr<List>>(a.value)->items,
             &y = std::get<std::shared_ptr<List>>(b.value)->items;
  if (x.size() != y.size() || x.empty()) return false;
  Scalar all = Scalar::of(true);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto p = scalar_of(x[i]), q = scalar_of(y[i]);
    const auto same = p && q ? relate("eq", *p, *q) : std::nullopt;
    if (!same) return false;
    all = both(all, *same);
  }
  call.give(item_of(call.memory(), op_of(call) == "eq" ? all : negation(all)));
  return true;
}

// Compares lists of numbers of which some depend on data.
bool equal_by_data(NodeCall& call, const Item& a, const Item& b) {
  if (!a.is_list() || !b.is_list()) return false;
  const auto &x = std::get<std::shared_ptr<List>>(a.value)->items,
             &y = std::get<std::shared_ptr<List>>(b.value)->items;
  if (x.size() != y.size() || x.empty() || !std::all_of(x.begin(), x.end(), is_numeric) ||
      !std::all_of(y.begin(), y.end(), is_numeric))
    return false;
  Value all;
  for (size_t i = 0; i < x.size(); ++i) {
    const Value same = compared(call, "eq", x[i], y[i]);
    all = all ? call.graph().call("logical_and", {all, same}) : same;
  }
  give_number(call, op_of(call) == "eq" ? all : call.graph().call("logical_not", {all}));
  return true;
}

bool not_item(NodeCall& call) {
  const auto a = scalar_of(call.at(0));
  if (a)
    if (const auto truth = to_boolean(*a)) {
      call.give(item_of(call.memory(), negation(*truth)));
      return true;
    }
  give_number(call, call.graph().call("logical_not",
                                      {cast(number_value(call.memory(), call.at(0)), boolean)}));
  return true;
}

bool is_integer_real(NodeCall& call) {
  const auto a = scalar_of(call.at(0));
  if (!a || !a->is_constant()) throw Refusal{"is_integer() of a number that is not constant", ""};
  call.give(Item(std::floor(a->as_double()) == a->as_double()));
  return true;
}

}  // namespace

namespace comparisons {

bool compare(NodeCall& call) {
  if (call.argument_count() < 2) return false;
  const Item &a = call.at(0), &b = call.at(1);
  const std::string_view op = op_of(call);
  if (is_numeric(a) && is_numeric(b)) {
    const auto x = scalar_of(a), y = scalar_of(b);
    if (x && y)
      if (const auto result = relate(op, *x, *y)) {
        call.give(item_of(call.memory(), *result));
        return true;
      }
    give_number(call, compared(call, op, a, b));
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
  if (!result && (equal_by_sizes(call, a, b) || equal_by_data(call, a, b))) return true;
  if (!result)
    throw Refusal{
        str_cat("whether ", describe(a), " equals ", describe(b), " is not known for all sizes"),
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
  if (a && b && a->kind == Scalar::Kind::boolean && b->kind == Scalar::Kind::boolean) {
    const Scalar all = both(*a, *b), any = either(*a, *b);
    call.give(item_of(call.memory(), op == "__and__"  ? all
                                     : op == "__or__" ? any
                                                      : both(any, negation(all))));
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

bool all_or_any(NodeCall& call) {  // aten::all and aten::any of bool[] or int[]
  const auto* list = std::get_if<std::shared_ptr<List>>(&call.at(0).value);
  if (list == nullptr) return false;
  const bool all = call.kind() == "aten::all";
  Scalar result = Scalar::of(all);
  for (const Item& item : (*list)->items) {
    const auto scalar = scalar_of(item);
    const auto truth = scalar ? to_boolean(*scalar) : std::nullopt;
    if (!truth) return false;
    result = all ? both(result, *truth) : either(result, *truth);
  }
  call.give(item_of(call.memory(), result));
  return true;
}

bool identity(NodeCall& call) {  // __is__ and __isnot__: None on either side, or bools
  const Item &a = call.at(0), &b = call.at(1);
  std::optional<bool> same;
  if (a.is_none() || b.is_none())
    same = a.is_none() && b.is_none();
  else if (a.is_tensor() && b.is_tensor())
    same = std::get<TensorRef>(a.value) == std::get<TensorRef>(b.value);
  else
    same = equal(a, b);
  if (!same)
    throw Refusal{str_cat("whether ", describe(a), " is ", describe(b), " is not known"),
                  "compare with =="};
  call.give(Item(*same == (call.kind() == "aten::__is__")));
  return true;
}

}  // namespace comparisons

namespace {

constexpr Row kRows[] = {
    {.op = "aten::__not__", .script = {not_item}},
    {.op = "aten::is_integer", .script = {is_integer_real}},
};

}  // namespace

std::span<const Row> comparison_rows() { return kRows; }

}  // namespace hg::convert
