// SPDX-License-Identifier: Apache-2.0
// Filters of single values. Those of lists are in list_filters.cpp.
#include "lib/text/jinja/filters.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "lib/text/jinja/chars.h"
#include "lib/text/jinja/json.h"
#include "lib/text/jinja/list_filters.h"
#include "lib/text/jinja/operators.h"
#include "lib/text/unicode.h"

namespace hg::jinja {
namespace {

// The text of the first argument, as str().
Result<std::string> subject(Call& call) {
  if (call.in_order.empty()) return invalid_argument("the value is missing");
  std::string text;
  HG_TRY(append_str(call.meter(), text, call.in_order[0]));
  HG_TRY(call.meter().grow(3 * text.size()));
  return text;
}

Result<Value> trim(Call& call) {
  HG_TRY_ASSIGN(const std::string text, subject(call));
  HG_TRY_ASSIGN(const auto given, call.take({"value", "chars"}, 1));
  if (given[1] == nullptr || given[1]->is_none())
    return Value::text(std::string(strip_left(strip_right(text))));
  HG_TRY_ASSIGN(const std::string* chars, text_argument(*given[1], "chars"));
  HG_TRY(call.meter().spend(text.size() * (1 + chars->size()) / 64));
  return Value::text(std::string(strip_of(text, *chars, true, true)));
}

template <std::string (*change)(std::string_view)>
Result<Value> change_text(Call& call) {
  HG_TRY(call.take({"s"}, 1).status());
  HG_TRY_ASSIGN(const std::string text, subject(call));
  return Value::text(change(text));
}

// Words begin at the start, after spaces and after opening brackets.
std::string title_of(std::string_view text) {
  std::string out;
  size_t begin = 0;
  const auto push = [&](size_t end) {
    const std::string_view word = text.substr(begin, end - begin);
    if (word.empty()) return;
    size_t first = 0;
    next_char(word, first);
    out += upper(word.substr(0, first)) + lower(word.substr(first));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const char32_t c = next_char(text, at);
    const bool splits =
        is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) !=
                                        std::string_view::npos);
    if (!splits) continue;
    push(here);
    out += text.substr(here, at - here);
    begin = at;
  }
  push(text.size());
  return out;
}

Result<Value> replace_text(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"s", "old", "new", "count"}, 3));
  HG_TRY_ASSIGN(const std::string text, subject(call));
  std::string from, to;
  HG_TRY(append_str(call.meter(), from, *given[1]));
  HG_TRY(append_str(call.meter(), to, *given[2]));
  int64_t most = -1;
  if (given[3] != nullptr && !given[3]->is_none()) {
    HG_TRY_ASSIGN(most, whole_argument(*given[3], "count"));
  }
  HG_TRY_ASSIGN(std::string out, replaced(call.meter(), text, from, to, most));
  return Value::text(std::move(out));
}

Result<Value> indent(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"s", "width", "first", "blank"}, 1));
  HG_TRY_ASSIGN(const std::string* text, text_argument(*given[0], "s"));
  std::string spaces(4, ' ');
  if (given[1] != nullptr) {
    if (const std::string* width = given[1]->as_text()) {
      spaces = *width;
    } else {
      HG_TRY_ASSIGN(const int64_t count, whole_argument(*given[1], "width"));
      HG_TRY(call.meter().grow(static_cast<uint64_t>(std::max<int64_t>(count, 0))));
      spaces.assign(static_cast<size_t>(std::max<int64_t>(count, 0)), ' ');
    }
  }
  const bool first = given[2] != nullptr && is_true(*given[2]);
  const bool blank = given[3] != nullptr && is_true(*given[3]);
  const std::string ended = *text + "\n";
  const std::vector<std::string_view> lines = lines_of(ended);
  HG_TRY(call.meter().grow(ended.size() + lines.size() * spaces.size()));
  std::string out = first ? spaces : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (blank || !lines[i].empty()) out += spaces;
    }
    out += lines[i];
  }
  return Value::text(std::move(out));
}

Result<Value> default_of(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "default_value", "boolean"}, 1));
  const bool by_truth = given[2] != nullptr && is_true(*given[2]);
  if (!given[0]->is_undefined() && (!by_truth || is_true(*given[0]))) return *given[0];
  return given[1] == nullptr ? Value::text("") : *given[1];
}

Result<Value> text_filter(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  return text_of(call.meter(), call.in_order[0]);
}

Result<Value> safe(Call& call) {
  HG_TRY(call.take({"value"}, 1).status());
  HG_TRY_ASSIGN(std::string text, subject(call));
  return Value::text(std::move(text), true);
}

Result<Value> absolute(Call& call) {
  HG_TRY(call.take({"x"}, 1).status());
  const Value& value = call.in_order[0];
  if (const double* real = value.as_real()) return Value::real(std::fabs(*real));
  HG_TRY_ASSIGN(const int64_t whole, whole_argument(value, "x"));
  if (whole == std::numeric_limits<int64_t>::min()) return unsupported("abs exceeds 64 bits");
  return Value::whole(whole < 0 ? -whole : whole);
}

