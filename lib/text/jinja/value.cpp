// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/text/jinja/chars.h"

namespace hg::jinja {

namespace {

constexpr uint64_t kMostSteps = 5'000'000;
constexpr uint64_t kMostBytes = uint64_t{128} << 20;

int depth_of(const Value& value) {
  if (const Sequence* sequence = value.as_sequence()) return sequence->depth;
  if (const Dict* dict = value.as_dict()) return dict->depth;
  return 0;
}

Status check_depth(int depth) {
  if (depth > kMostNestedValues)
    return unsupported("lists and dicts are nested more than ", kMostNestedValues, " deep");
  return {};
}

}  // namespace

Status Meter::spend(uint64_t steps) {
  steps_ += steps;
  if (steps_ > kMostSteps)
    return unsupported("the template needs more than ", kMostSteps, " steps");
  return {};
}

Status Meter::grow(uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > kMostBytes || bytes > kMostBytes)
    return unsupported("the template creates more than ", kMostBytes, " bytes of text");
  return spend(bytes / 256);
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "undefined";
  if (value.is_none()) return "none";
  if (value.as_bool() != nullptr) return "a boolean";
  if (value.as_int() != nullptr) return "an integer";
  if (value.as_real() != nullptr) return "a float";
  if (value.is_text()) return "a text";
  if (const Sequence* sequence = value.as_sequence()) {
    switch (sequence->kind) {
      case Sequence::Kind::list:
        return "a list";
      case Sequence::Kind::tuple:
        return "a tuple";
      case Sequence::Kind::range:
        return "a range";
      case Sequence::Kind::generator:
        return "a generator";
      case Sequence::Kind::view:
        return "a view of a dict";
    }
  }
  if (value.as_dict() != nullptr) return "a dict";
  if (value.as_loop() != nullptr) return "a loop";
  if (value.as_namespace() != nullptr) return "a namespace";
  return "a function";
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto number = value.number()) return *number != 0;
  if (const std::string* text = value.as_text()) return !text->empty();
  if (const Sequence* sequence = value.as_sequence())
    return sequence->kind == Sequence::Kind::generator || !sequence->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->items.empty();
  return true;  // also for a loop: its length is at least 1
}

Result<Value> make_sequence(Meter& meter, std::vector<Value> items, Sequence::Kind kind,
                            std::string_view name) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, 1 + depth_of(item));
  HG_TRY(check_depth(depth));
  HG_TRY(meter.grow(sizeof(Sequence) + items.size() * sizeof(Value)));
  auto made = std::make_shared<Sequence>();
  made->items = std::move(items);
  made->kind = kind;
  made->depth = depth;
  made->name = name;
  return Value(Value::Any(std::shared_ptr<const Sequence>(std::move(made))));
}

Result<const Value*> find(Meter& meter, const Dict& dict, const Value& key) {
  HG_TRY(meter.spend(1 + dict.items.size() / 16));
  for (const auto& [name, value] : dict.items) {
    HG_TRY_ASSIGN(const bool is_equal, equal(meter, name, key));
    if (is_equal) return &value;
  }
  return static_cast<const Value*>(nullptr);
}

Result<Value> make_dict(Meter& meter, std::vector<std::pair<Value, Value>> items) {
  HG_TRY(meter.grow(sizeof(Dict) + items.size() * 2 * sizeof(Value)));
  auto made = std::make_shared<Dict>();
  for (auto& [key, value] : items) {
    if (!key.is_none() && !key.is_number() && !key.is_text())
      return unsupported(type_name(key), " as a key of a dict is not supported");
    HG_TRY_ASSIGN(const Value* found, find(meter, *made, key));
    made->depth = std::max(made->depth, 1 + depth_of(value));
    if (found != nullptr)
      *const_cast<Value*>(found) = std::move(value);  // in `made`, which is not shared yet
    else
      made->items.emplace_back(std::move(key), std::move(value));
  }
  HG_TRY(check_depth(made->depth));
  return Value(Value::Any(std::shared_ptr<const Dict>(std::move(made))));
}

