// SPDX-License-Identifier: Apache-2.0
// Lists, tuples and dicts of the script: built, unpacked and changed during import.
#include "converter/containers/containers.h"

#include <algorithm>

#include "converter/containers/container_ops.h"
#include "converter/core/type_names.h"
#include "converter/memory/item_tree.h"
#include "converter/script/numbers.h"

namespace hg::convert {

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

bool first_is_list(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_list(); }
bool first_is_dict(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_dict(); }

Items& changed_list(NodeCall& call) {
  const std::shared_ptr<List> list = call.list_at(0);
  call.identities().check_change(call.at(0));
  return list->items;
}

size_t position(NodeCall& call, int argument, size_t size) {
  int64_t index = call.number_at(argument);
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size))
    throw Refusal{str_cat("index ", call.number_at(argument), " of a list of ",
                          static_cast<int64_t>(size), " elements"),
                  ""};
  return static_cast<size_t>(index);
}

namespace {

Items arguments(NodeCall& call) {
  Items items;
  for (int i = 0; i < call.argument_count(); ++i) items.push_back(call.argument(i));
  return items;
}

bool same_key(const Item& a, const Item& b) {
  if (a.value.index() != b.value.index() && !is_unknown_text(a) && !is_unknown_text(b) &&
      !is_numeric(a) && !is_numeric(b))
    return false;
  const auto same = equal(a, b);
  if (!same) throw Refusal{"which element of a dict is meant depends on sizes or data", ""};
  return *same;
}

}  // namespace

