// SPDX-License-Identifier: Apache-2.0
// Code shared by rows: arguments by name, dtypes and type promotion.
#include <algorithm>

#include "converter/memory/item_values.h"
#include "converter/rows/node_call.h"
#include "hg/promotion.h"

namespace hg::convert {
namespace {

std::string kind_of(const Item& item) {
  if (item.is_none()) return "None";
  if (item.is_tensor())
    return std::get<TensorRef>(item.value)->is_number() ? "a number that depends on data"
                                                        : "a tensor";
  if (item.is_bool()) return "a bool";
  if (item.is_int()) return "an integer";
  if (item.is_real()) return "a float";
  if (item.is_string()) return "a string";
  if (item.is_list()) return "a list";
  if (item.is_tuple()) return "a tuple";
  if (item.is_dict()) return "a dict";
  return "an object";
}

const std::vector<Item>* elements_of(const Item& item) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) return &(*list)->items;
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) return &(*tuple)->items;
  return nullptr;
}

[[noreturn]] void refuse_kind(const Call& call, std::string_view argument, const Item& item,
                              std::string_view wanted) {
  if (item.is_tensor() && std::get<TensorRef>(item.value)->is_poisoned()) throw Poisoned();
  call.refuse(argument, str_cat("is ", kind_of(item), ", not ", wanted));
}

const Item& required(const Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  if (item == nullptr) call.refuse(argument, "is missing");
  return *item;
}

Value number_of(Graph& g, const Dim& dim) {
  return g.call("reshape", {g.call("dims", {}, {{"values", Shape{dim}}})}, {{"shape", Shape{}}});
}

// Returns the memory of a data-dependent number; null for other items.
Memory* memory_of(const Call& call, const Item& item) {
  const auto* number = std::get_if<TensorRef>(&item.value);
  const auto* node = dynamic_cast<const NodeCall*>(&call);
  return number && (*number)->is_number() && node ? &node->memory() : nullptr;
}

Dim term_of_item(const Call& call, std::string_view argument, const Item& item, TermOf term_of) {
  const auto scalar = scalar_of(item);
  if (scalar && scalar->is_integral()) return scalar->top;
  if (Memory* const memory = memory_of(call, item))
    if (const auto term = (memory->*term_of)(std::get<TensorRef>(item.value))) return *term;
  refuse_kind(call, argument, item, "an integer");
}

double real_of(const Call& call, std::string_view argument, const Item& item) {
  const auto scalar = scalar_of(item);
  if (const auto* number = std::get_if<TensorRef>(&item.value);
      !scalar && number && (*number)->is_number() && !(*number)->is_poisoned())
    call.refuse_data(argument);
  if (!scalar) refuse_kind(call, argument, item, "a number");
  if (!scalar->is_constant())
    call.refuse(argument, str_cat("depends on the size ", scalar->top, ", but must be a constant"));
  return scalar->as_double();
}

std::string_view describe_torch_dtype(int64_t type) {
  switch (type) {
    case 8:
      return "complex32";
    case 9:
      return "complex64";
    case 10:
      return "complex128";
    case 12:
      return "qint8";
    case 13:
      return "quint8";
    case 14:
      return "qint32";
    case 27:
      return "uint16";
    case 28:
      return "uint32";
    case 29:
      return "uint64";
  }
  return "";
}

constexpr DType kTorchDTypes[] = {u8, i8, i16, i32, i64, f16, f32, f64};

}  // namespace

bool Call::has(std::string_view name) const {
  const Item* item = find(name);
  return item != nullptr && !item->is_none();
}

void Call::refuse(std::string_view name, std::string_view why) const {
  throw Refusal{str_cat("argument '", name, "' ", why), ""};
}

void Call::refuse_data(std::string_view name) const {
  throw Refusal{str_cat("argument '", name, "' depends on data, but must be a constant"),
                "write the number in the script, or make it an argument of forward that is no "
                "tensor and give its value with --constant"};
}