namespace {

Result<bool> equal_items(Meter& meter, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    HG_TRY_ASSIGN(const bool same, equal(meter, a[i], b[i]));
    if (!same) return false;
  }
  return true;
}

// Exact, as in Python: doubles and integers are not rounded to each other's type.
int compare_numbers(const Value& a, const Value& b) {
  if (a.as_real() == nullptr && b.as_real() == nullptr) {
    const int64_t x = *a.integer(), y = *b.integer();
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const auto x = static_cast<long double>(a.as_real() ? *a.as_real() : 0) +
                 static_cast<long double>(a.as_real() ? 0 : *a.integer());
  const auto y = static_cast<long double>(b.as_real() ? *b.as_real() : 0) +
                 static_cast<long double>(b.as_real() ? 0 : *b.integer());
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;  // 2: not a number
}

}  // namespace

Result<bool> equal(Meter& meter, const Value& a, const Value& b) {
  HG_TRY(meter.spend(1));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  const std::string *text_a = a.as_text(), *text_b = b.as_text();
  if (text_a != nullptr && text_b != nullptr) {
    HG_TRY(meter.spend(std::min(text_a->size(), text_b->size()) / 256));
    return *text_a == *text_b;
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  const Sequence *list_a = a.as_sequence(), *list_b = b.as_sequence();
  if (list_a != nullptr && list_b != nullptr) {
    using Kind = Sequence::Kind;
    if (list_a == list_b) return true;
    for (const Sequence* list : {list_a, list_b})
      if (list->kind != Kind::list && list->kind != Kind::tuple)
        return unsupported("== of ", type_name(a), " and ", type_name(b), " is not supported");
    if (list_a->kind != list_b->kind) return false;
    return equal_items(meter, list_a->items, list_b->items);
  }
  const Dict *dict_a = a.as_dict(), *dict_b = b.as_dict();
  if (dict_a != nullptr && dict_b != nullptr) {
    if (dict_a == dict_b) return true;
    if (dict_a->items.size() != dict_b->items.size()) return false;
    for (const auto& [key, value] : dict_a->items) {
      HG_TRY_ASSIGN(const Value* other, find(meter, *dict_b, key));
      if (other == nullptr) return false;
      HG_TRY_ASSIGN(const bool same, equal(meter, value, *other));
      if (!same) return false;
    }
    return true;
  }
  if (a.as_loop() != nullptr || a.as_function() != nullptr || a.as_namespace() != nullptr)
    return unsupported("== of ", type_name(a), " is not supported");
  if (b.as_loop() != nullptr || b.as_function() != nullptr || b.as_namespace() != nullptr)
    return unsupported("== of ", type_name(b), " is not supported");
  return false;
}

Result<bool> less(Meter& meter, const Value& a, const Value& b) {
  HG_TRY(meter.spend(1));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  const std::string *text_a = a.as_text(), *text_b = b.as_text();
  if (text_a != nullptr && text_b != nullptr) {
    HG_TRY(meter.spend(std::min(text_a->size(), text_b->size()) / 256));
    return *text_a < *text_b;  // byte order in UTF-8 equals character order
  }
  return invalid_argument(type_name(a), " and ", type_name(b), " cannot be ordered");
}

std::string repr_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that parse back to the number, formatted as in Python.
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end), sign;
  if (text[0] == '-') sign = "-", text.erase(0, 1);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  std::string digits = text.substr(0, e);
  std::erase(digits, '.');
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string number = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (number.size() < 2 ? "0" : "") + number;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto before = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= before)
    return sign + digits + std::string(before - digits.size(), '0') + ".0";
  return sign + digits.substr(0, before) + "." + digits.substr(before);
}

