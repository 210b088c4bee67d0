// SPDX-License-Identifier: Apache-2.0
// Ops on small tensors with known numbers. Traces compute sizes this way. Results that stay
// symbolic can become shapes.
#include "converter/script/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "converter/rows/view.h"
#include "hg/promotion.h"

namespace hg::convert {
namespace {

constexpr size_t kMostElements = 64;

// Returns numbers as stored in a tensor of this dtype; nothing if that is uncertain.
std::optional<Scalar> stored(const Scalar& s, DType dtype) {
  if (is_float(dtype)) {
    auto real = to_real(s);
    if (real && real->kind == Scalar::Kind::real) {
      if (dtype == f32)
        real->number = static_cast<double>(static_cast<float>(real->number));
      else if (dtype != f64)
        return std::nullopt;
    }
    return real;
  }
  if (dtype == boolean) return to_boolean(s);
  const auto whole = to_integer(s);
  if (!whole || dtype == i64) return whole;
  if (dtype != i32 || !whole->is_constant()) return std::nullopt;
  const int64_t value = whole->top.constant();
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max())
    return std::nullopt;
  return whole;
}

std::optional<Known> as_known(const Item& item) {
  if (const auto* tensor = std::get_if<TensorRef>(&item.value)) {
    if ((*tensor)->is_poisoned()) throw Poisoned();
    return (*tensor)->known();
  }
  const auto scalar = scalar_of(item);
  if (!scalar) return std::nullopt;
  const DType dtype = scalar->kind == Scalar::Kind::boolean   ? boolean
                      : scalar->kind == Scalar::Kind::integer ? i64
                                                              : f64;
  return Known{dtype, 0, {*scalar}};
}

bool is_number(const Item& item) {
  return !item.is_tensor() || std::get<TensorRef>(item.value)->is_number();
}

// Returns the tensor argument itself, for ops that may share memory.
bool give(NodeCall& call, std::optional<Known> known) {
  if (!known || known->elements.size() > kMostElements) return false;
  call.give(Item(call.memory().make_known(std::move(*known))));
  return true;
}

Shape shape_of(const Known& known) {
  return known.rank == 0 ? Shape{} : Shape{static_cast<int64_t>(known.elements.size())};
}

// Returns numbers that share memory with those of `base`.
bool give_part(NodeCall& call, const Item& base, Known known, rows::View view) {
  const auto* tensor = std::get_if<TensorRef>(&base.value);
  if (tensor == nullptr) return give(call, std::move(known));
  call.give(Item(call.memory().make_known_view(*tensor, std::move(known), std::move(view.forward),
                                               std::move(view.inverse))));
  return true;
}

std::string_view pure_name(const NodeCall& call) {
  std::string_view name = call.kind().substr(call.kind().find(':') + 2);
  return name;
}

std::optional<Known> elementwise(std::string_view op, const Item& first, const Item& second) {
  const auto a = as_known(first), b = as_known(second);
  if (!a || !b) return std::nullopt;
  if (a->rank == 1 && b->rank == 1 && a->elements.size() != b->elements.size() &&
      a->elements.size() != 1 && b->elements.size() != 1)
    return std::nullopt;
  const bool comparison =
      op == "eq" || op == "ne" || op == "lt" || op == "le" || op == "gt" || op == "ge";
  Promotion promotion;
  for (const auto& [known, item] : {std::pair{&*a, &first}, std::pair{&*b, &second}}) {
    if (is_number(*item))
      promotion.add_number(known->dtype);
    else
      promotion.add_tensor(known->dtype, known->rank);
  }
  DType dtype = promotion.result();
  if (op == "div" && !is_float(dtype)) dtype = f32;
  if (dtype == boolean && !comparison) return std::nullopt;
  Known result{comparison ? boolean : dtype, std::max(a->rank, b->rank), {}};
  const size_t total = a->elements.size() == 1 ? b->elements.size() : a->elements.size();
  for (size_t i = 0; i < total; ++i) {
    const auto x = stored(a->elements[a->elements.size() == 1 ? 0 : i], dtype);
    const auto y = stored(b->elements[b->elements.size() == 1 ? 0 : i], dtype);
    if (!x || !y) return std::nullopt;
    std::optional<Scalar> z;
    if (comparison) {
      z = relate(op, *x, *y);
    } else {
      z = apply(op, *x, *y);
      if (z) z = stored(*z, dtype);
    }
    if (!z) return std::nullopt;
    result.elements.push_back(*z);
  }
  return result;
}

bool cast_known(NodeCall& call, const Known& known, DType dtype) {
  Known result{dtype, known.rank, {}};
  for (const Scalar& s : known.elements) {
    const auto y = stored(s, dtype);
    if (!y) return false;
    result.elements.push_back(*y);
  }
  return give(call, result);
}

bool cast_first(NodeCall& call, DType dtype) {
  const auto a = as_known(call.argument(0));
  return a && cast_known(call, *a, dtype);
}

// A size divided by a power of two is exact in f32 if the size has at most 24 bits.
bool stays_exact(NodeCall& call, const Scalar& ratio) {
  constexpr int64_t kEnd = int64_t{1} << 24;
  if (ratio.kind != Scalar::Kind::ratio || !ratio.bottom.is_constant()) return false;
  const int64_t bottom = ratio.bottom.constant();
  if (bottom <= 0 || (bottom & (bottom - 1)) != 0) return false;
  call.graph().guard(ratio.top, Relation::lt, kEnd, "a tensor that holds the size as f32");
  call.graph().guard(-kEnd, Relation::lt, ratio.top, "a tensor that holds the size as f32");
  return true;
}

}  // namespace