TensorRef Call::ref(std::string_view name) const {
  const Item& item = required(*this, name);
  if (!item.is_tensor()) refuse_kind(*this, name, item, "a tensor");
  const TensorRef& tensor = std::get<TensorRef>(item.value);
  if (tensor->is_poisoned()) throw Poisoned();
  return tensor;
}

Value Call::tensor(std::string_view name) {
  const Item& item = required(*this, name);
  return item.is_number() ? tensor_or_number(name) : read(ref(name));
}

Value Call::tensor_or_none(std::string_view name) { return has(name) ? tensor(name) : Value(); }

std::vector<Value> Call::tensors(std::string_view name) {
  std::vector<Value> values = tensors_or_none(name);
  for (const Value& value : values)
    if (!value) refuse(name, "holds None where a tensor is needed");
  return values;
}

std::vector<Value> Call::tensors_or_none(std::string_view name) {
  const Item& item = required(*this, name);
  const std::vector<Item>* items = elements_of(item);
  if (items == nullptr) refuse_kind(*this, name, item, "a list of tensors");
  std::vector<Value> values;
  for (const Item& element : *items) {
    if (element.is_none())
      values.emplace_back();
    else if (element.is_tensor())
      values.push_back(read(std::get<TensorRef>(element.value)));
    else
      refuse_kind(*this, name, element, "a list of tensors");
  }
  return values;
}

Dim Call::integer(std::string_view name) const {
  return term_of_item(*this, name, required(*this, name), &Memory::integer_of);
}

Dim Call::integer(std::string_view name, const Dim& fallback) const {
  return has(name) ? integer(name) : fallback;
}

Dim Call::size(std::string_view name) const {
  return term_of_item(*this, name, required(*this, name), &Memory::size_of);
}

Dim Call::size(std::string_view name, const Dim& fallback) const {
  return has(name) ? size(name) : fallback;
}

bool Call::may_be_negative(std::string_view name) const {
  const Item* item = find(name);
  Memory* const memory = item ? memory_of(*this, *item) : nullptr;
  return memory && !scalar_of(*item) && !memory->term_of(std::get<TensorRef>(item->value));
}

int64_t Call::number(std::string_view name) const {
  if (memory_of(*this, required(*this, name)) && !scalar_of(*find(name))) refuse_data(name);
  const Dim value = integer(name);
  if (!value.is_constant())
    refuse(name, str_cat("depends on the size ", value, ", but must be a constant"));
  return value.constant();
}

int64_t Call::number(std::string_view name, int64_t fallback) const {
  return has(name) ? number(name) : fallback;
}

double Call::real(std::string_view name) const {
  return real_of(*this, name, required(*this, name));
}

double Call::real(std::string_view name, double fallback) const {
  return has(name) ? real(name) : fallback;
}

bool Call::flag(std::string_view name) const {
  const Item& item = required(*this, name);
  const auto scalar = scalar_of(item);
  if (!scalar || !scalar->is_integral() || !scalar->is_constant())
    refuse_kind(*this, name, item, "a bool");
  return scalar->top != Dim(0);
}

bool Call::flag(std::string_view name, bool fallback) const {
  return has(name) ? flag(name) : fallback;
}

std::string Call::string(std::string_view name) const {
  const Item& item = required(*this, name);
  if (!item.is_string()) refuse_kind(*this, name, item, "a string");
  return std::get<std::string>(item.value);
}

std::string Call::string(std::string_view name, std::string fallback) const {
  return has(name) ? string(name) : std::move(fallback);
}

namespace {

std::vector<Dim> integers_of(const Call& call, std::string_view name, int expected,
                             TermOf term_of) {
  if (!call.has(name)) return {};
  const Item& item = required(call, name);
  std::vector<Dim> values;
  if (const std::vector<Item>* items = elements_of(item)) {
    for (const Item& element : *items) values.push_back(term_of_item(call, name, element, term_of));
  } else if (item.is_tensor() && std::get<TensorRef>(item.value)->known() &&
             std::get<TensorRef>(item.value)->known()->rank == 1) {
    for (const Scalar& s : std::get<TensorRef>(item.value)->known()->elements) {
      if (!s.is_integral()) refuse_kind(call, name, item, "a list of integers");
      values.push_back(s.top);
    }
  } else {
    values.push_back(term_of_item(call, name, item, term_of));
  }
  if (expected > 0 && values.size() == 1) values.resize(expected, values[0]);
  return values;
}

}  // namespace

