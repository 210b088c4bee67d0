// SPDX-License-Identifier: Apache-2.0
// Text built from values: names for comparisons, and messages. Text that contains numbers that
// depend on sizes or data is unknown: messages may use it, and the graph computes its length. Every
// other use is rejected.
#include "converter/containers/texts.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>

#include "converter/containers/container_ops.h"
#include "converter/memory/item_tree.h"
#include "converter/script/numbers.h"

namespace hg::convert {
namespace {

constexpr char kPart[] = "part";  // the attributes of an unknown text whose length can be computed

// A text as libtorch prints it. `parts` are known texts, and numbers that sizes or data decide.
struct Text {
  std::vector<Item> parts;
  bool has_others = false;  // also holds values whose length is unknown

  void add(std::string part) {
    if (parts.empty() || !parts.back().is_string())
      parts.emplace_back(std::move(part));
    else
      std::get<std::string>(parts.back().value).append(part);
  }
  void add(const Text& text) {
    has_others = has_others || text.has_others;
    for (const Item& part : text.parts)
      if (const auto* known = std::get_if<std::string>(&part.value))
        add(*known);
      else
        parts.push_back(part);
  }
};

// Gives the text; its value is unknown if sizes or data decide a part.
void give(NodeCall& call, const Text& text) {
  const bool is_known = std::all_of(text.parts.begin(), text.parts.end(),
                                    [](const Item& part) { return part.is_string(); });
  if (!text.has_others && is_known) {
    std::string whole;
    for (const Item& part : text.parts) whole += std::get<std::string>(part.value);
    return call.give(Item(std::move(whole)));
  }
  auto unknown = std::make_shared<Object>(Object{std::string(kUnknownText), "", {}});
  if (!text.has_others)
    for (const Item& part : text.parts) unknown->attributes.emplace_back(kPart, part);
  call.give(Item(std::move(unknown)));
}

// Returns the text of a value as libtorch prints it, which sometimes differs from Python.
Text printed(const Item& item);

Text printed(const std::vector<Item>& items, std::string_view open, std::string_view close) {
  Text out;
  out.add(std::string(open));
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(", ");
    out.add(printed(items[i]));
  }
  out.add(std::string(close));
  return out;
}

// Whole numbers that an i64 holds end in a dot.
std::string printed(double x) {
  char buffer[40];
  const bool whole = std::fabs(x) <= kFirstBeyondI64 && x != kFirstBeyondI64 && std::trunc(x) == x;
  std::snprintf(buffer, sizeof buffer, whole ? "%.0f." : "%.17g", x + 0.0);  // avoids -0
  return buffer;
}

bool is_number_of_data(const Item& item) {
  const auto* tensor = std::get_if<TensorRef>(&item.value);
  return tensor != nullptr && (*tensor)->is_number() && !(*tensor)->is_poisoned() &&
         !(*tensor)->is_complex();
}

Text printed(const Item& item) {
  Text out;
  if (item.is_none()) {
    out.add("None");
  } else if (const auto* b = std::get_if<bool>(&item.value)) {
    out.add(*b ? "True" : "False");
  } else if (const auto* i = std::get_if<Dim>(&item.value)) {
    if (i->is_constant())
      out.add(std::to_string(i->constant()));
    else
      out.parts.push_back(item);
  } else if (const auto* d = std::get_if<double>(&item.value)) {
    out.add(printed(*d));
  } else if (const auto* s = std::get_if<std::string>(&item.value)) {
    out.add(*s);
  } else if (const auto* l = std::get_if<std::shared_ptr<List>>(&item.value);
             l && !(*l)->grown && !(*l)->pieces) {
    return printed((*l)->items, "[", "]");
  } else if (const auto* t = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    return printed((*t)->items, "(", (*t)->items.size() == 1 ? ",)" : ")");
  } else if (is_number_of_data(item)) {
    out.parts.push_back(item);
  } else if (is_unknown_text(item)) {
    const Object& unknown = *std::get<std::shared_ptr<Object>>(item.value);
    for (const auto& [name, part] : unknown.attributes) out.parts.push_back(part);
    out.has_others = unknown.attributes.empty();
  } else {
    out.has_others = true;
  }
  return out;
}

// "{} of {}".format(a, b): libtorch supports no other braces and leaves them unchanged.
bool format(NodeCall& call) {
  if (call.argument_count() == 0 || !call.at(0).is_string()) return give_text(call, std::nullopt);
  const std::string& pattern = call.string_at(0);
  Text out;
  size_t begin = 0;
  for (int next = 1;; ++next) {
    const size_t at = pattern.find("{}", begin);
    out.add(pattern.substr(begin, at == std::string::npos ? at : at - begin));
    if (at == std::string::npos) break;
    if (next >= call.argument_count())
      throw Refusal{str_cat("too few values for the text '", pattern, "'"), ""};
    out.add(printed(call.argument(next)));
    begin = at + 2;
  }
  give(call, out);
  return true;
}

bool is_int_number(const Item& item) {
  const auto scalar = scalar_of(item);
  if (scalar) return scalar->kind == Scalar::Kind::integer;
  if (!is_number_of_data(item)) return false;
  const DType dtype = std::get<TensorRef>(item.value)->number_dtype();
  return !is_float(dtype) && dtype != boolean;
}

// Formats one value of "%d of %s" % (a, b); returns nothing if sizes or data decide the text.
std::optional<std::string> formatted(char key, const Item& item) {
  const auto scalar = scalar_of(item);
  const bool letter = key == 'c' && item.is_string();
  if (!scalar && !letter && !item.is_tensor())
    throw Refusal{str_cat("%", std::string(1, key), " of ", describe(item)), ""};
  if (letter) return std::get<std::string>(item.value);
  if (!scalar || !scalar->is_constant()) return std::nullopt;
  const double real = scalar->as_double();
  char buffer[400];
  switch (key) {
    case 'd':
    case 'i':
      if (scalar->is_integral()) return std::to_string(scalar->top.constant());
      if (!(std::fabs(real) < INT_MAX)) break;
      return std::to_string(static_cast<int>(real));
    case 'e':
    case 'E':
    case 'f':
    case 'F':
      if (scalar->is_integral()) return std::to_string(scalar->top.constant());
      std::snprintf(buffer, sizeof buffer, str_cat("%", std::string(1, key)).c_str(), real);
      return buffer;
    case 'c':
      if (scalar->is_integral()) return std::string(1, static_cast<char>(scalar->top.constant()));
      break;
    default:
      break;
  }
  throw Refusal{str_cat("%", std::string(1, key), " of ", describe(item)), ""};
}

bool percent_format(NodeCall& call) {
  if (call.argument_count() < 2 || !call.at(0).is_string()) return give_text(call, std::nullopt);
  const std::string& pattern = call.string_at(0);
  std::vector<Item> values = {call.argument(1)};
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&call.argument(1).value))
    values = (*tuple)->items;
  Text out;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out.add(std::string(1, pattern[i]));
      continue;
    }
    if (++i == pattern.size()) throw Refusal{str_cat("the text '", pattern, "' ends in a %"), ""};
    if (pattern[i] == '%') {
      out.add("%");
      continue;
    }
    if (std::string_view("diefEFcs").find(pattern[i]) == std::string_view::npos)
      throw Refusal{str_cat("the text '", pattern, "' has a % that libtorch does not know"), ""};
    if (next >= values.size())
      throw Refusal{str_cat("too few values for the text '", pattern, "'"), ""};
    const Item& value = values[next++];
    const bool prints_integer = (pattern[i] == 'd' || pattern[i] == 'i') && is_int_number(value);
    if (pattern[i] == 's' || prints_integer) {
      out.add(printed(value));
    } else if (const auto text = formatted(pattern[i], value)) {
      out.add(*text);
    } else {
      out.has_others = true;
    }
  }
  if (next < values.size())
    throw Refusal{str_cat("too many values for the text '", pattern, "'"), ""};
  give(call, out);
  return true;
}