namespace {

Status append(Meter& meter, std::string& out, std::string_view part) {
  HG_TRY(meter.grow(part.size()));
  out += part;
  return {};
}

Status append_items(Meter& meter, std::string& out, const Sequence& sequence) {
  const bool is_tuple = sequence.kind == Sequence::Kind::tuple;
  HG_TRY(append(meter, out, is_tuple ? "(" : "["));
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) HG_TRY(append(meter, out, ", "));
    HG_TRY(append_repr(meter, out, sequence.items[i]));
  }
  if (is_tuple && sequence.items.size() == 1) HG_TRY(append(meter, out, ","));
  return append(meter, out, is_tuple ? ")" : "]");
}

}  // namespace

Status append_repr(Meter& meter, std::string& out, const Value& value) {
  HG_TRY(meter.spend(1));
  if (value.is_safe()) return unsupported("a result of the filter 'safe' can only be printed");
  if (const std::string* text = value.as_text()) return append(meter, out, repr_of(*text));
  // Python's name of jinja2's type for undefined values.
  if (value.is_undefined()) return append(meter, out, "Undefined");
  if (value.is_none()) return append(meter, out, "None");
  if (const bool* flag = value.as_bool()) return append(meter, out, *flag ? "True" : "False");
  if (const int64_t* whole = value.as_int()) return append(meter, out, std::to_string(*whole));
  if (const double* real = value.as_real()) return append(meter, out, repr_of(*real));
  if (const Sequence* sequence = value.as_sequence()) {
    switch (sequence->kind) {
      case Sequence::Kind::list:
      case Sequence::Kind::tuple:
        return append_items(meter, out, *sequence);
      case Sequence::Kind::view:
        HG_TRY(append(meter, out, sequence->name));
        HG_TRY(append(meter, out, "("));
        HG_TRY(append_items(meter, out, *sequence));
        return append(meter, out, ")");
      default:
        break;
    }
  }
  if (const Dict* dict = value.as_dict()) {
    HG_TRY(append(meter, out, "{"));
    for (size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) HG_TRY(append(meter, out, ", "));
      HG_TRY(append_repr(meter, out, dict->items[i].first));
      HG_TRY(append(meter, out, ": "));
      HG_TRY(append_repr(meter, out, dict->items[i].second));
    }
    return append(meter, out, "}");
  }
  return unsupported(type_name(value), " cannot be printed");
}

Status append_str(Meter& meter, std::string& out, const Value& value) {
  if (const std::string* text = value.as_text()) return append(meter, out, *text);
  if (value.is_undefined()) return {};
  return append_repr(meter, out, value);
}

Result<Value> text_of(Meter& meter, const Value& value) {
  if (value.is_text()) return value;
  std::string text;
  HG_TRY(append_str(meter, text, value));
  return Value::text(std::move(text));
}

Result<std::vector<Value>> items_of(Meter& meter, const Value& value) {
  if (value.is_undefined()) return std::vector<Value>();
  std::vector<Value> items;
  if (const Sequence* sequence = value.as_sequence()) {
    HG_TRY(meter.grow(sequence->items.size() * sizeof(Value)));
    if (sequence->kind == Sequence::Kind::generator) {
      if (sequence->read == Sequence::Read::part)
        return unsupported("a generator is read again after a part of it was read");
      if (sequence->read == Sequence::Read::all) return std::vector<Value>();
      sequence->read = Sequence::Read::all;
    }
    return sequence->items;
  }
  if (const Dict* dict = value.as_dict()) {
    HG_TRY(meter.grow(dict->items.size() * sizeof(Value)));
    for (const auto& [key, unused] : dict->items) items.push_back(key);
    return items;
  }
  if (const std::string* text = value.as_text()) {
    HG_TRY(meter.grow(text->size() * (sizeof(Value) + 32)));
    for (const std::string_view c : characters(*text)) items.push_back(Value::text(std::string(c)));
    return items;
  }
  return invalid_argument(type_name(value), " has no items to loop over");
}

}  // namespace hg::jinja