size_t find_key(const Dict& dict, const Item& key) {
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

namespace {

bool make_list(NodeCall& call) {
  call.give(list_of(arguments(call)));
  return true;
}

bool make_tuple(NodeCall& call) {
  auto tuple = std::make_shared<Tuple>();
  tuple->items = arguments(call);
  if (!call.node().output_types.empty())
    if (const auto fields = inside_of(call.node().output_types[0], "Tuple"))
      for (const NamedType& field : split_types(*fields))
        if (!field.name.empty()) tuple->names.push_back(field.name);
  call.give(Item(std::move(tuple)));
  return true;
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
    call.refuse("0", str_cat("is ", describe(call.at(0)), ", not a tuple or list"));
  if (items->size() != call.node().outputs.size())
    throw Refusal{str_cat(static_cast<int64_t>(items->size()), " elements are unpacked into ",
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
  if (first_is_dict(call)) {
    const auto dict = call.dict_at(0);
    const size_t i = find_key(*dict, call.at(1));
    if (i == dict->items.size())
      throw Refusal{str_cat("the dict has no key ", describe(call.at(1))), ""};
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
  if (first_is_list(call)) {
    Items& items = changed_list(call);
    items[position(call, 1, items.size())] = call.at(2);
  } else if (first_is_dict(call)) {
    const auto dict = call.dict_at(0);
    call.identities().check_change(call.at(0));
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
    result.push_back(from[i]);
  return result;
}

// The bounds of a slice of a tuple are attributes of the node.
bool slice_tuple(NodeCall& call) {
  const std::string& bounds = call.node().attribute;
  const size_t colon = bounds.find(':');
  const Items* items = elements_of(call.at(0));
  if (colon == std::string::npos || items == nullptr) return containers::slice(call);
  const auto size = static_cast<int64_t>(items->size());
  const int64_t end = std::min<int64_t>(std::stoll(bounds.substr(colon + 1)), size);
  auto tuple = std::make_shared<Tuple>();
  tuple->items = sliced(*items, Range{std::stoll(bounds.substr(0, colon)), end, 1});
  call.give(Item(std::move(tuple)));
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

bool pop(NodeCall& call) {
  if (first_is_dict(call)) {
    const auto dict = call.dict_at(0);
    call.identities().check_change(call.at(0));
    const size_t i = find_key(*dict, call.at(1));
    if (i == dict->items.size()) {
      if (call.argument_count() < 3)
        throw Refusal{str_cat("the dict has no key ", describe(call.at(1))), ""};
      call.give(call.at(2));
      return true;
    }
    Item value = dict->items[i].second;
    dict->items.erase(dict->items.begin() + static_cast<std::ptrdiff_t>(i));
    call.give(std::move(value));
    return true;
  }
  if (!first_is_list(call)) return false;
  Items& items = changed_list(call);
  if (items.empty()) throw Refusal{"pop() of an empty list", ""};
  const size_t i = call.argument_count() > 1 ? position(call, 1, items.size()) : items.size() - 1;
  Item value = items[i];
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
  call.give(std::move(value));
  return true;
}

bool remove(NodeCall& call) {  // list.remove, del list[i], del dict[key]
  if (first_is_dict(call)) {
    const auto dict = call.dict_at(0);
    call.identities().check_change(call.at(0));
    const size_t i = find_key(*dict, call.at(1));
    if (i == dict->items.size())
      throw Refusal{str_cat("the dict has no key ", describe(call.at(1))), ""};
    dict->items.erase(dict->items.begin() + static_cast<std::ptrdiff_t>(i));
  } else if (first_is_list(call)) {
    Items& items = changed_list(call);
    size_t i = 0;
    if (call.kind() == "aten::Delete") {
      i = position(call, 1, items.size());
    } else {
      for (; i < items.size(); ++i) {
        const auto same = equal(items[i], call.at(1));
        if (!same) throw Refusal{"the place of a value in a list depends on sizes or data", ""};
        if (*same) break;
      }
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
  if (first_is_list(call)) {
    changed_list(call).clear();
  } else if (first_is_dict(call)) {
    call.identities().check_change(call.at(0));
    call.dict_at(0)->items.clear();
  } else {
    return false;
  }
  call.returns(Items(call.node().outputs.size()));
  return true;
}

bool contains(NodeCall& call) {
  if (first_is_dict(call)) {
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
  std::vector<const Item*> unsure;
  for (const Item& item : *items) {
    const auto same = equal(item, call.at(1));
    if (same && *same) {
      call.give(Item(true));
      return true;
    }
    if (!same) unsure.push_back(&item);
  }
  if (unsure.empty()) {
    call.give(Item(false));
    return true;
  }
  Value any;
  for (const Item* item : unsure) {
    if (!is_numeric(*item) || !is_numeric(call.at(1)))
      throw Refusal{"whether a list contains a value depends on sizes or data", ""};
    const Value same = compared(call, "eq", *item, call.at(1));
    any = any ? call.graph().call("logical_or", {any, same}) : same;
  }
  give_number(call, any);
  return true;
}

}  // namespace

namespace containers {

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
  if (first_is_dict(call)) {
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

}  // namespace containers

namespace {

constexpr Row kRows[] = {
    {.op = "prim::ListConstruct", .script = {make_list}, .passes_grown = true},
    {.op = "prim::TupleConstruct", .script = {make_tuple}, .passes_grown = true},
    {.op = "prim::DictConstruct", .script = {make_dict}, .passes_grown = true},
    {.op = "prim::ListUnpack",
     .script = {unpack},
     .grown_list = grown::unpack,
     .passes_grown = true},
    {.op = "prim::TupleUnpack", .script = {unpack}, .passes_grown = true},
    {.op = "prim::TupleIndex", .script = {get_item}, .passes_grown = true},
    {.op = "prim::TupleSlice", .script = {slice_tuple}, .passes_grown = true},
    {.op = "aten::__getitem__",
     .script = {pieces::get_item, grown::by_data, get_item},
     .grown_list = grown::get_item,
     .script_takes_complex = true,
     .takes_parts = true,
     .passes_grown = true},
    {.op = "aten::_set_item",
     .script = {grown::by_data, set_item},
     .grown_list = grown::set_item,
     .script_takes_complex = true,
     .passes_grown = true},
    {.op = "aten::len",
     .script = {pieces::length, length, texts::length},
     .grown_list = grown::length,
     .script_takes_complex = true,
     .takes_parts = true,
     .passes_grown = true},
    {.op = "aten::pop",
     .script = {grown::by_data, pop},
     .grown_list = grown::pop,
     .script_takes_complex = true,
     .passes_grown = true},
    {.op = "aten::remove", .script = {grown::by_data, remove}, .grown_list = grown::remove},
    {.op = "aten::Delete",
     .script = {grown::by_data, remove},
     .grown_list = grown::remove,
     .passes_grown = true},
    {.op = "aten::clear", .script = {clear}, .grown_list = grown::clear, .passes_grown = true},
    {.op = "aten::__contains__", .script = {contains}, .grown_list = grown::find},
    {.op = "aten::list",
     .script = {containers::copy},
     .grown_list = grown::copy,
     .script_takes_complex = true,
     .passes_grown = true},
    {.op = "aten::Size", .script = {containers::copy}},
    {.op = "aten::dict", .script = {containers::copy, dicts::empty}},
};

}  // namespace

std::span<const Row> container_rows() { return kRows; }

}  // namespace hg::convert
