// SPDX-License-Identifier: Apache-2.0
// Attributes of values: items of dicts and namespaces, properties of loops, and methods of strings
// and dicts. Attributes that Python's types have and this file lacks fail by name, because they
// must not count as undefined.
#include <algorithm>

#include "lib/text/jinja/chars.h"
#include "lib/text/jinja/operators.h"
#include "lib/text/unicode.h"

namespace hg::jinja {
namespace {

Result<Value> list_of(Meter& meter, const std::vector<std::string_view>& texts) {
  std::vector<Value> items;
  uint64_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size() + sizeof(Value);
  HG_TRY(meter.grow(bytes));
  for (const std::string_view text : texts) items.push_back(Value::text(std::string(text)));
  return make_sequence(meter, std::move(items));
}

// The strings of an argument that is a string or a tuple of strings.
Result<std::vector<std::string>> texts_of(const Value& value, std::string_view name) {
  std::vector<std::string> texts;
  const Sequence* sequence = value.as_sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::tuple) {
    for (const Value& item : sequence->items) {
      HG_TRY_ASSIGN(const std::string* text, text_argument(item, name));
      texts.push_back(*text);
    }
    return texts;
  }
  HG_TRY_ASSIGN(const std::string* text, text_argument(value, name));
  return std::vector<std::string>{*text};
}

Result<Value> strip(const std::string& text, Call& call, bool left, bool right) {
  HG_TRY_ASSIGN(const auto given, call.take({"chars"}, 0));
  HG_TRY(call.meter().grow(text.size()));
  if (given[0] == nullptr || given[0]->is_none()) {
    std::string_view out = text;
    if (left) out = strip_left(out);
    if (right) out = strip_right(out);
    return Value::text(std::string(out));
  }
  HG_TRY_ASSIGN(const std::string* chars, text_argument(*given[0], "chars"));
  HG_TRY(call.meter().spend(text.size() * (1 + chars->size()) / 64));
  return Value::text(std::string(strip_of(text, *chars, left, right)));
}

Result<Value> begins(const std::string& text, Call& call, bool at_end) {
  HG_TRY_ASSIGN(const auto given, call.take({"prefix"}, 1));
  HG_TRY_ASSIGN(const std::vector<std::string> parts, texts_of(*given[0], "prefix"));
  for (const std::string& part : parts)
    if (at_end ? text.ends_with(part) : text.starts_with(part)) return Value::flag(true);
  return Value::flag(false);
}

Result<Value> split(const std::string& text, Call& call, bool from_right) {
  HG_TRY_ASSIGN(const auto given, call.take({"sep", "maxsplit"}, 0));
  int64_t most = -1;
  if (given[1] != nullptr) {
    HG_TRY_ASSIGN(most, whole_argument(*given[1], "maxsplit"));
  }
  std::vector<std::string_view> parts;
  if (given[0] == nullptr || given[0]->is_none()) {
    if (most >= 0) return unsupported("split() with maxsplit needs a separator");
    return list_of(call.meter(), words_of(text));
  }
  HG_TRY_ASSIGN(const std::string* sep, text_argument(*given[0], "sep"));
  if (sep->empty()) return invalid_argument("the separator of split() is empty");
  HG_TRY(call.meter().spend(text.size() * (1 + sep->size() / 16) / 64));
  std::string_view rest = text;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t at = from_right ? rest.rfind(*sep) : rest.find(*sep);
    if (at == std::string_view::npos) break;
    if (from_right) {
      parts.push_back(rest.substr(at + sep->size()));
      rest = rest.substr(0, at);
    } else {
      parts.push_back(rest.substr(0, at));
      rest = rest.substr(at + sep->size());
    }
  }
  parts.push_back(rest);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return list_of(call.meter(), parts);
}

Result<Value> replace(const std::string& text, Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"old", "new", "count"}, 2));
  HG_TRY_ASSIGN(const std::string* from, text_argument(*given[0], "old"));
  HG_TRY_ASSIGN(const std::string* to, text_argument(*given[1], "new"));
  int64_t most = -1;
  if (given[2] != nullptr) {
    HG_TRY_ASSIGN(most, whole_argument(*given[2], "count"));
  }
  HG_TRY_ASSIGN(std::string out, replaced(call.meter(), text, *from, *to, most));
  return Value::text(std::move(out));
}

Result<Value> find_in(const std::string& text, Call& call, bool from_right) {
  HG_TRY_ASSIGN(const auto given, call.take({"sub"}, 1));
  HG_TRY_ASSIGN(const std::string* part, text_argument(*given[0], "sub"));
  HG_TRY(call.meter().spend(text.size() * (1 + part->size() / 16) / 64));
  const size_t at = from_right ? text.rfind(*part) : text.find(*part);
  if (at == std::string::npos) return Value::whole(-1);
  return Value::whole(static_cast<int64_t>(count_chars(std::string_view(text).substr(0, at))));
}

