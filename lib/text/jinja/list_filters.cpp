// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/list_filters.h"

#include <algorithm>

#include "lib/text/jinja/chars.h"
#include "lib/text/jinja/operators.h"
#include "lib/text/jinja/tests.h"
#include "lib/text/unicode.h"

namespace hg::jinja {
namespace {

using Form = Sequence::Kind;

Result<Value> generator(Call& call, std::vector<Value> items) {
  return make_sequence(call.meter(), std::move(items), Form::generator);
}

// The item at a path such as "function.name". Parts that are digits are indices.
Result<Value> item_at(RunState& state, Value value, const Value& path) {
  if (const auto whole = path.integer()) return subscript(state, value, Value::whole(*whole));
  HG_TRY_ASSIGN(const std::string* text, text_argument(path, "attribute"));
  std::string_view rest = *text;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (are_digits(part)) {
      if (part.size() > 9 || part.find_first_not_of("0123456789") != std::string_view::npos)
        return unsupported("the index '", part, "' is not supported");
      HG_TRY_ASSIGN(value, subscript(state, value, Value::whole(std::stoi(std::string(part)))));
    } else {
      HG_TRY_ASSIGN(value, subscript(state, value, Value::text(std::string(part))));
    }
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

// The key by which min, max, sort and unique compare an item.
Result<Value> sort_key(Call& call, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = item;
  if (attribute != nullptr && !attribute->is_none()) {
    if (attribute->is_text() && attribute->as_text()->find(',') != std::string::npos)
      return unsupported("several attributes are not supported");
    HG_TRY_ASSIGN(key, item_at(call.state, item, *attribute));
  }
  if (key.is_safe()) return unsupported("a result of the filter 'safe' can only be printed");
  if (case_sensitive || !key.is_text()) return key;
  HG_TRY(call.meter().grow(key.as_text()->size()));
  return Value::text(lower(*key.as_text()));
}

// Sorts by keys, stable; equal items keep their order also with `reverse`.
Status sort_by(Call& call, std::vector<std::pair<Value, Value>>& items, bool reverse) {
  Status status;
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    if (!status.ok()) return false;
    const Result<bool> is_less =
        reverse ? less(call.meter(), b.first, a.first) : less(call.meter(), a.first, b.first);
    if (!is_less.ok()) status = is_less.status();
    return is_less.ok() && *is_less;
  });
  return status;
}

bool flag_of(const Value* value) { return value != nullptr && is_true(*value); }

Result<Value> sort(Call& call) {
  HG_TRY_ASSIGN(const auto given,
                call.take({"value", "reverse", "case_sensitive", "attribute"}, 1));
  HG_TRY_ASSIGN(const std::vector<Value> list, items_of(call.meter(), *given[0]));
  std::vector<std::pair<Value, Value>> items;
  for (const Value& item : list) {
    HG_TRY_ASSIGN(Value key, sort_key(call, item, given[3], flag_of(given[2])));
    items.emplace_back(std::move(key), item);
  }
  HG_TRY(sort_by(call, items, flag_of(given[1])));
  std::vector<Value> sorted;
  for (auto& [key, item] : items) sorted.push_back(std::move(item));
  return make_sequence(call.meter(), std::move(sorted));
}

Result<Value> dict_sort(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "case_sensitive", "by", "reverse"}, 1));
  const Dict* dict = given[0]->as_dict();
  if (dict == nullptr) return invalid_argument("it needs a dict, got ", type_name(*given[0]));
  bool by_value = false;
  if (given[2] != nullptr) {
    HG_TRY_ASSIGN(const std::string* by, text_argument(*given[2], "by"));
    if (*by != "key" && *by != "value") return invalid_argument("'by' is '", *by, "'");
    by_value = *by == "value";
  }
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, value] : dict->items) {
    HG_TRY_ASSIGN(Value pair, make_sequence(call.meter(), {key, value}, Form::tuple));
    HG_TRY_ASSIGN(Value by, sort_key(call, by_value ? value : key, nullptr, flag_of(given[1])));
    items.emplace_back(std::move(by), std::move(pair));
  }
  HG_TRY(sort_by(call, items, flag_of(given[3])));
  std::vector<Value> sorted;
  for (auto& [key, item] : items) sorted.push_back(std::move(item));
  return make_sequence(call.meter(), std::move(sorted));
}

Result<Value> extreme(Call& call, bool largest) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "case_sensitive", "attribute"}, 1));
  HG_TRY_ASSIGN(const std::vector<Value> list, items_of(call.meter(), *given[0]));
  if (list.empty()) return Value::undefined("an empty list has no largest and no smallest item");
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < list.size(); ++i) {
    HG_TRY_ASSIGN(Value key, sort_key(call, list[i], given[2], flag_of(given[1])));
    if (i > 0) {
      HG_TRY_ASSIGN(const bool is_better, largest ? less(call.meter(), best_key, key)
                                                  : less(call.meter(), key, best_key));
      if (!is_better) continue;
    }
    best = i;
    best_key = std::move(key);
  }
  return list[best];
}

