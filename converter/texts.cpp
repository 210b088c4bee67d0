// SPDX-License-Identifier: Apache-2.0
// Text of the script: dtype and mode names that are compared, and messages of assertions.
#include <algorithm>
#include <cstdio>

#include "converter/interpreter.h"

namespace hg::convert {
namespace {

bool is_text(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_string(); }

// "{} of {}".format(a, b), as far as messages need it.
bool format(NodeCall& call) {
  const std::string& pattern = call.string_at(0);
  std::string out;
  int next = 1;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '{' && i + 1 < pattern.size() && pattern[i + 1] == '{') {
      out.push_back('{');
      ++i;
    } else if (c == '}' && i + 1 < pattern.size() && pattern[i + 1] == '}') {
      out.push_back('}');
      ++i;
    } else if (c == '{') {
      const size_t end = pattern.find('}', i);
      if (end == std::string::npos) break;
      if (next < call.argument_count()) out.append(describe(call.argument(next++)));
      i = end;
    } else {
      out.push_back(c);
    }
  }
  call.give(Item(std::move(out)));
  return true;
}

bool percent_format(NodeCall& call) {
  const std::string& pattern = call.string_at(0);
  std::vector<Item> values;
  for (int i = 1; i < call.argument_count(); ++i) {
    if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&call.argument(i).value))
      values.insert(values.end(), (*tuple)->items.begin(), (*tuple)->items.end());
    else
      values.push_back(call.argument(i));
  }
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      out.push_back(pattern[i]);
    } else if (pattern[++i] == '%') {
      out.push_back('%');
    } else {
      while (i < pattern.size() && !std::isalpha(static_cast<unsigned char>(pattern[i]))) ++i;
      if (next < values.size()) out.append(describe(values[next++]));
    }
  }
  call.give(Item(std::move(out)));
  return true;
}

bool to_text(NodeCall& call) {
  call.give(Item(describe(call.at(0))));
  return true;
}

bool join(NodeCall& call) {
  std::string out;
  bool first = true;
  for (const Item& item : call.list_at(1)->items) {
    if (!first) out.append(call.string_at(0));
    out.append(describe(item));
    first = false;
  }
  call.give(Item(std::move(out)));
  return true;
}

bool split(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string& from = call.string_at(0);
  const bool spaces = call.argument_count() < 2 || call.at(1).is_none();
  const std::string separator = spaces ? " " : call.string_at(1);
  if (separator.empty()) throw Refusal{"split() with an empty separator", ""};
  int64_t most = call.argument_count() > 2 ? call.number_at(2) : -1;
  auto list = std::make_shared<List>();
  size_t at = 0;
  for (;;) {
    const size_t end = most == 0 ? std::string::npos : from.find(separator, at);
    std::string part = from.substr(at, end == std::string::npos ? end : end - at);
    if (!spaces || !part.empty()) {
      list->items.emplace_back(std::move(part));
      --most;
    }
    if (end == std::string::npos) break;
    at = end + separator.size();
  }
  call.give(Item(std::move(list)));
  return true;
}

bool replace(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string out = call.string_at(0);
  const std::string &from = call.string_at(1), &to = call.string_at(2);
  if (from.empty()) throw Refusal{"replace() of an empty text", ""};
  for (size_t at = 0; (at = out.find(from, at)) != std::string::npos; at += to.size())
    out.replace(at, from.size(), to);
  call.give(Item(std::move(out)));
  return true;
}

template <int (*F)(int)>
bool letters(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string out = call.string_at(0);
  for (char& c : out) c = static_cast<char>(F(static_cast<unsigned char>(c)));
  call.give(Item(std::move(out)));
  return true;
}

bool strip(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string out = call.string_at(0);
  const std::string set = call.argument_count() > 1 && call.at(1).is_string()
                              ? call.string_at(1)
                              : std::string(" \n\t\f\v");
  if (call.kind() != "aten::rstrip") out.erase(0, std::min(out.find_first_not_of(set), out.size()));
  if (call.kind() != "aten::lstrip") out.erase(out.find_last_not_of(set) + 1);
  call.give(Item(std::move(out)));
  return true;
}

bool starts_with(NodeCall& call) {
  if (!is_text(call)) return false;
  call.give(Item(call.string_at(0).starts_with(call.string_at(1))));
  return true;
}

bool ends_with(NodeCall& call) {
  if (!is_text(call)) return false;
  call.give(Item(call.string_at(0).ends_with(call.string_at(1))));
  return true;
}

bool find(NodeCall& call) {
  if (!is_text(call)) return false;
  const size_t at = call.string_at(0).find(call.string_at(1));
  call.give(Item(at == std::string::npos ? int64_t{-1} : static_cast<int64_t>(at)));
  return true;
}

bool concat(NodeCall& call) {
  if (call.argument_count() < 2 || !is_text(call) || !call.at(1).is_string()) return false;
  call.give(Item(call.string_at(0) + call.string_at(1)));
  return true;
}

constexpr Builtin kBuiltins[] = {
    {"aten::format", format},
    {"aten::percentFormat", percent_format},
    {"aten::str", to_text},
    {"prim::str", to_text},
    {"aten::join", join},
    {"aten::split", split},
    {"aten::replace", replace},
    {"aten::lower", letters<std::tolower>},
    {"aten::upper", letters<std::toupper>},
    {"aten::strip", strip},
    {"aten::lstrip", strip},
    {"aten::rstrip", strip},
    {"aten::startswith", starts_with},
    {"aten::endswith", ends_with},
    {"aten::find", find},
    {"aten::add", concat},
};

}  // namespace

std::span<const Builtin> text_builtins() { return kBuiltins; }

std::string describe(const Item& item) {
  const auto all = [](const std::vector<Item>& items, char open, char close) {
    std::string out(1, open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(", ");
      out.append(items[i].is_string() ? text("'", describe(items[i]), "'") : describe(items[i]));
    }
    out.push_back(close);
    return out;
  };
  if (item.is_none()) return "None";
  if (const auto* b = std::get_if<bool>(&item.value)) return *b ? "True" : "False";
  if (const auto* i = std::get_if<Dim>(&item.value)) return text(*i);
  if (const auto* d = std::get_if<double>(&item.value)) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.17g", *d);
    return buffer;
  }
  if (const auto* s = std::get_if<std::string>(&item.value)) return *s;
  if (const auto* l = std::get_if<std::shared_ptr<List>>(&item.value))
    return all((*l)->items, '[', ']');
  if (const auto* t = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    return all((*t)->items, '(', ')');
  if (const auto* d = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    std::string out = "{";
    for (const auto& [key, value] : (*d)->items)
      out.append(out.size() > 1 ? ", " : "")
          .append(describe(key))
          .append(": ")
          .append(describe(value));
    return out + "}";
  }
  if (const auto* o = std::get_if<std::shared_ptr<Object>>(&item.value))
    return text("a ", (*o)->type);
  return "a tensor";
}

}  // namespace hg::convert