// Parses a number like Python's int() and float(), without underscores.
template <class T>
bool read_number(std::string_view text, T& out) {
  text = strip_left(strip_right(text));
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && error == std::errc() && stop == text.data() + text.size();
}
Status check_number_text(std::string_view text) {
  for (const char c : text)
    if (static_cast<uint8_t>(c) >= 0x80 || c == '_')
      return unsupported("'", text, "' as a number is not supported");
  return {};
}
Result<std::optional<double>> real_of(const std::string& text) {
  HG_TRY(check_number_text(text));
  double real = 0;
  if (read_number(text, real)) {
    if (text.find('(') != std::string::npos) return std::optional<double>();
    return std::optional<double>(real);
  }
  const std::string small = lower(strip_left(strip_right(text)));
  const bool is_number =
      !small.empty() && small.find_first_not_of("0123456789.e+-") == std::string::npos;
  if (is_number && small.find('e') != std::string::npos)
    return unsupported("'", text, "' as a number is not supported");
  return std::optional<double>();
}

Result<Value> whole_of(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "default"}, 1));
  const Value otherwise = given[1] == nullptr ? Value::whole(0) : *given[1];
  const Value& value = *given[0];
  if (const auto whole = value.integer()) return Value::whole(*whole);
  std::optional<double> real;
  if (const double* number = value.as_real()) real = *number;
  if (const std::string* text = value.as_text()) {
    HG_TRY(check_number_text(*text));
    int64_t whole = 0;
    if (read_number(*text, whole)) return Value::whole(whole);
    if (!text->empty() &&
        strip_left(*text).find_first_not_of("+-0123456789 ") == std::string::npos &&
        text->size() > 18)
      return unsupported("'", *text, "' exceeds 64 bits");
    HG_TRY_ASSIGN(real, real_of(*text));
  } else if (value.is_undefined()) {
    return undefined_error(value);
  }
  if (!real) return otherwise;
  if (std::isnan(*real)) return otherwise;
  if (std::isinf(*real)) return otherwise;
  if (std::fabs(*real) >= 9.2e18) return unsupported("the integer exceeds 64 bits");
  return Value::whole(static_cast<int64_t>(*real));
}

Result<Value> real_filter(Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"value", "default"}, 1));
  if (const auto number = given[0]->number()) return Value::real(*number);
  if (given[0]->is_undefined()) return undefined_error(*given[0]);
  if (const std::string* text = given[0]->as_text()) {
    HG_TRY_ASSIGN(const auto real, real_of(*text));
    if (real) return Value::real(*real);
  }
  return given[1] == nullptr ? Value::real(0) : *given[1];
}

Result<Value> to_json(Call& call) {
  HG_TRY_ASSIGN(const auto given,
                call.take({"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1));
  JsonStyle style;
  style.is_ascii = given[1] != nullptr && is_true(*given[1]);
  style.sorts = given[4] != nullptr && is_true(*given[4]);
  if (given[2] != nullptr && !given[2]->is_none()) {
    style.has_indent = true;
    style.item.assign(1, ',');
    if (const std::string* text = given[2]->as_text()) {
      style.indent.assign(text->begin(), text->end());
    } else {
      HG_TRY_ASSIGN(const int64_t width, whole_argument(*given[2], "indent"));
      if (width > 1000) return unsupported("an indent of ", width, " is not supported");
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (given[3] != nullptr && !given[3]->is_none()) {
    const Sequence* pair = given[3]->as_sequence();
    if (pair == nullptr || pair->items.size() != 2)
      return invalid_argument("'separators' must be two texts");
    HG_TRY_ASSIGN(const std::string* item, text_argument(pair->items[0], "separators"));
    HG_TRY_ASSIGN(const std::string* key, text_argument(pair->items[1], "separators"));
    style.item = *item;
    style.key = *key;
  }
  std::string out;
  HG_TRY(append_json(call.meter(), out, *given[0], style));
  return Value::text(std::move(out));
}

constexpr Filter kFilters[] = {
    {"abs", absolute},
    {"capitalize", change_text<capitalized>},
    {"d", default_of},
    {"default", default_of},
    {"float", real_filter},
    {"indent", indent},
    {"int", whole_of},
    {"lower", change_text<lower>},
    {"replace", replace_text},
    {"safe", safe},
    {"string", text_filter},
    {"title", change_text<title_of>},
    {"tojson", to_json},
    {"trim", trim},
    {"upper", change_text<upper>},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  for (const Filter& filter : kFilters)
    if (filter.name == name) return &filter;
  for (const Filter& filter : list_filters())
    if (filter.name == name) return &filter;
  return nullptr;
}

}  // namespace hg::jinja
