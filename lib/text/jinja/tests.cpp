// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/tests.h"

#include "lib/text/jinja/chars.h"
#include "lib/text/jinja/operators.h"

namespace hg::jinja {
namespace {

// Tests of a single value.
template <bool (*is)(const Value&)>
Result<bool> of_one(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  return is(call.in_order[0]);
}

bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.as_bool() != nullptr; }
bool is_true_itself(const Value& v) { return v.as_bool() != nullptr && *v.as_bool(); }
bool is_false_itself(const Value& v) { return v.as_bool() != nullptr && !*v.as_bool(); }
bool is_whole(const Value& v) { return v.as_int() != nullptr; }
bool is_real(const Value& v) { return v.as_real() != nullptr; }
bool is_number(const Value& v) { return v.is_number(); }
bool is_text(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.as_dict() != nullptr; }
bool is_iterable(const Value& v) {
  return v.is_undefined() || v.is_text() || v.as_sequence() != nullptr || v.as_dict() != nullptr ||
         v.as_loop() != nullptr;
}
bool is_sequence(const Value& v) {
  if (const Sequence* sequence = v.as_sequence())
    return sequence->kind != Sequence::Kind::generator && sequence->kind != Sequence::Kind::view;
  return v.is_undefined() || v.is_text() || v.as_dict() != nullptr;
}
bool is_callable(const Value& v) {
  return v.is_undefined() || v.as_function() != nullptr || v.as_loop() != nullptr;
}

template <bool is_upper>
Result<bool> has_case_of(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  std::string text;
  HG_TRY(append_str(call.meter(), text, call.in_order[0]));
  return has_case(text, is_upper);
}

constexpr char kEqual[] = "==", kUnequal[] = "!=", kLess[] = "<",
               kAtMost[] = "<=", kGreater[] = ">", kAtLeast[] = ">=", kIn[] = "in";
template <const char* sign>
Result<bool> compared(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"a", "b"}, 2));
  return compare(call.meter(), sign, *given[0], *given[1]);
}

Result<Value> remainder(Call& call, const Value& by) {
  return binary(call.meter(), "%", call.in_order[0], by);
}
template <int rest>
Result<bool> is_odd(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  HG_TRY_ASSIGN(const Value left, remainder(call, Value::whole(2)));
  return left.number() && *left.number() == rest;
}
Result<bool> is_divisible(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "num"}, 2));
  HG_TRY_ASSIGN(const Value left, remainder(call, *given[1]));
  return left.number() && *left.number() == 0;
}

// Python's `is`, except where it depends on how Python shares equal values.
Result<bool> is_same(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "other"}, 2));
  const Value &a = *given[0], &b = *given[1];
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.as_bool() != nullptr || b.as_bool() != nullptr)
    return a.as_bool() != nullptr && b.as_bool() != nullptr && *a.as_bool() == *b.as_bool();
  return unsupported("'sameas' of ", type_name(a), " and ", type_name(b), " is not supported");
}

constexpr Test kTests[] = {
    {"boolean", of_one<is_boolean>},
    {"callable", of_one<is_callable>},
    {"defined", of_one<is_defined>},
    {"divisibleby", is_divisible},
    {"even", is_odd<0>},
    {"false", of_one<is_false_itself>},
    {"float", of_one<is_real>},
    {"in", compared<kIn>},
    {"integer", of_one<is_whole>},
    {"iterable", of_one<is_iterable>},
    {"lower", has_case_of<false>},
    {"mapping", of_one<is_mapping>},
    {"none", of_one<is_none>},
    {"number", of_one<is_number>},
    {"odd", is_odd<1>},
    {"sameas", is_same},
    {"sequence", of_one<is_sequence>},
    {"string", of_one<is_text>},
    {"true", of_one<is_true_itself>},
    {"undefined", of_one<is_undefined>},
    {"upper", has_case_of<true>},
    {"eq", compared<kEqual>},
    {"equalto", compared<kEqual>},
    {"==", compared<kEqual>},
    {"ne", compared<kUnequal>},
    {"!=", compared<kUnequal>},
    {"lt", compared<kLess>},
    {"lessthan", compared<kLess>},
    {"<", compared<kLess>},
    {"le", compared<kAtMost>},
    {"<=", compared<kAtMost>},
    {"gt", compared<kGreater>},
    {"greaterthan", compared<kGreater>},
    {">", compared<kGreater>},
    {"ge", compared<kAtLeast>},
    {">=", compared<kAtLeast>},
};

}  // namespace

const Test* find_test(std::string_view name) {
  for (const Test& test : kTests)
    if (test.name == name) return &test;
  return nullptr;
}

}  // namespace hg::jinja