Result<Value> unique(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "case_sensitive", "attribute"}, 1));
  HG_TRY_ASSIGN(const std::vector<Value> list, items_of(call.meter(), *given[0]));
  std::vector<Value> keys, items;
  for (const Value& item : list) {
    HG_TRY_ASSIGN(Value key, sort_key(call, item, given[2], flag_of(given[1])));
    if (!key.is_none() && !key.is_number() && !key.is_text())
      return unsupported("'unique' of ", type_name(key), " is not supported");
    bool is_new = true;
    for (size_t i = 0; i < keys.size() && is_new; ++i) {
      HG_TRY_ASSIGN(const bool same, equal(call.meter(), keys[i], key));
      is_new = !same;
    }
    if (!is_new) continue;
    keys.push_back(std::move(key));
    items.push_back(item);
  }
  return generator(call, std::move(items));
}

Result<Value> sum(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"iterable", "attribute", "start"}, 1));
  HG_TRY_ASSIGN(const std::vector<Value> list, items_of(call.meter(), *given[0]));
  Value total = given[2] == nullptr ? Value::whole(0) : *given[2];
  for (Value item : list) {
    if (given[1] != nullptr && !given[1]->is_none()) {
      HG_TRY_ASSIGN(item, item_at(call.state, item, *given[1]));
    }
    if (!item.integer() || !total.integer())
      return unsupported("'sum' supports integers, got ", type_name(item));
    HG_TRY_ASSIGN(total, binary(call.meter(), "+", total, item));
  }
  return total;
}

Result<Value> length(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  const Value& value = call.in_order[0];
  const auto whole = [](size_t count) { return Value::whole(static_cast<int64_t>(count)); };
  if (value.is_undefined()) return whole(0);
  if (const std::string* text = value.as_text()) {
    HG_TRY(call.meter().spend(text->size() / 256));
    return whole(count_chars(*text));
  }
  if (const Dict* dict = value.as_dict()) return whole(dict->items.size());
  const Sequence* list = value.as_sequence();
  if (list == nullptr || list->kind == Form::generator)
    return invalid_argument(type_name(value), " has no length");
  return whole(list->items.size());
}

Result<Value> first(Call& call) {
  HG_TRY(call.take({"seq"}, 1).status());
  const Value& value = call.in_order[0];
  const Sequence* sequence = value.as_sequence();
  HG_TRY_ASSIGN(const std::vector<Value> items, items_of(call.meter(), value));
  if (sequence != nullptr && items.size() > 1) sequence->read = Sequence::Read::part;
  return items.empty() ? Value::undefined("an empty list has no first item") : items.front();
}

Result<Value> last(Call& call) {
  HG_TRY(call.take({"seq"}, 1).status());
  const Sequence* sequence = call.in_order[0].as_sequence();
  if (sequence != nullptr && sequence->kind == Form::generator)
    return invalid_argument("a generator has no last item");
  HG_TRY_ASSIGN(const std::vector<Value> items, items_of(call.meter(), call.in_order[0]));
  return items.empty() ? Value::undefined("an empty list has no last item") : items.back();
}

Result<Value> reverse(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  const Value& value = call.in_order[0];
  const Sequence* sequence = value.as_sequence();
  HG_TRY_ASSIGN(std::vector<Value> items, items_of(call.meter(), value));
  std::reverse(items.begin(), items.end());
  if (value.is_text()) {
    std::string text;
    for (const Value& item : items) text += *item.as_text();
    return Value::text(std::move(text));
  }
  const bool was_generator = sequence != nullptr && sequence->kind == Form::generator;
  return make_sequence(call.meter(), std::move(items),
                       was_generator ? Form::list : Form::generator);
}

Result<Value> join(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "d", "attribute"}, 1));
  HG_TRY_ASSIGN(const std::vector<Value> items, items_of(call.meter(), *given[0]));
  std::string between, out;
  if (given[1] != nullptr) HG_TRY(append_str(call.meter(), between, *given[1]));
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      HG_TRY(call.meter().grow(between.size()));
      out += between;
    }
    if (given[2] == nullptr || given[2]->is_none()) {
      HG_TRY(append_str(call.meter(), out, items[i]));
    } else {
      HG_TRY_ASSIGN(const Value item, item_at(call.state, items[i], *given[2]));
      HG_TRY(append_str(call.meter(), out, item));
    }
  }
  return Value::text(std::move(out));
}