std::vector<Dim> Call::integers(std::string_view name, int expected) const {
  return integers_of(*this, name, expected, &Memory::integer_of);
}

std::vector<Dim> Call::sizes(std::string_view name, int expected) const {
  return integers_of(*this, name, expected, &Memory::size_of);
}

bool Call::is_of_data(std::string_view name) const {
  const Item* item = find(name);
  if (item == nullptr) return false;
  const auto decides = [&](const Item& each) { return memory_of(*this, each) && !scalar_of(each); };
  const std::vector<Item>* items = elements_of(*item);
  return items ? std::any_of(items->begin(), items->end(), decides) : decides(*item);
}

std::vector<Dim> Call::sizes_or(std::string_view name, const Rest& rest) {
  const Item& item = required(*this, name);
  const std::vector<Item>* list = elements_of(item);
  const std::vector<Item> items = list ? *list : std::vector<Item>{item};
  const auto may_be_negative = [&](const Item& each) {
    Memory* const memory = scalar_of(each) ? nullptr : memory_of(*this, each);
    return memory && !memory->term_of(std::get<TensorRef>(each.value));
  };
  Graph& g = graph();
  std::vector<Dim> result;
  std::vector<Value> values;
  for (const Item& each : items) {
    const bool is_open = may_be_negative(each);
    result.push_back(is_open ? Dim(-1) : term_of_item(*this, name, each, &Memory::size_of));
    values.push_back(is_open ? convert::cast(read(std::get<TensorRef>(each.value)), i64)
                             : number_of(g, result.back()));
  }
  for (size_t i = 0; i < items.size(); ++i)
    if (may_be_negative(items[i]))
      result[i] = size_of(g.call("where", {g.call("eq", {values[i], g.scalar(int64_t{-1}, i64)}),
                                           rest(i, values), values[i]}));
  return result;
}

std::vector<Dim> Call::shape(std::string_view name, const Dim& total) {
  const auto is_rest = [](const Item& each) {
    const auto scalar = scalar_of(each);
    return scalar && scalar->is_constant() && scalar->as_double() == -1;
  };
  const std::vector<Item>* items = elements_of(required(*this, name));
  if (!is_of_data(name) || (items && std::any_of(items->begin(), items->end(), is_rest)))
    return sizes(name);
  return sizes_or(name, [&](size_t i, const std::vector<Value>& values) {
    Graph& g = graph();
    const auto number = [&](int64_t value) { return g.scalar(value, i64); };
    Value others = number(1), least = number(1);
    for (size_t k = 0; k < values.size(); ++k) {
      if (k == i) continue;
      others = g.call("mul", {others, values[k]});
      least = g.call("minimum", {least, values[k]});
    }
    // Beside a size of 0 or another -1, PyTorch refuses -1: it stays, which fails the run.
    const Value is_wrong = g.call("lt", {least, number(1)});
    const Value rest = g.call(
        "floor_divide", {number_of(g, total), g.call("where", {is_wrong, number(1), others})});
    return g.call("where", {is_wrong, number(-1), rest});
  });
}

std::vector<double> Call::reals(std::string_view name) const {
  if (!has(name)) return {};
  const Item& item = required(*this, name);
  std::vector<double> values;
  if (const std::vector<Item>* items = elements_of(item))
    for (const Item& element : *items) values.push_back(real_of(*this, name, element));
  else
    values.push_back(real_of(*this, name, item));
  return values;
}

DType Call::dtype(std::string_view name) const { return dtype_of_torch(number(name)); }

DType Call::dtype(std::string_view name, DType fallback) const {
  return has(name) ? dtype(name) : fallback;
}

