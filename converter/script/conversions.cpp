// SPDX-License-Identifier: Apache-2.0
// Conversions between numbers, text and tensors.
#include <cerrno>
#include <cstdlib>

#include "converter/core/value_numbering.h"
#include "converter/memory/item_tree.h"
#include "converter/script/numbers.h"
#include "converter/script/script_ops.h"

namespace hg::convert {
namespace {

// Returns the only element of a tensor as rank 0.
Value single(NodeCall& call, const TensorRef& tensor) {
  const Value value = call.memory().read(tensor);
  if (value.rank() == 0) return value;
  if (count(value.shape()) != Dim(1))
    throw Refusal{str_cat("a tensor of shape ", value.shape(), " is used as a number"), ""};
  return call.graph().call("reshape", {value}, {{"shape", std::vector<Dim>()}});
}

// int("12") and float("1.5") as in libtorch: C's parsers, which must consume the whole text without
// overflow.
template <class T, class Read>
T number_of(const std::string& string, const char* name, Read read) {
  char* end = nullptr;
  errno = 0;
  const T value = read(string.c_str(), &end);
  if (end == string.c_str() || end != string.c_str() + string.size() || errno == ERANGE)
    throw Refusal{str_cat(name, "('", string, "') raises an exception in PyTorch"), ""};
  return value;
}

template <DType T>
bool convert(NodeCall& call) {  // Int Float Bool and the implicit conversions
  const Item& a = call.at(0);
  if (const auto* string = std::get_if<std::string>(&a.value)) {
    if constexpr (T == boolean) {
      call.give(Item(!string->empty()));
    } else if constexpr (T == i64) {
      call.give(Item(number_of<int64_t>(
          *string, "int", [](const char* at, char** end) { return std::strtoll(at, end, 10); })));
    } else {
      call.give(Item(number_of<double>(*string, "float", std::strtod)));
    }
    return true;
  }
  // In libtorch, float(i) of an integer rounds to single precision.
  const bool single_precision = T == f64 && call.overload() == "int";
  if (const auto scalar = scalar_of(a)) {
    if (single_precision && scalar->is_constant()) {
      call.give(Item(static_cast<double>(static_cast<float>(scalar->top.constant()))));
      return true;
    }
    const auto result = T == i64       ? to_integer(*scalar)
                        : T == boolean ? to_boolean(*scalar)
                                       : to_real(*scalar);
    if (give_scalar(call, result)) return true;
  }
  if (const auto* tensor = std::get_if<TensorRef>(&a.value);
      tensor && T == boolean && is_always_true(call.read(*tensor))) {
    call.give(Item(true));
    return true;
  }
  const Value value = a.is_tensor() ? number_in(single(call, std::get<TensorRef>(a.value)))
                                    : number_value(call.memory(), a);
  if (T == i64 && a.is_tensor() && is_float(value.dtype()))
    give_number(call, call.graph().call("to_integer", {value}));
  else
    give_number(call, cast(single_precision ? cast(value, f32) : value, T));
  return true;
}

bool to_number(NodeCall& call) {  // item and ScalarImplicit
  const Item& a = call.at(0);
  if (const auto scalar = scalar_of(a)) return give_scalar(call, scalar);
  const Value value =
      single(call, call.ref(call.node().argument_names.empty() ? std::string_view("self")
                                                               : call.node().argument_names[0]));
  give_number(call, number_in(value));
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

bool unwrap(NodeCall& call) {
  if (call.at(0).is_none()) throw Refusal{"None is unwrapped", ""};
  return same(call);
}

constexpr Row kRows[] = {
    {.op = "aten::Int", .script = {convert<i64>}},
    {.op = "aten::IntImplicit", .script = {convert<i64>}},
    {.op = "aten::Float", .script = {convert<f64>}},
    {.op = "aten::FloatImplicit", .script = {convert<f64>}},
    {.op = "aten::Bool", .script = {convert<boolean>}},
    {.op = "aten::item", .script = {to_number}},
    {.op = "aten::Number", .script = {to_number}},
    {.op = "aten::ScalarImplicit", .script = {to_number}},
    {.op = "prim::NumToTensor", .complex = OnComplex::refused, .script = {to_tensor}},
    {.op = "prim::unchecked_cast", .script = {same}, .passes_grown = true},
    {.op = "prim::unchecked_unwrap_optional", .script = {same}},
    {.op = "aten::_unwrap_optional", .script = {unwrap}},
    {.op = "prim::profile", .script = {same}},
    {.op = "prim::profile_ivalue", .script = {same}},
};

}  // namespace

std::span<const Row> conversion_rows() { return kRows; }

}  // namespace hg::convert
