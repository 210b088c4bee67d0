// SPDX-License-Identifier: Apache-2.0
// Lists, tuples and dicts of the script: made, taken apart and changed while the import runs.
#include <algorithm>

#include "converter/interpreter.h"

namespace hg::convert {
namespace {

using Items = std::vector<Item>;

const Items* elements_of(const Item& item) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) return &(*list)->items;
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) return &(*tuple)->items;
  return nullptr;
}

Item list_of(Items items) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  return Item(std::move(list));
}

Items arguments(NodeCall& call) {
  Items items;
  for (int i = 0; i < call.argument_count(); ++i) items.push_back(call.argument(i));
  return items;
}

bool is_list(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_list(); }
bool is_dict(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_dict(); }

// A list that is about to change.
Items& changed(NodeCall& call) {
  const std::shared_ptr<List> list = call.list_at(0);
  call.interpreter().check_change(list.get());
  return list->items;
}

size_t position(NodeCall& call, int argument, size_t size) {
  int64_t index = call.number_at(argument);
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size))
    throw Refusal{text("index ", call.number_at(argument), " of a list of ",
                       static_cast<int64_t>(size), " elements"),
                  ""};
  return static_cast<size_t>(index);
}

bool make_list(NodeCall& call) {
  call.give(list_of(arguments(call)));
  return true;
}

bool make_tuple(NodeCall& call) {
  auto tuple = std::make_shared<Tuple>();
  tuple->items = arguments(call);
  call.give(Item(std::move(tuple)));
  return true;
}

bool same_key(const Item& a, const Item& b) {
  return a.value.index() == b.value.index() && equal(a, b).value_or(false);
}

Items::size_type find_key(const Dict& dict, const Item& key) {
  for (size_t i = 0; i < dict.items.size(); ++i)
    if (same_key(dict.items[i].first, key)) return i;
  return dict.items.size();
}

void put(Dict& dict, const Item& key, const Item& value) {
  const size_t i = find_key(dict, key);
  if (i < dict.items.size())
    dict.items[i].second = value;
  else
    dict.items.emplace_back(key, value);
}

bool make_dict(NodeCall& call) {
  auto dict = std::make_shared<Dict>();
  for (int i = 0; i + 1 < call.argument_count(); i += 2)
    put(*dict, call.argument(i), call.argument(i + 1));
  call.give(Item(std::move(dict)));
  return true;
}

bool unpack(NodeCall& call) {
  const Items* items = elements_of(call.at(0));
  if (items == nullptr)
    call.refuse("0", text("is ", describe(call.at(0)), ", not a tuple or list"));
  if (items->size() != call.node().outputs.size())
    throw Refusal{text(static_cast<int64_t>(items->size()), " elements are unpacked into ",
                       static_cast<int64_t>(call.node().outputs.size()), " names"),
                  ""};
  call.returns(*items);
  return true;
}

bool get_item(NodeCall& call) {
  if (const Items* items = elements_of(call.at(0))) {
    call.give((*items)[position(call, 1, items->size())]);
    return true;
  }
  if (is_dict(call)) {
    const auto dict = call.dict_at(0);
    const size_t i = find_key(*dict, call.at(1));
    if (i == dict->items.size())
      throw Refusal{text("the dict has no key ", describe(call.at(1))), ""};
    call.give(dict->items[i].second);
    return true;
  }
  if (call.at(0).is_string()) {
    const std::string& string = call.string_at(0);
    call.give(Item(std::string(1, string[position(call, 1, string.size())])));
    return true;
  }
  return false;
}