Value Call::tensor_or_number(std::string_view name) {
  const Item& item = required(*this, name);
  if (const auto* b = std::get_if<bool>(&item.value)) return graph().scalar(int64_t{*b}, boolean);
  if (const auto* d = std::get_if<double>(&item.value)) return graph().scalar(*d, f32);
  if (const auto* i = std::get_if<Dim>(&item.value)) {
    if (i->is_constant()) return graph().scalar(i->constant(), i64);
    const Value sizes = graph().call("dims", {}, {{"values", std::vector<Dim>{*i}}});
    return graph().call("reshape", {sizes}, {{"shape", std::vector<Dim>()}});
  }
  const TensorRef tensor = ref(name);
  const Value value = read(tensor);
  return tensor->is_number() && is_float(value.dtype()) ? convert::cast(value, f32) : value;
}

namespace {

bool is_exact(int64_t value, DType dtype) {
  if (dtype == boolean) return false;
  if (dtype == i64 || (value >= 0 && value <= 127)) return true;
  return is_float(dtype) && value > -(1ll << 53) && value < (1ll << 53);
}

}  // namespace

Value Call::tensor_or_number(std::string_view name, DType dtype) {
  const Item& item = required(*this, name);
  if (const auto* d = std::get_if<double>(&item.value))
    return is_float(dtype) ? graph().scalar(*d, dtype)
                           : convert::cast(graph().scalar(*d, f64), dtype);
  if (const auto* i = std::get_if<Dim>(&item.value); i && i->is_constant())
    return is_exact(i->constant(), dtype)
               ? graph().scalar(i->constant(), dtype)
               : convert::cast(graph().scalar(i->constant(), i64), dtype);
  if (item.is_tensor()) return convert::cast(read(ref(name)), dtype);
  return convert::cast(tensor_or_number(name), dtype);
}

std::vector<Value> Call::promoted(std::initializer_list<std::string_view> names,
                                  bool float_result) {
  Promotion promotion;
  for (const std::string_view name : names) {
    if (!has(name)) continue;
    const Item& item = required(*this, name);
    if (item.is_bool()) {
      promotion.add_number(boolean);
    } else if (item.is_int()) {
      promotion.add_number(i64);
    } else if (item.is_real()) {
      promotion.add_number(f32);
    } else {
      const TensorRef tensor = ref(name);
      const Value value = read(tensor);
      if (tensor->is_number())
        promotion.add_number(value.dtype());
      else
        promotion.add_tensor(value.dtype(), value.rank());
    }
  }
  DType dtype = promotion.result();
  if (float_result && !is_float(dtype)) dtype = f32;

  std::vector<Value> values;
  for (const std::string_view name : names)
    values.push_back(has(name) ? tensor_or_number(name, dtype) : Value());
  return values;
}

void Call::returns(const std::vector<Value>& values) {
  std::vector<Item> items;
  for (const Value& value : values) items.emplace_back(make_tensor(value));
  returns(std::move(items));
}

void Call::returns_list(const std::vector<Value>& values) {
  auto list = std::make_shared<List>();
  for (const Value& value : values) list->items.emplace_back(make_tensor(value));
  returns(std::vector<Item>{Item(std::move(list))});
}

DType dtype_of_torch(int64_t type) {
  if (type >= 0 && type < 8) return kTorchDTypes[type];
  if (type == 11) return boolean;
  if (type == 15) return bf16;
  const std::string_view known = describe_torch_dtype(type);
  throw Refusal{known.empty() ? str_cat("the dtype with torch's number ", type, " is not supported")
                              : str_cat("the dtype ", known, " is not supported"),
                ""};
}

int64_t torch_of_dtype(DType dtype) {
  if (dtype == boolean) return 11;
  if (dtype == bf16) return 15;
  if (is_complex(dtype)) return dtype == c64 ? 9 : 10;
  return std::find(std::begin(kTorchDTypes), std::end(kTorchDTypes), dtype) - kTorchDTypes;
}

}  // namespace hg::convert