bool to_text(NodeCall& call) {
  give(call, printed(call.at(0)));
  return true;
}

}  // namespace

bool give_text(NodeCall& call, std::optional<std::string> out) {
  Text text;
  text.has_others = !out;
  if (out) text.add(*std::move(out));
  give(call, text);
  return true;
}

namespace texts {

bool length(NodeCall& call) {
  if (!is_unknown_text(call.at(0))) return false;
  const Object& text = *std::get<std::shared_ptr<Object>>(call.at(0).value);
  if (text.attributes.empty())
    throw Refusal{
        "the length of a text that sizes or data decide is known only if it is made of "
        "known texts and numbers",
        ""};
  Graph& g = call.graph();
  Value length = g.scalar(int64_t{0}, i64);
  for (const auto& [name, part] : text.attributes) {
    const auto* known = std::get_if<std::string>(&part.value);
    const Value more = known ? g.scalar(static_cast<int64_t>(known->size()), i64)
                             : length_of_number(call.memory(), part);
    length = g.call("add", {length, more});
  }
  call.memory().set_nonnegative(length);
  give_number(call, length);
  return true;
}

bool join_two(NodeCall& call) {
  if (call.argument_count() < 2) return false;
  const Item &a = call.at(0), &b = call.at(1);
  const auto is_text = [](const Item& item) { return item.is_string() || is_unknown_text(item); };
  if (!is_text(a) || !is_text(b)) return false;
  Text both = printed(a);
  both.add(printed(b));
  give(call, both);
  return true;
}

}  // namespace texts

namespace {

constexpr Row kRows[] = {
    {.op = "aten::format", .script = {format}},
    {.op = "aten::percentFormat", .script = {percent_format}},
    {.op = "aten::str", .script = {to_text}},
    {.op = "prim::str", .script = {to_text}},
};

}  // namespace

std::span<const Row> text_rows() { return kRows; }

}  // namespace hg::convert