namespace fold {

bool arithmetic(NodeCall& call, std::string_view op) {
  const Item* self = call.find("self");
  const Item* other = call.find("other");
  if (!self || !other) return false;
  if (const Item* alpha = call.find("alpha")) {
    const auto factor = scalar_of(*alpha);
    if (!factor || compare("eq", *factor, Scalar::of(Dim(1))) != std::optional(true)) return false;
  }
  if (const Item* mode = call.find("rounding_mode"); mode && mode->is_string())
    op = std::get<std::string>(mode->value) == "floor" ? "floor_divide" : "trunc_divide";
  if (pure_name(call) == "rsub") std::swap(self, other);
  return give(call, elementwise(op, *self, *other));
}

bool unary(NodeCall& call, std::string_view op) {
  const Item* self = call.find("self");
  const auto a = self ? as_known(*self) : std::nullopt;
  if (!a || a->dtype == boolean) return false;
  if (const Item* decimals = call.find("decimals"); decimals && !decimals->is_none())
    if (scalar_of(*decimals).value_or(Scalar::of(Dim(1))).top != Dim(0)) return false;
  Known result{a->dtype, a->rank, {}};
  for (const Scalar& s : a->elements) {
    auto y = apply(op, s);
    if (y) y = stored(*y, a->dtype);
    if (!y) return false;
    result.elements.push_back(*y);
  }
  return give(call, result);
}

bool to(NodeCall& call, std::string_view) {
  const Item* self = call.find("self");
  const auto a = self ? as_known(*self) : std::nullopt;
  if (!a) return false;
  DType dtype = a->dtype;
  if (const Item* type = call.find("dtype"); type && !type->is_none())
    dtype = call.dtype("dtype");
  else if (const Item* other = call.find("other"); other && other->is_tensor())
    dtype = call.memory().type(std::get<TensorRef>(other->value)).dtype;
  if (dtype == a->dtype && !call.flag("copy", false)) {
    call.give(*self);
    return true;
  }
  return cast_known(call, *a, dtype);
}

bool to_float(NodeCall& call, std::string_view) { return cast_first(call, f32); }
bool to_long(NodeCall& call, std::string_view) { return cast_first(call, i64); }
bool to_int(NodeCall& call, std::string_view) { return cast_first(call, i32); }

bool reciprocal(NodeCall& call, std::string_view) {
  const Item* self = call.find("self");
  return self && give(call, elementwise("div", Item(1.0), *self));
}

bool reduce(NodeCall& call, std::string_view op) {
  if (call.find("other")) return arithmetic(call, op);
  const Item* self = call.find("self");
  const auto a = self ? as_known(*self) : std::nullopt;
  if (!a || a->elements.empty() || call.node().inputs.size() > 2) return false;
  if (const Item* dtype = call.find("dtype"); dtype && !dtype->is_none()) return false;
  if (call.find("dim")) return false;
  const bool grows = op == "add" || op == "mul";
  const DType dtype = grows && !is_float(a->dtype) ? i64 : a->dtype;
  auto total = stored(a->elements[0], dtype);
  for (size_t i = 1; total && i < a->elements.size(); ++i) {
    const auto next = stored(a->elements[i], dtype);
    total = next ? apply(op, *total, *next) : std::nullopt;
    if (total) total = stored(*total, dtype);
  }
  return total && give(call, Known{dtype, 0, {*total}});
}

// reshape view flatten squeeze unsqueeze of rank 0 and 1
bool reshape(NodeCall& call, std::string_view) {
  const Item* self = call.find("self");
  const auto a = self ? as_known(*self) : std::nullopt;
  if (!a) return false;
  const std::string_view name = pure_name(call);
  Known result = *a;
  if (name == "unsqueeze") {
    if (a->rank != 0) return false;
    result.rank = 1;
  } else if (name == "squeeze") {
    if (a->rank != 1 || a->elements.size() == 1) result.rank = 0;
  } else if (name == "flatten" || name == "ravel") {
    result.rank = 1;
  } else {
    const Item* shape = call.find("shape") ? call.find("shape") : call.find("size");
    if (!shape || !shape->is_list()) return false;
    const auto& items = std::get<std::shared_ptr<List>>(shape->value)->items;
    if (items.size() > 1) return false;
    result.rank = static_cast<int>(items.size());
  }
  return give_part(call, *self, result, rows::reshape_view(shape_of(result)));
}

// stack and cat
bool join(NodeCall& call, std::string_view) {
  const Item* tensors = call.find("tensors");
  if (!tensors || !tensors->is_list()) return false;
  const bool stack = pure_name(call) == "stack";
  Known result{i64, 1, {}};
  bool first = true;
  for (const Item& item : std::get<std::shared_ptr<List>>(tensors->value)->items) {
    const auto a = as_known(item);
    if (!a || a->rank != (stack ? 0 : 1)) return false;
    if (!first && a->dtype != result.dtype) return false;
    first = false;
    result.dtype = a->dtype;
    result.elements.insert(result.elements.end(), a->elements.begin(), a->elements.end());
  }
  return !first && give(call, result);
}

// select and slice of rank 1
bool pick(NodeCall& call, std::string_view) {
  const Item* self = call.find("self");
  const auto a = self ? as_known(*self) : std::nullopt;
  if (!a || a->rank != 1) return false;
  const auto size = static_cast<int64_t>(a->elements.size());
  const auto constant = [&](std::string_view name, int64_t fallback) -> std::optional<int64_t> {
    if (!call.has(name)) return fallback;
    const auto scalar = scalar_of(*call.find(name));
    const bool known = scalar && scalar->is_integral() && scalar->is_constant();
    return known ? std::optional(scalar->top.constant()) : std::nullopt;
  };
  if (pure_name(call) == "select") {
    auto index = constant("index", 0);
    if (!index) return false;
    if (*index < 0) *index += size;
    if (*index < 0 || *index >= size) return false;
    return give_part(call, *self, Known{a->dtype, 0, {a->elements[*index]}},
                     rows::select_view(0, *index));
  }
  auto start = constant("start", 0), end = constant("end", size), step = constant("step", 1);
  if (!start || !end || !step || *step < 1) return false;
  if (*start < 0) *start += size;
  if (*end < 0) *end += size;
  Known result{a->dtype, 1, {}};
  const int64_t first = std::clamp<int64_t>(*start, 0, size);
  const int64_t last = std::clamp<int64_t>(*end, first, size);
  for (int64_t i = first; i < last; i += *step) result.elements.push_back(a->elements[i]);
  return give_part(call, *self, result, rows::slice_view(0, first, last, *step));
}

bool pass(NodeCall& call, std::string_view) {
  const Item* self = call.find("self");
  if (!self && call.argument_count() > 0) self = &call.argument(0);
  if (!self || !as_known(*self)) return false;
  if (pure_name(call) == "clone") return give(call, as_known(*self));
  call.give(*self);
  return true;
}

// torch.tensor() and similar ops on numbers or a flat list of numbers.
std::optional<DType> listed_dtype(const NodeCall& call) {
  const std::string& numbers = call.node().numbers;
  if (numbers.empty()) return std::nullopt;
  return numbers == "int" ? i64 : numbers == "bool" ? boolean : f32;
}

bool create(NodeCall& call, std::string_view) {
  if (call.argument_count() == 0) return false;
  const Item& data = call.argument(0);
  Known result{i64, 0, {}};
  bool real = false, integer = false;
  const auto add = [&](const Item& item) {
    const auto a = as_known(item);
    if (!a || a->elements.size() != 1 || (item.is_tensor() && !is_number(item))) return false;
    real |= is_float(a->dtype);
    integer |= is_integer(a->dtype);
    result.elements.push_back(a->elements[0]);
    return true;
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&data.value)) {
    result.rank = 1;
    for (const Item& item : (*list)->items)
      if (!add(item)) return false;
    if (result.elements.empty()) real = true;
  } else if (!is_number(data) || !add(data)) {
    return false;
  }
  // scalar_tensor converts every number to float. The other ops round floats to f32 for every
  // dtype.
  const bool rounds = pure_name(call) != "scalar_tensor";
  result.dtype = real || !rounds ? f32 : integer ? i64 : boolean;
  if (const auto listed = listed_dtype(call)) result.dtype = *listed;
  result.dtype = call.dtype("dtype", result.dtype);
  for (Scalar& s : result.elements) {
    if (rounds && !s.is_integral()) {
      if (s.is_constant())
        s = Scalar::of(double{static_cast<float>(s.as_double())});
      else if (!stays_exact(call, s))
        return false;
    }
    const auto y = stored(s, result.dtype);
    if (!y) return false;
    s = *y;
  }
  return give(call, result);
}

bool as_tensor(NodeCall& call, std::string_view op) {
  return !call.argument(0).is_tensor() && create(call, op);
}

}  // namespace fold

bool run_known(NodeCall& call) {
  const Row* row = call.row();
  if (row == nullptr || row->fold.run == nullptr) return false;
  // Overloads with a list of tensors or numbers check their arguments themselves.
  for (int i = 0; i < call.argument_count() && i < 2; ++i) {
    const auto* tensor = std::get_if<TensorRef>(&call.argument(i).value);
    if (tensor && !(*tensor)->known() && row->fold.run != fold::to) return false;
  }
  return row->fold.run(call, row->fold.op);
}

}  // namespace hg::convert
