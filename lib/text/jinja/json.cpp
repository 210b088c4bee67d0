// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/json.h"

#include <algorithm>
#include <cmath>

#include "lib/text/jinja/chars.h"
#include "lib/text/unicode.h"

namespace hg::jinja {
namespace {

Result<Value> from(Meter& meter, const nlohmann::ordered_json& json, int depth) {
  if (depth > kMostNestedValues)
    return invalid_argument("the JSON is nested more than ", kMostNestedValues, " deep");
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return Value::none();
    case nlohmann::json::value_t::boolean:
      return Value::flag(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::whole(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{0x7fffffffffffffff})
        return invalid_argument("the number ", json.get<uint64_t>(), " exceeds 2^63 - 1");
      return Value::whole(static_cast<int64_t>(json.get<uint64_t>()));
    case nlohmann::json::value_t::number_float:
      return Value::real(json.get<double>());
    case nlohmann::json::value_t::string:
      return Value::text(valid_utf8(json.get_ref<const std::string&>()));
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      for (const auto& one : json) {
        HG_TRY_ASSIGN(Value item, from(meter, one, depth + 1));
        items.push_back(std::move(item));
      }
      return make_sequence(meter, std::move(items));
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (const auto& [key, one] : json.items()) {
        HG_TRY_ASSIGN(Value item, from(meter, one, depth + 1));
        items.emplace_back(Value::text(valid_utf8(key)), std::move(item));
      }
      return make_dict(meter, std::move(items));
    }
    default:
      return invalid_argument("the JSON holds a value of an unknown type");
  }
}

// Escapes characters outside ASCII as \uXXXX, in UTF-16.
std::string ascii(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  const auto escape = [&](char32_t unit) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[unit >> shift & 15];
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_char(text, at);
    if (c < 0x7f) {
      out += static_cast<char>(c);
    } else if (c < 0x10000) {
      escape(c);
    } else {
      escape(0xd800 + ((c - 0x10000) >> 10));
      escape(0xdc00 + ((c - 0x10000) & 0x3ff));
    }
  }
  return out;
}

Result<std::string> json_key(const Value& key) {
  if (const std::string* text = key.as_text()) return *text;
  if (key.is_none()) return std::string("null");
  if (const bool* flag = key.as_bool()) return std::string(*flag ? "true" : "false");
  if (const int64_t* whole = key.as_int()) return std::to_string(*whole);
  if (const double* real = key.as_real(); real != nullptr && std::isfinite(*real))
    return repr_of(*real);
  return unsupported(type_name(key), " as a key of JSON is not supported");
}

}  // namespace

Result<Value> value_from(const nlohmann::ordered_json& json) {
  Meter meter;
  return from(meter, json, 0);
}

Status append_json(Meter& meter, std::string& out, const Value& value, const JsonStyle& style,
                   int level) {
  HG_TRY(meter.spend(1));
  const size_t before = out.size();
  const auto write_text = [&](std::string_view text) {
    const std::string quoted = json_quoted(text);
    out += style.is_ascii ? ascii(quoted) : quoted;
  };
  const auto begin_line = [&](int deep) {
    if (!style.has_indent) return;
    out += '\n';
    for (int i = 0; i < deep; ++i) out += style.indent;
  };
  if (value.is_none()) {
    out += "null";
  } else if (const bool* flag = value.as_bool()) {
    out += *flag ? "true" : "false";
  } else if (const int64_t* whole = value.as_int()) {
    out += std::to_string(*whole);
  } else if (const double* real = value.as_real()) {
    out += std::isnan(*real)   ? "NaN"
           : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity")
                               : repr_of(*real);
  } else if (const std::string* text = value.as_text()) {
    write_text(*text);
  } else if (const Sequence* list = value.as_sequence();
             list != nullptr &&
             (list->kind == Sequence::Kind::list || list->kind == Sequence::Kind::tuple)) {
    out += '[';
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out += style.item;
      begin_line(level + 1);
      HG_TRY(append_json(meter, out, list->items[i], style, level + 1));
    }
    if (!list->items.empty()) begin_line(level);
    out += ']';
  } else if (const Dict* dict = value.as_dict()) {
    std::vector<std::pair<std::string, const Value*>> items;
    bool has_others = false;
    for (const auto& [key, item] : dict->items) {
      has_others |= !key.is_text();
      HG_TRY_ASSIGN(std::string name, json_key(key));
      items.emplace_back(std::move(name), &item);
    }
    if (style.sorts) {
      if (has_others) return unsupported("sort_keys of keys that are not texts is not supported");
      std::stable_sort(items.begin(), items.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    out += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style.item;
      begin_line(level + 1);
      write_text(items[i].first);
      out += style.key;
      HG_TRY(append_json(meter, out, *items[i].second, style, level + 1));
    }
    if (!items.empty()) begin_line(level);
    out += '}';
  } else {
    return invalid_argument(type_name(value), " cannot be written as JSON");
  }
  // Nested parts are counted at each level, so the cost is at most the depth times the size.
  return meter.grow(out.size() - before);
}

}  // namespace hg::jinja
