// SPDX-License-Identifier: Apache-2.0
// Text built from values: names for comparisons, and messages. Text that contains numbers that
// depend on sizes or data is unknown: messages may use it, and every other use is rejected.
#include "converter/containers/texts.h"

#include <climits>
#include <cmath>
#include <cstdio>

#include "converter/containers/container_ops.h"
#include "converter/memory/item_tree.h"
#include "converter/script/numbers.h"

namespace hg::convert {

bool give_text(NodeCall& call, std::optional<std::string> out) {
  call.give(out ? Item(*std::move(out))
                : Item(std::make_shared<Object>(Object{std::string(kUnknownText), "", {}})));
  return true;
}

namespace {

// Returns the text of a value as libtorch prints it, which sometimes differs from Python; nothing
// if it depends on sizes or data.
std::optional<std::string> printed(const Item& item);

std::optional<std::string> printed(const std::vector<Item>& items, std::string_view open,
                                   std::string_view close) {
  std::string out(open);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto each = printed(items[i]);
    if (!each) return std::nullopt;
    out.append(i > 0 ? ", " : "").append(*each);
  }
  return out.append(close);
}

std::string printed(double x) {
  char buffer[40];
  const int kind = std::fpclassify(x);
  const bool whole =
      (kind == FP_NORMAL || kind == FP_ZERO) && std::fabs(x) < 1e10 && std::trunc(x) == x;
  std::snprintf(buffer, sizeof buffer, whole ? "%.0f." : "%.17g", x + 0.0);  // avoids -0
  return buffer;
}

std::optional<std::string> printed(const Item& item) {
  if (item.is_none()) return "None";
  if (const auto* b = std::get_if<bool>(&item.value)) return *b ? "True" : "False";
  if (const auto* i = std::get_if<Dim>(&item.value))
    return i->is_constant() ? std::optional(std::to_string(i->constant())) : std::nullopt;
  if (const auto* d = std::get_if<double>(&item.value)) return printed(*d);
  if (const auto* s = std::get_if<std::string>(&item.value)) return *s;
  if (const auto* l = std::get_if<std::shared_ptr<List>>(&item.value))
    return (*l)->grown ? std::nullopt : printed((*l)->items, "[", "]");
  if (const auto* t = std::get_if<std::shared_ptr<Tuple>>(&item.value))
    return printed((*t)->items, "(", (*t)->items.size() == 1 ? ",)" : ")");
  return std::nullopt;
}

// "{} of {}".format(a, b): libtorch supports no other braces and leaves them unchanged.
bool format(NodeCall& call) {
  if (call.argument_count() == 0 || !call.at(0).is_string()) return give_text(call, std::nullopt);
  const std::string& pattern = call.string_at(0);
  std::string out;
  size_t begin = 0;
  bool known = true;
  for (int next = 1;; ++next) {
    const size_t at = pattern.find("{}", begin);
    out.append(pattern, begin, at == std::string::npos ? at : at - begin);
    if (at == std::string::npos) break;
    if (next >= call.argument_count())
      throw Refusal{str_cat("too few values for the text '", pattern, "'"), ""};
    const auto value = printed(call.argument(next));
    known &= value.has_value();
    out.append(value.value_or(""));
    begin = at + 2;
  }
  return give_text(call, known ? std::optional(out) : std::nullopt);
}

// Formats one value of "%d of %s" % (a, b).
std::optional<std::string> formatted(char key, const Item& item) {
  if (key == 's') return printed(item);
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
  std::string out;
  size_t next = 0;
  bool known = true;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out.push_back(pattern[i]);
      continue;
    }
    if (++i == pattern.size()) throw Refusal{str_cat("the text '", pattern, "' ends in a %"), ""};
    if (pattern[i] == '%') {
      out.push_back('%');
      continue;
    }
    if (std::string_view("diefEFcs").find(pattern[i]) == std::string_view::npos)
      throw Refusal{str_cat("the text '", pattern, "' has a % that libtorch does not know"), ""};
    if (next >= values.size())
      throw Refusal{str_cat("too few values for the text '", pattern, "'"), ""};
    const auto value = formatted(pattern[i], values[next++]);
    known &= value.has_value();
    out.append(value.value_or(""));
  }
  if (next < values.size())
    throw Refusal{str_cat("too many values for the text '", pattern, "'"), ""};
  return give_text(call, known ? std::optional(out) : std::nullopt);
}

bool to_text(NodeCall& call) { return give_text(call, printed(call.at(0))); }

}  // namespace

namespace texts {

bool join_two(NodeCall& call) {
  if (call.argument_count() < 2) return false;
  const Item &a = call.at(0), &b = call.at(1);
  if (is_unknown_text(a) || is_unknown_text(b)) return give_text(call, std::nullopt);
  if (!a.is_string() || !b.is_string()) return false;
  return give_text(call, call.string_at(0) + call.string_at(1));
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
