// SPDX-License-Identifier: Apache-2.0
// Lists of the script: changes, sorting, sums, ranges.
#include <algorithm>

#include "converter/containers/columns.h"
#include "converter/containers/container_ops.h"
#include "converter/containers/containers.h"
#include "converter/core/type_names.h"
#include "converter/memory/item_tree.h"
#include "converter/script/numbers.h"
#include "converter/script/script_ops.h"

namespace hg::convert {
namespace {

Growing growing_by(NodeCall& call, const Item& element) {
  Growing growing{call.list_at(0), pattern_of(call.memory(), element)};
  if (const auto inner = call.node().output_types.empty()
                             ? std::nullopt
                             : inside_of(call.node().output_types[0], "List"))
    note_types(growing.wanted, *inner);
  return growing;
}

bool append(NodeCall& call) {
  if (!first_is_list(call)) return false;
  if (call.identities().may_grow(call.list_at(0).get())) throw growing_by(call, call.at(1));
  changed_list(call).push_back(call.at(1));
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool extend(NodeCall& call) {
  if (!first_is_list(call)) return false;
  const Items* more = elements_of(call.at(1));
  if (more == nullptr) return false;
  if (!more->empty() && call.identities().may_grow(call.list_at(0).get()))
    throw growing_by(call, more->front());
  const Items copy = *more;
  Items& items = changed_list(call);
  items.insert(items.end(), copy.begin(), copy.end());
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool insert(NodeCall& call) {
  if (!first_is_list(call)) return false;
  if (call.identities().may_grow(call.list_at(0).get())) throw growing_by(call, call.at(2));
  Items& items = changed_list(call);
  int64_t at = call.number_at(1);
  const auto size = static_cast<int64_t>(items.size());
  if (at < 0) at += size;
  items.insert(items.begin() + std::clamp<int64_t>(at, 0, size), call.at(2));
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool reverse(NodeCall& call) {
  if (!first_is_list(call)) return false;
  Items& items = changed_list(call);
  std::reverse(items.begin(), items.end());
  call.returns(Items(call.node().outputs.size()));
  return true;
}

bool less(const Item& a, const Item& b) {
  if (a.is_string() && b.is_string())
    return std::get<std::string>(a.value) < std::get<std::string>(b.value);
  const auto x = scalar_of(a), y = scalar_of(b);
  const auto result = x && y ? compare("lt", *x, *y) : std::nullopt;
  if (!result) throw Refusal{"a list is sorted whose order depends on sizes or data", ""};
  return *result;
}

// Whether all elements are numbers: known, symbolic or data-dependent.
bool has_numbers(const Items& items) {
  return std::all_of(items.begin(), items.end(), [](const Item& item) {
    return item.is_number() || (item.is_tensor() && std::get<TensorRef>(item.value)->is_number());
  });
}

// Returns the length of a range() with a data-dependent end.
Value range_length_of_data(NodeCall& call, int64_t step) {
  Graph& g = call.graph();
  const auto end = [&](int i) { return cast(number_value(call.memory(), call.at(i)), i64); };
  const Value low = end(step > 0 ? 0 : 1), high = end(step > 0 ? 1 : 0);
  Value length = g.call("sub", {high, low});
  if (const int64_t by = step > 0 ? step : -step; by > 1)
    length =
        g.call("floor_divide", {g.call("add", {length, g.scalar(by - 1, i64)}), g.scalar(by, i64)});
  return g.call("where", {g.call("lt", {low, high}), length, g.scalar(int64_t{0}, i64)});
}

// range(): the trip count, and the value in one iteration.
bool range_length(NodeCall& call) {
  const Dim step = call.integer_at(2);
  if (!step.is_constant() || step.constant() == 0)
    throw Refusal{"the step of a range() is not a constant", ""};
  const auto is_data = [&](int i) { return is_numeric(call.at(i)) && !scalar_of(call.at(i)); };
  if (is_data(0) || is_data(1)) {
    give_number(call, range_length_of_data(call, step.constant()));
    return true;
  }
  const Dim low = call.integer_at(0), high = call.integer_at(1);
  const Dim length = step.constant() > 0 ? ceildiv(high - low, step) : ceildiv(low - high, -step);
  call.give(Item(max(length, Dim(0))));
  return true;
}

bool derive_index(NodeCall& call) {
  const auto index = scalar_of(call.at(0));
  if (index && scalar_of(call.at(1)) && scalar_of(call.at(2))) {
    call.give(Item(call.integer_at(1) + index->top * call.integer_at(2)));
    return true;
  }
  Memory& memory = call.memory();
  const Value step = cast(number_value(memory, call.at(2)), i64);
  const Value scaled = call.graph().call("mul", {number_value(memory, call.at(0)), step});
  call.give(Item(memory.make_number(
      call.graph().call("add", {scaled, cast(number_value(memory, call.at(1)), i64)}))));
  return true;
}

bool range_list(NodeCall& call) {
  Items items;
  for (int64_t i = 0; i < call.number_at(0); ++i) items.emplace_back(i);
  call.give(list_of(std::move(items)));
  return true;
}

// Converts data-dependent numbers to nested lists.
Item listed(NodeCall& call, const Value& value) {
  Graph& g = call.graph();
  if (value.rank() == 0) return Item(call.memory().make_number(number_in(value)));
  const Dim size = value.dim(0);
  if (!size.is_constant())
    throw Refusal{str_cat("tolist() of a tensor of shape ", value.shape(),
                          ", whose number of elements is not known"),
                  "give that size as a number in --input"};
  Items items;
  const Shape rest(value.shape().begin() + 1, value.shape().end());
  for (int64_t i = 0; i < size.constant(); ++i) {
    const Value row = g.call("slice", {value}, {{"dim", 0}, {"start", i}, {"end", i + 1}});
    items.push_back(listed(call, g.call("reshape", {row}, {{"shape", rest}})));
  }
  return list_of(std::move(items));
}

bool list_of_data(NodeCall& call, const TensorRef& tensor) {
  call.give(listed(call, call.memory().read(tensor)));
  return true;
}

bool to_list(NodeCall& call) {  // tensor.tolist()
  const auto* tensor = std::get_if<TensorRef>(&call.at(0).value);
  if (tensor == nullptr) return false;
  if ((*tensor)->is_poisoned()) throw Poisoned();
  if (!(*tensor)->known()) return list_of_data(call, *tensor);
  Items items;
  for (const Scalar& s : (*tensor)->known()->elements) items.push_back(item_of(call.memory(), s));
  call.give((*tensor)->known()->rank == 0 ? items[0] : list_of(std::move(items)));
  return true;
}

}  // namespace

namespace lists {

bool sort(NodeCall& call) {  // list.sort(reverse) and sorted(list)
  const bool copies = call.kind() == "aten::sorted";
  if (!first_is_list(call)) return false;
  Items sorted = call.list_at(0)->items;
  const bool descending =
      call.argument_count() > 1 && call.at(1).is_bool() && std::get<bool>(call.at(1).value);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Item& a, const Item& b) {
    return descending ? less(b, a) : less(a, b);
  });
  if (copies) {
    call.give(list_of(std::move(sorted)));
  } else {
    changed_list(call) = std::move(sorted);
    call.returns(Items(call.node().outputs.size()));
  }
  return true;
}

bool find(NodeCall& call) {  // list.index(x) and list.count(x)
  if (!first_is_list(call)) return false;
  int64_t total = 0;
  const Items& items = call.list_at(0)->items;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto same = equal(items[i], call.at(1));
    if (!same) throw Refusal{"the place of a value in a list depends on sizes or data", ""};
    if (!*same) continue;
    if (call.kind() == "aten::index") {
      call.give(Item(static_cast<int64_t>(i)));
      return true;
    }
    ++total;
  }
  if (call.kind() == "aten::index") throw Refusal{"the list has no such element", ""};
  call.give(Item(total));
  return true;
}

bool join(NodeCall& call) {  // list + list; += changes the first
  const Items *a = elements_of(call.at(0)), *b = elements_of(call.at(1));
  if (a == nullptr || b == nullptr) return false;
  Items all = *a;
  all.insert(all.end(), b->begin(), b->end());
  if (call.kind() == "aten::add_") {
    if (!b->empty() && call.at(0).is_list() && call.identities().may_grow(call.list_at(0).get()))
      throw growing_by(call, b->front());
    changed_list(call) = std::move(all);
    call.give(call.at(0));
  } else {
    call.give(list_of(std::move(all)));
  }
  return true;
}

bool repeat(NodeCall& call) {  // list * n
  const int which = call.at(0).is_list() ? 0 : 1;
  if (call.argument_count() < 2 || !call.at(which).is_list()) return false;
  const Items& items = call.list_at(which)->items;
  Items all;
  for (int64_t i = call.number_at(1 - which); i > 0; --i)
    all.insert(all.end(), items.begin(), items.end());
  if (call.kind() == "aten::mul_") {
    changed_list(call) = std::move(all);
    call.give(call.at(0));
  } else {
    call.give(list_of(std::move(all)));
  }
  return true;
}

bool extreme(NodeCall& call) {  // min and max of a list of numbers
  if (!first_is_list(call) || call.argument_count() != 1) return false;
  const Items& items = call.list_at(0)->items;
  if (items.empty() || !has_numbers(items)) return false;
  const bool least = call.kind() == "prim::min";
  Item best = items[0];
  for (const Item& item : items)
    best = combine(call, least ? "min" : "max", least ? "minimum" : "maximum", item, best);
  if (declared(call) != boolean)
    call.give(best);
  else if (!give_scalar(call, scalar_of(best)))
    give_number(call, number_value(call.memory(), best));
  return true;
}

bool sum(NodeCall& call) {
  if (!first_is_list(call) || !has_numbers(call.list_at(0)->items)) return false;
  Item total = call.node().output_types.at(0) == "float" ? Item(0.0) : Item(0);
  for (const Item& item : call.list_at(0)->items) total = combine(call, "add", "add", total, item);
  call.give(total);
  return true;
}

}  // namespace lists

namespace {

constexpr Row kRows[] = {
    {.op = "prim::min",
     .complex = OnComplex::refused,
     .script = {numbers::min, lists::extreme},
     .grown_list = grown::total},
    {.op = "prim::max",
     .complex = OnComplex::refused,
     .script = {numbers::max, lists::extreme},
     .grown_list = grown::total},
    {.op = "aten::__is__",
     .script = {comparisons::identity},
     .grown_list = grown::is_none,
     .script_takes_complex = true},
    {.op = "aten::__isnot__",
     .script = {comparisons::identity},
     .grown_list = grown::is_none,
     .script_takes_complex = true},
    {.op = "aten::append",
     .script = {append},
     .grown_list = grown::append,
     .script_takes_complex = true,
     .passes_grown = true},
    {.op = "aten::extend",
     .script = {extend},
     .grown_list = grown::extend,
     .script_takes_complex = true,
     .passes_grown = true},
    {.op = "aten::insert",
     .script = {grown::by_data, insert},
     .grown_list = grown::insert,
     .script_takes_complex = true,
     .passes_grown = true},
    {.op = "aten::reverse",
     .script = {reverse},
     .grown_list = grown::reverse,
     .passes_grown = true},
    {.op = "aten::sorted", .script = {grown::by_data, lists::sort}, .grown_list = grown::sort},
    {.op = "aten::count",
     .script = {grown::by_data, lists::find, texts::count},
     .grown_list = grown::find},
    {.op = "aten::add_",
     .script = {lists::join},
     .grown_list = grown::extend,
     .passes_grown = true},
    {.op = "aten::mul_", .script = {lists::repeat}},
    {.op = "aten::__range_length", .script = {range_length}},
    {.op = "aten::__derive_index", .script = {derive_index}},
    {.op = "prim::rangelist", .script = {range_list}},
    {.op = "prim::tolist", .complex = OnComplex::refused, .script = {to_list}},
};

}  // namespace

std::span<const Row> list_rows() { return kRows; }

}  // namespace hg::convert