bool set_item(NodeCall& call) {
  if (is_list(call)) {
    Items& items = changed(call);
    items[position(call, 1, items.size())] = call.at(2);
  } else if (is_dict(call)) {
    const auto dict = call.dict_at(0);
    call.interpreter().check_change(dict.get());
    put(*dict, call.at(1), call.at(2));
  } else {
    return false;
  }
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

struct Range {
  int64_t start, end, step;
};

Range range_of(NodeCall& call, size_t size) {
  const auto count = static_cast<int64_t>(size);
  const auto given = [&](int i) { return i < call.argument_count() && !call.at(i).is_none(); };
  const int64_t step = given(3) ? call.number_at(3) : 1;
  if (step == 0) throw Refusal{"a slice has step 0", ""};
  const auto bound = [&](int i, int64_t fallback) {
    int64_t value = given(i) ? call.number_at(i) : fallback;
    if (given(i) && value < 0) value += count;
    return std::clamp<int64_t>(value, step > 0 ? 0 : -1, step > 0 ? count : count - 1);
  };
  return {bound(1, step > 0 ? 0 : count - 1), bound(2, step > 0 ? count : -1), step};
}

template <class T>
T sliced(const T& from, const Range& range) {
  T result;
  for (int64_t i = range.start; range.step > 0 ? i < range.end : i > range.end; i += range.step)
    result.push_back(from[static_cast<size_t>(i)]);
  return result;
}

bool slice(NodeCall& call) {
  const Item& from = call.at(0);
  if (from.is_tensor()) return false;
  if (const auto* string = std::get_if<std::string>(&from.value)) {
    call.give(Item(sliced(*string, range_of(call, string->size()))));
    return true;
  }
  const Items* items = elements_of(from);
  if (items == nullptr) return false;
  Items part = sliced(*items, range_of(call, items->size()));
  if (from.is_tuple()) {
    auto tuple = std::make_shared<Tuple>();
    tuple->items = std::move(part);
    call.give(Item(std::move(tuple)));
  } else {
    call.give(list_of(std::move(part)));
  }
  return true;
}

bool length(NodeCall& call) {
  const Item& item = call.at(0);
  if (const Items* items = elements_of(item)) {
    call.give(Item(static_cast<int64_t>(items->size())));
  } else if (item.is_dict()) {
    call.give(Item(static_cast<int64_t>(call.dict_at(0)->items.size())));
  } else if (item.is_string()) {
    call.give(Item(static_cast<int64_t>(call.string_at(0).size())));
  } else if (item.is_tensor()) {
    const TensorType type = call.memory().type(std::get<TensorRef>(item.value));
    if (type.shape.empty()) throw Refusal{"len() of a 0-d tensor", ""};
    call.give(Item(type.shape[0]));
  } else {
    return false;
  }
  return true;
}

bool append(NodeCall& call) {
  if (!is_list(call)) return false;
  changed(call).push_back(call.at(1));
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool extend(NodeCall& call) {
  if (!is_list(call)) return false;
  const Items* more = elements_of(call.at(1));
  if (more == nullptr) return false;
  const Items copy = *more;
  Items& items = changed(call);
  items.insert(items.end(), copy.begin(), copy.end());
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool insert(NodeCall& call) {
  if (!is_list(call)) return false;
  Items& items = changed(call);
  int64_t at = call.number_at(1);
  const auto size = static_cast<int64_t>(items.size());
  if (at < 0) at += size;
  items.insert(items.begin() + std::clamp<int64_t>(at, 0, size), call.at(2));
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool pop(NodeCall& call) {
  if (is_dict(call)) {
    const auto dict = call.dict_at(0);
    call.interpreter().check_change(dict.get());
    const size_t i = find_key(*dict, call.at(1));
    if (i == dict->items.size()) {
      if (call.argument_count() < 3)
        throw Refusal{text("the dict has no key ", describe(call.at(1))), ""};
      call.give(call.at(2));
      return true;
    }
    Item value = dict->items[i].second;
    dict->items.erase(dict->items.begin() + static_cast<std::ptrdiff_t>(i));
    call.give(std::move(value));
    return true;
  }
  if (!is_list(call)) return false;
  Items& items = changed(call);
  if (items.empty()) throw Refusal{"pop() of an empty list", ""};
  const size_t i = call.argument_count() > 1 ? position(call, 1, items.size()) : items.size() - 1;
  Item value = items[i];
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
  call.give(std::move(value));
  return true;
}

bool remove(NodeCall& call) {  // list.remove, del list[i], del dict[key]
  if (is_dict(call)) {
    const auto dict = call.dict_at(0);
    call.interpreter().check_change(dict.get());
    const size_t i = find_key(*dict, call.at(1));
    if (i == dict->items.size())
      throw Refusal{text("the dict has no key ", describe(call.at(1))), ""};
    dict->items.erase(dict->items.begin() + static_cast<std::ptrdiff_t>(i));
  } else if (is_list(call)) {
    Items& items = changed(call);
    size_t i = 0;
    if (call.kind() == "aten::Delete") {
      i = position(call, 1, items.size());
    } else {
      while (i < items.size() && !equal(items[i], call.at(1)).value_or(false)) ++i;
      if (i == items.size()) throw Refusal{"the list has no such element to remove", ""};
    }
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
  } else {
    return false;
  }
  call.returns(Items(call.node().outputs.size()));
  return true;
}

bool clear(NodeCall& call) {
  if (is_list(call)) {
    changed(call).clear();
  } else if (is_dict(call)) {
    call.interpreter().check_change(call.dict_at(0).get());
    call.dict_at(0)->items.clear();
  } else {
    return false;
  }
  call.returns(Items(call.node().outputs.size()));
  return true;
}

bool reverse(NodeCall& call) {
  if (!is_list(call)) return false;
  Items& items = changed(call);
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

bool sort(NodeCall& call) {  // list.sort(reverse) and sorted(list)
  const bool copies = call.kind() == "aten::sorted";
  if (!is_list(call)) return false;
  Items sorted = call.list_at(0)->items;
  const bool descending =
      call.argument_count() > 1 && call.at(1).is_bool() && std::get<bool>(call.at(1).value);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Item& a, const Item& b) {
    return descending ? less(b, a) : less(a, b);
  });
  if (copies) {
    call.give(list_of(std::move(sorted)));
  } else {
    changed(call) = std::move(sorted);
    call.returns(Items(call.node().outputs.size()));
  }
  return true;
}

bool contains(NodeCall& call) {
  if (is_dict(call)) {
    const auto dict = call.dict_at(0);
    call.give(Item(find_key(*dict, call.at(1)) < dict->items.size()));
    return true;
  }
  if (call.at(0).is_string() && call.at(1).is_string()) {
    call.give(Item(call.string_at(0).find(call.string_at(1)) != std::string::npos));
    return true;
  }
  const Items* items = elements_of(call.at(0));
  if (items == nullptr) return false;
  bool unsure = false;
  for (const Item& item : *items) {
    const auto same = equal(item, call.at(1));
    if (same && *same) {
      call.give(Item(true));
      return true;
    }
    unsure |= !same;
  }
  if (unsure) throw Refusal{"whether a list contains a value depends on sizes or data", ""};
  call.give(Item(false));
  return true;
}

bool find_index(NodeCall& call) {  // list.index(x) and list.count(x)
  if (!is_list(call)) return false;
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

bool join_lists(NodeCall& call) {  // list + list; += changes the first
  const Items *a = elements_of(call.at(0)), *b = elements_of(call.at(1));
  if (a == nullptr || b == nullptr) return false;
  Items all = *a;
  all.insert(all.end(), b->begin(), b->end());
  if (call.kind() == "aten::add_") {
    changed(call) = std::move(all);
    call.give(call.at(0));
  } else {
    call.give(list_of(std::move(all)));
  }
  return true;
}

bool repeat_list(NodeCall& call) {  // list * n
  const int which = call.at(0).is_list() ? 0 : 1;
  if (call.argument_count() < 2 || !call.at(which).is_list()) return false;
  const Items& items = call.list_at(which)->items;
  Items all;
  for (int64_t i = call.number_at(1 - which); i > 0; --i)
    all.insert(all.end(), items.begin(), items.end());
  if (call.kind() == "aten::mul_") {
    changed(call) = std::move(all);
    call.give(call.at(0));
  } else {
    call.give(list_of(std::move(all)));
  }
  return true;
}

bool copy(NodeCall& call) {  // list(x), x.copy(), dict(x)
  const Item& from = call.at(0);
  if (const Items* items = elements_of(from)) {
    if (call.kind() != "aten::dict") {
      call.give(list_of(*items));
      return true;
    }
    auto dict = std::make_shared<Dict>();
    for (const Item& pair : *items) {
      const Items* parts = elements_of(pair);
      if (parts == nullptr || parts->size() != 2) throw Refusal{"dict() of no pairs", ""};
      put(*dict, (*parts)[0], (*parts)[1]);
    }
    call.give(Item(std::move(dict)));
    return true;
  }
  if (is_dict(call)) {
    call.give(Item(std::make_shared<Dict>(*call.dict_at(0))));
    return true;
  }
  if (from.is_string() && call.kind() == "aten::list") {
    Items letters;
    for (const char c : call.string_at(0)) letters.emplace_back(std::string(1, c));
    call.give(list_of(std::move(letters)));
    return true;
  }
  return false;
}

bool empty_dict(NodeCall& call) {
  if (call.argument_count() > 0) return copy(call);
  call.give(Item(std::make_shared<Dict>()));
  return true;
}

bool parts_of_dict(NodeCall& call) {  // keys values items
  if (!is_dict(call)) return false;
  Items parts;
  for (const auto& [key, value] : call.dict_at(0)->items) {
    if (call.kind() == "aten::keys")
      parts.push_back(key);
    else if (call.kind() == "aten::values")
      parts.push_back(value);
    else {
      auto pair = std::make_shared<Tuple>();
      pair->items = {key, value};
      parts.emplace_back(std::move(pair));
    }
  }
  call.give(list_of(std::move(parts)));
  return true;
}

bool get_or(NodeCall& call) {  // dict.get(key, default) and dict.setdefault
  if (!is_dict(call)) return false;
  const auto dict = call.dict_at(0);
  const Item fallback = call.argument_count() > 2 ? call.at(2) : Item();
  const size_t i = find_key(*dict, call.at(1));
  if (i < dict->items.size()) {
    call.give(dict->items[i].second);
    return true;
  }
  if (call.kind() == "aten::setdefault") {
    call.interpreter().check_change(dict.get());
    dict->items.emplace_back(call.at(1), fallback);
  }
  call.give(fallback);
  return true;
}

bool update(NodeCall& call) {
  if (!is_dict(call)) return false;
  const auto dict = call.dict_at(0);
  call.interpreter().check_change(dict.get());
  const auto other = call.dict_at(1);
  for (const auto& [key, value] : std::vector(other->items)) put(*dict, key, value);
  call.returns(Items(call.node().outputs.size()));
  return true;
}

bool extreme(NodeCall& call) {  // min and max of a list of numbers
  if (!is_list(call) || call.argument_count() > 2) return false;
  const Items& items = call.list_at(0)->items;
  if (items.empty() || call.argument_count() == 2) return false;
  auto best = scalar_of(items[0]);
  for (const Item& item : items) {
    const auto value = scalar_of(item);
    best = best && value ? apply(call.kind() == "prim::min" ? "min" : "max", *best, *value)
                         : std::nullopt;
  }
  if (!best) throw Refusal{"the smallest or largest of a list depends on data", ""};
  call.give(item_of(call.memory(), *best));
  return true;
}

bool sum(NodeCall& call) {
  if (!is_list(call)) return false;
  Scalar total = Scalar::of(Dim(0));
  for (const Item& item : call.list_at(0)->items) {
    const auto value = scalar_of(item);
    const auto next = value ? apply("add", total, *value) : std::nullopt;
    if (!next) return false;
    total = *next;
  }
  call.give(item_of(call.memory(), total));
  return true;
}

// range(): the trip count and the value of one trip.
bool range_length(NodeCall& call) {
  const Dim low = call.integer_at(0), high = call.integer_at(1), step = call.integer_at(2);
  if (!step.is_constant() || step.constant() == 0)
    throw Refusal{"the step of a range() is not a constant", ""};
  const Dim length = step.constant() > 0 ? ceildiv(high - low, step) : ceildiv(low - high, -step);
  call.give(Item(max(length, Dim(0))));
  return true;
}

bool derive_index(NodeCall& call) {
  const auto index = scalar_of(call.at(0));
  if (index) {
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

bool to_list(NodeCall& call) {  // tensor.tolist()
  const auto* tensor = std::get_if<TensorRef>(&call.at(0).value);
  if (tensor == nullptr) return false;
  if ((*tensor)->is_poisoned()) throw Poisoned();
  if (!(*tensor)->known()) throw Refusal{"tolist() of a tensor that depends on data", ""};
  Items items;
  for (const Scalar& s : (*tensor)->known()->elements) items.push_back(item_of(call.memory(), s));
  call.give((*tensor)->known()->rank == 0 ? items[0] : list_of(std::move(items)));
  return true;
}

constexpr Builtin kBuiltins[] = {
    {"prim::ListConstruct", make_list},
    {"prim::TupleConstruct", make_tuple},
    {"prim::DictConstruct", make_dict},
    {"prim::ListUnpack", unpack},
    {"prim::TupleUnpack", unpack},
    {"prim::TupleIndex", get_item},
    {"prim::TupleSlice", slice},
    {"aten::__getitem__", get_item},
    {"aten::_set_item", set_item},
    {"aten::slice", slice},
    {"aten::len", length},
    {"aten::append", append},
    {"aten::extend", extend},
    {"aten::insert", insert},
    {"aten::pop", pop},
    {"aten::remove", remove},
    {"aten::Delete", remove},
    {"aten::clear", clear},
    {"aten::reverse", reverse},
    {"aten::sort", sort},
    {"aten::sorted", sort},
    {"aten::__contains__", contains},
    {"aten::index", find_index},
    {"aten::count", find_index},
    {"aten::add", join_lists},
    {"aten::add_", join_lists},
    {"aten::mul", repeat_list},
    {"aten::mul_", repeat_list},
    {"aten::list", copy},
    {"aten::copy", copy},
    {"aten::dict", empty_dict},
    {"aten::keys", parts_of_dict},
    {"aten::values", parts_of_dict},
    {"aten::items", parts_of_dict},
    {"aten::get", get_or},
    {"aten::setdefault", get_or},
    {"aten::update", update},
    {"prim::min", extreme},
    {"prim::max", extreme},
    {"aten::sum", sum},
    {"aten::__range_length", range_length},
    {"aten::__derive_index", derive_index},
    {"prim::rangelist", range_list},
    {"prim::tolist", to_list},
};

}  // namespace

std::span<const Builtin> container_builtins() { return kBuiltins; }

}  // namespace hg::convert