Result<Value> count_in(const std::string& text, Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"sub"}, 1));
  HG_TRY_ASSIGN(const std::string* part, text_argument(*given[0], "sub"));
  HG_TRY(call.meter().spend(text.size() * (1 + part->size() / 16) / 64));
  if (part->empty()) return Value::whole(static_cast<int64_t>(count_chars(text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(*part); at != std::string::npos;
       at = text.find(*part, at + part->size()))
    ++count;
  return Value::whole(count);
}

Result<Value> without(const std::string& text, Call& call, bool at_end) {
  HG_TRY_ASSIGN(const auto given, call.take({"prefix"}, 1));
  HG_TRY_ASSIGN(const std::string* part, text_argument(*given[0], "prefix"));
  HG_TRY(call.meter().grow(text.size()));
  if (at_end ? !text.ends_with(*part) : !text.starts_with(*part)) return Value::text(text);
  return Value::text(at_end ? text.substr(0, text.size() - part->size())
                            : text.substr(part->size()));
}

template <class F>
Result<Value> changed(const std::string& text, Call& call, const F& change) {
  HG_TRY(call.take({}, 0).status());
  HG_TRY(call.meter().grow(3 * text.size()));
  return Value::text(change(text));
}

using TextMethod = Result<Value> (*)(const std::string&, Call&);
constexpr std::pair<std::string_view, TextMethod> kTextMethods[] = {
    {"capitalize", [](const std::string& t, Call& c) { return changed(t, c, capitalized); }},
    {"count", count_in},
    {"endswith", [](const std::string& t, Call& c) { return begins(t, c, true); }},
    {"find", [](const std::string& t, Call& c) { return find_in(t, c, false); }},
    {"isdigit",
     [](const std::string& t, Call& c) -> Result<Value> {
       HG_TRY(c.take({}, 0).status());
       return Value::flag(are_digits(t));
     }},
    {"join",
     [](const std::string& t, Call& c) -> Result<Value> {
       HG_TRY_ASSIGN(const auto given, c.take({"iterable"}, 1));
       HG_TRY_ASSIGN(const std::vector<Value> items, items_of(c.meter(), *given[0]));
       std::string out;
       for (size_t i = 0; i < items.size(); ++i) {
         HG_TRY_ASSIGN(const std::string* item, text_argument(items[i], "iterable"));
         HG_TRY(c.meter().grow(t.size() + item->size()));
         if (i > 0) out += t;
         out += *item;
       }
       return Value::text(std::move(out));
     }},
    {"lower", [](const std::string& t, Call& c) { return changed(t, c, lower); }},
    {"lstrip", [](const std::string& t, Call& c) { return strip(t, c, true, false); }},
    {"removeprefix", [](const std::string& t, Call& c) { return without(t, c, false); }},
    {"removesuffix", [](const std::string& t, Call& c) { return without(t, c, true); }},
    {"replace", replace},
    {"rfind", [](const std::string& t, Call& c) { return find_in(t, c, true); }},
    {"rsplit", [](const std::string& t, Call& c) { return split(t, c, true); }},
    {"rstrip", [](const std::string& t, Call& c) { return strip(t, c, false, true); }},
    {"split", [](const std::string& t, Call& c) { return split(t, c, false); }},
    {"splitlines",
     [](const std::string& t, Call& c) -> Result<Value> {
       HG_TRY(c.take({}, 0).status());
       return list_of(c.meter(), lines_of(t));
     }},
    {"startswith", [](const std::string& t, Call& c) { return begins(t, c, false); }},
    {"strip", [](const std::string& t, Call& c) { return strip(t, c, true, true); }},
    {"title", [](const std::string& t, Call& c) { return changed(t, c, titled); }},
    {"upper", [](const std::string& t, Call& c) { return changed(t, c, upper); }},
};

Result<Value> keys_of(Meter& meter, const Dict& dict, std::string_view name) {
  std::vector<Value> items;
  HG_TRY(meter.grow(dict.items.size() * sizeof(Value) * 3));
  for (const auto& [key, value] : dict.items) {
    if (name == "keys") {
      items.push_back(key);
    } else if (name == "values") {
      items.push_back(value);
    } else {
      HG_TRY_ASSIGN(Value pair, make_sequence(meter, {key, value}, Sequence::Kind::tuple));
      items.push_back(std::move(pair));
    }
  }
  return make_sequence(meter, std::move(items), Sequence::Kind::view,
                       name == "keys"     ? "dict_keys"
                       : name == "values" ? "dict_values"
                                          : "dict_items");
}

Result<Value> get_of(const Dict& dict, Call& call) {
  HG_TRY_ASSIGN(const auto given, call.take({"key", "default"}, 1));
  HG_TRY_ASSIGN(const bool is_key, compare(call.meter(), "in", *given[0],
                                           Value(Value::Any(std::make_shared<const Dict>()))));
  static_cast<void>(is_key);  // fails if it cannot be a key
  HG_TRY_ASSIGN(const Value* found, find(call.meter(), dict, *given[0]));
  if (found != nullptr) return *found;
  return given[1] == nullptr ? Value::none() : *given[1];
}

Value function(std::string name, std::function<Result<Value>(Call&)> call) {
  return Value(
      Value::Any(std::make_shared<const Function>(Function{std::move(name), std::move(call)})));
}

// Other attributes of Python's types. The lists end in a space.
constexpr std::string_view kOtherOfText =
    "casefold center encode expandtabs format format_map index isalnum isalpha isascii isdecimal "
    "isidentifier islower isnumeric isprintable isspace istitle isupper ljust maketrans partition "
    "rindex rjust rpartition swapcase translate zfill ";
constexpr std::string_view kOtherOfDict = "clear copy fromkeys pop popitem setdefault update ";
constexpr std::string_view kOtherOfSequence =
    "append clear copy count extend index insert pop remove reverse sort start stop step close "
    "send "
    "throw isdisjoint mapping ";
constexpr std::string_view kOtherOfNumber =
    "as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag "
    "is_integer numerator real to_bytes ";

bool is_one_of(std::string_view words, std::string_view name) {
  const std::string word = str_cat(name, " ");
  return words.starts_with(word) || words.find(str_cat(" ", word)) != std::string_view::npos;
}

Result<Value> of_loop(Meter& meter, const std::shared_ptr<const Loop>& loop,
                      std::string_view name) {
  HG_TRY(meter.spend(1));
  const auto count = static_cast<int64_t>(loop->items.size());
  const auto at = static_cast<int64_t>(loop->at);
  if (name == "index") return Value::whole(at + 1);
  if (name == "index0") return Value::whole(at);
  if (name == "revindex") return Value::whole(count - at);
  if (name == "revindex0") return Value::whole(count - at - 1);
  if (name == "first") return Value::flag(at == 0);
  if (name == "last") return Value::flag(at + 1 == count);
  if (name == "length") return Value::whole(count);
  if (name == "depth") return Value::whole(1);
  if (name == "depth0") return Value::whole(0);
  if (name == "previtem")
    return at == 0 ? Value::undefined("there is no previous item") : loop->items[loop->at - 1];
  if (name == "nextitem")
    return at + 1 == count ? Value::undefined("there is no next item") : loop->items[loop->at + 1];
  if (name == "cycle")
    return function("cycle", [loop](Call& call) -> Result<Value> {
      if (call.in_order.empty() || !call.named.empty())
        return invalid_argument("cycle() needs values");
      return call.in_order[loop->at % call.in_order.size()];
    });
  return unsupported("the attribute '", name, "' of a loop is not supported");
}

}  // namespace