Result<Value> list(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  HG_TRY_ASSIGN(std::vector<Value> items, items_of(call.meter(), call.in_order[0]));
  return make_sequence(call.meter(), std::move(items));
}

Result<Value> items(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  const Value& value = call.in_order[0];
  std::vector<Value> pairs;
  if (!value.is_undefined()) {
    const Dict* dict = value.as_dict();
    if (dict == nullptr) return invalid_argument("it needs a dict, got ", type_name(value));
    for (const auto& [key, item] : dict->items) {
      HG_TRY_ASSIGN(Value pair, make_sequence(call.meter(), {key, item}, Form::tuple));
      pairs.push_back(std::move(pair));
    }
  }
  return generator(call, std::move(pairs));
}

Result<Value> map(Call& call) {
  if (call.in_order.empty()) return invalid_argument("the value is missing");
  HG_TRY_ASSIGN(const std::vector<Value> list, items_of(call.meter(), call.in_order[0]));
  std::vector<Value> out;
  if (call.in_order.size() == 1 && !call.named.empty()) {
    const Value *path = nullptr, *otherwise = nullptr;
    for (const auto& [name, value] : call.named) {
      if (name != "attribute" && name != "default")
        return invalid_argument("the argument '", name, "' is not supported");
      (name == "attribute" ? path : otherwise) = &value;
    }
    if (path == nullptr) return invalid_argument("the argument 'attribute' is missing");
    for (const Value& item : list) {
      HG_TRY_ASSIGN(Value found, item_at(call.state, item, *path));
      if (found.is_undefined() && otherwise != nullptr && !otherwise->is_none()) found = *otherwise;
      out.push_back(std::move(found));
    }
    return generator(call, std::move(out));
  }
  if (call.in_order.size() < 2) return invalid_argument("it needs a filter or an attribute");
  HG_TRY_ASSIGN(const std::string* name, text_argument(call.in_order[1], "name"));
  const Filter* filter = find_filter(*name);
  if (filter == nullptr) return unsupported("the filter '", *name, "' is not supported");
  for (const Value& item : list) {
    HG_TRY(call.meter().spend(1));
    Call one{call.state, {item}, call.named};
    one.in_order.insert(one.in_order.end(), call.in_order.begin() + 2, call.in_order.end());
    HG_TRY_ASSIGN(Value made, filter->run(one));
    out.push_back(std::move(made));
  }
  return generator(call, std::move(out));
}

// The items for which a test of the item, or of an attribute, returns `wanted`.
Result<Value> choose(Call& call, bool by_attribute, bool wanted) {
  if (call.in_order.empty()) return invalid_argument("the value is missing");
  const size_t test_at = by_attribute ? 2 : 1;
  if (call.in_order.size() < test_at) return invalid_argument("the attribute is missing");
  const Test* test = nullptr;
  if (call.in_order.size() > test_at) {
    HG_TRY_ASSIGN(const std::string* name, text_argument(call.in_order[test_at], "test"));
    test = find_test(*name);
    if (test == nullptr) return unsupported("the test '", *name, "' is not supported");
  } else if (!call.named.empty()) {
    return invalid_argument("the argument '", call.named[0].first, "' is not supported");
  }
  HG_TRY_ASSIGN(const std::vector<Value> list, items_of(call.meter(), call.in_order[0]));
  std::vector<Value> out;
  for (const Value& item : list) {
    HG_TRY(call.meter().spend(1));
    Value value = item;
    if (by_attribute) {
      HG_TRY_ASSIGN(value, item_at(call.state, item, call.in_order[1]));
    }
    bool is = is_true(value);
    if (test != nullptr) {
      Call one{call.state, {value}, call.named};
      one.in_order.insert(one.in_order.end(),
                          call.in_order.begin() + static_cast<std::ptrdiff_t>(test_at) + 1,
                          call.in_order.end());
      HG_TRY_ASSIGN(is, test->run(one));
    }
    if (is == wanted) out.push_back(item);
  }
  return generator(call, std::move(out));
}

constexpr Filter kListFilters[] = {
    {"count", length},
    {"dictsort", dict_sort},
    {"first", first},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"map", map},
    {"max", [](Call& call) { return extreme(call, true); }},
    {"min", [](Call& call) { return extreme(call, false); }},
    {"reject", [](Call& call) { return choose(call, false, false); }},
    {"rejectattr", [](Call& call) { return choose(call, true, false); }},
    {"reverse", reverse},
    {"select", [](Call& call) { return choose(call, false, true); }},
    {"selectattr", [](Call& call) { return choose(call, true, true); }},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const Filter> list_filters() { return kListFilters; }

}  // namespace hg::jinja