Result<Value> attribute(RunState& state, const Value& of, std::string_view name) {
  HG_TRY(state.meter.spend(1));
  if (of.is_undefined()) return undefined_error(of);
  const auto not_supported = [&] {
    return unsupported("the attribute '", name, "' of ", type_name(of), " is not supported");
  };
  if (name.starts_with("__") || of.as_function() != nullptr) return not_supported();
  if (Namespace* space = of.as_namespace()) {
    for (const auto& [key, value] : space->items)
      if (key == name) return value;
  } else if (const auto loop = of.share<Loop>()) {
    return of_loop(state.meter, loop, name);
  } else if (const auto dict = of.share<Dict>()) {
    if (name == "items" || name == "keys" || name == "values")
      return function(std::string(name),
                      [dict, name = std::string(name)](Call& call) -> Result<Value> {
                        HG_TRY(call.take({}, 0).status());
                        return keys_of(call.meter(), *dict, name);
                      });
    if (name == "get") return function("get", [dict](Call& call) { return get_of(*dict, call); });
    if (is_one_of(kOtherOfDict, name)) return not_supported();
    HG_TRY_ASSIGN(const Value* found, find(state.meter, *dict, Value::text(std::string(name))));
    if (found != nullptr) return *found;
  } else if (of.is_text()) {
    if (of.is_safe()) return unsupported("a result of the filter 'safe' can only be printed");
    for (const auto& [known, method] : kTextMethods)
      if (known == name)
        return function(std::string(name), [of, method = method](Call& call) -> Result<Value> {
          HG_TRY(call.meter().spend(of.as_text()->size() / 256));
          return method(*of.as_text(), call);
        });
    if (is_one_of(kOtherOfText, name)) return not_supported();
  } else if (of.as_sequence() != nullptr) {
    if (is_one_of(kOtherOfSequence, name)) return not_supported();
  } else if (of.is_number()) {
    if (is_one_of(kOtherOfNumber, name)) return not_supported();
  }
  return Value::undefined(str_cat(type_name(of), " has no attribute '", name, "'"));
}

}  // namespace hg::jinja
