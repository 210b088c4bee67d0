// SPDX-License-Identifier: Apache-2.0
// The methods of str on known text. They match libtorch, which differs from Python: letters are
// bytes, and only ASCII letters have case and class.
#include <algorithm>
#include <array>
#include <cctype>

#include "converter/containers/container_ops.h"
#include "converter/containers/containers.h"
#include "converter/containers/texts.h"
#include "converter/script/numbers.h"

namespace hg::convert {
namespace {

bool is_text(NodeCall& call) { return call.argument_count() > 0 && call.at(0).is_string(); }

void require_ascii(NodeCall& call) {
  const std::string& from = call.string_at(0);
  if (std::any_of(from.begin(), from.end(), [](char c) { return static_cast<signed char>(c) < 0; }))
    throw Refusal{str_cat(op_of(call), "() of a text that is not ASCII"), ""};
}

int as_int(char c) { return static_cast<unsigned char>(c); }
bool is_alpha(char c) { return std::isalpha(as_int(c)) != 0; }
char upper(char c) { return static_cast<char>(std::toupper(as_int(c))); }
char lower(char c) { return static_cast<char>(std::tolower(as_int(c))); }

bool join(NodeCall& call) {
  std::string out;
  bool first = true;
  for (const Item& item : call.list_at(1)->items) {
    if (!item.is_string()) return give_text(call, std::nullopt);
    if (!first) out.append(call.string_at(0));
    out.append(std::get<std::string>(item.value));
    first = false;
  }
  return give_text(call, std::move(out));
}

Item text_list(std::vector<std::string> parts) {
  Items items;
  for (std::string& part : parts) items.emplace_back(std::move(part));
  return list_of(std::move(items));
}

// Returns a separator or search text.
std::string nonempty_at(NodeCall& call, int argument) {
  const std::string& what = call.string_at(argument);
  if (what.empty()) throw Refusal{str_cat(op_of(call), "() with an empty text"), ""};
  return what;
}

bool replace(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string out = call.string_at(0);
  const std::string from = nonempty_at(call, 1), &to = call.string_at(2);
  int64_t most = call.argument_count() > 3 ? call.number_at(3) : -1;
  for (size_t at = 0; most-- != 0 && (at = out.find(from, at)) != std::string::npos;
       at += to.size())
    out.replace(at, from.size(), to);
  call.give(Item(std::move(out)));
  return true;
}

template <char (*F)(char)>
bool letters(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string out = call.string_at(0);
  for (char& c : out) c = F(c);
  return give_text(call, std::move(out));
}
char swapped(char c) { return std::isupper(as_int(c)) != 0 ? lower(c) : upper(c); }

// isdigit() and similar: the text is not empty, and all letters are of the kind.
template <int (*F)(int)>
bool all_are(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string& from = call.string_at(0);
  call.give(Item(!from.empty() &&
                 std::all_of(from.begin(), from.end(), [](char c) { return F(as_int(c)) != 0; })));
  return true;
}

// isupper() and islower(): the text has letters with case, and all of them have this case.
template <int (*F)(int)>
bool has_case(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string& from = call.string_at(0);
  call.give(Item(std::any_of(from.begin(), from.end(), is_alpha) &&
                 std::all_of(from.begin(), from.end(),
                             [](char c) { return !is_alpha(c) || F(as_int(c)) != 0; })));
  return true;
}

bool is_title(NodeCall& call) {
  if (!is_text(call)) return false;
  bool after_letter = false, some = false, all = true;
  for (const char c : call.string_at(0)) {
    all = all && c == (after_letter ? lower(c) : upper(c));
    after_letter = is_alpha(c);
    some = some || after_letter;
  }
  call.give(Item(some && all));
  return true;
}

bool is_identifier(NodeCall& call) {  // without underscores
  if (!is_text(call)) return false;
  const std::string& from = call.string_at(0);
  call.give(Item(
      !from.empty() && std::isdigit(as_int(from[0])) == 0 &&
      std::all_of(from.begin(), from.end(), [](char c) { return std::isalnum(as_int(c)) != 0; })));
  return true;
}

bool is_printable(NodeCall& call) {  // also of the empty text
  if (!is_text(call)) return false;
  const std::string& from = call.string_at(0);
  call.give(Item(std::all_of(from.begin(), from.end(), [](char c) {
    return std::isalnum(as_int(c)) != 0 || std::ispunct(as_int(c)) != 0 || c == ' ';
  })));
  return true;
}

bool capitalize(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string out = call.string_at(0);
  for (size_t i = 0; i < out.size(); ++i) out[i] = i == 0 ? upper(out[i]) : lower(out[i]);
  return give_text(call, std::move(out));
}

bool title(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string out = call.string_at(0);
  bool after_letter = false;
  for (char& c : out) {
    const bool letter = is_alpha(c);
    c = after_letter ? lower(c) : upper(c);
    after_letter = letter;
  }
  return give_text(call, std::move(out));
}

// center(), ljust(), rjust() and zfill().
bool pad(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string_view op = op_of(call);
  const std::string& from = call.string_at(0);
  const std::string fill = op == "zfill"               ? "0"
                           : call.argument_count() > 2 ? call.string_at(2)
                                                       : " ";
  if (fill.size() != 1)
    throw Refusal{str_cat(op, "() with the filling '", fill, "' raises an exception in PyTorch"),
                  ""};
  const auto size = static_cast<int64_t>(from.size()), width = call.number_at(1);
  if (width > (int64_t{1} << 20)) throw Refusal{str_cat(op, "() to a width of ", width), ""};
  const int64_t rest = std::max<int64_t>(width - size, 0);
  // If the rest and the width are odd, the extra space is on the left.
  const int64_t left = op == "ljust"    ? 0
                       : op == "center" ? (width % 2 != 0 ? (rest + 1) / 2 : rest / 2)
                                        : rest;
  return give_text(call, std::string(left, fill[0]) + from + std::string(rest - left, fill[0]));
}

bool expand_tabs(NodeCall& call) {
  if (!is_text(call)) return false;
  const int64_t width = call.argument_count() > 1 ? call.number_at(1) : 8;
  if (width > 1 << 20) throw Refusal{str_cat("expandtabs() to ", width), ""};
  std::string out;
  for (const char c : call.string_at(0)) {
    if (c != '\t') {
      out.push_back(c);
    } else if (width > 0) {
      do out.push_back(' ');
      while (out.size() % static_cast<size_t>(width) != 0);
    }
  }
  return give_text(call, std::move(out));
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

// Returns the part of a text that find() and similar methods search.
std::string part_of(NodeCall& call) {
  const std::string& all = call.string_at(0);
  const auto size = static_cast<int64_t>(all.size());
  const auto bound = [&](int argument, int64_t fallback) {
    return call.argument_count() > argument ? call.number_at(argument) : fallback;
  };
  int64_t start = bound(2, 0), end = bound(3, -1);
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  if (end < 0) end = std::max<int64_t>(end + size + 1, 0);
  if (start > size || end < start)
    throw Refusal{str_cat(op_of(call), "() from ", start, " to ", end, " of a text of ", size), ""};
  return all.substr(static_cast<size_t>(start), static_cast<size_t>(end - start));
}

bool starts_with(NodeCall& call) {
  if (!is_text(call)) return false;
  call.give(Item(part_of(call).starts_with(call.string_at(1))));
  return true;
}

bool ends_with(NodeCall& call) {
  if (!is_text(call)) return false;
  call.give(Item(part_of(call).ends_with(call.string_at(1))));
  return true;
}

bool partition(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string &from = call.string_at(0), what = nonempty_at(call, 1);
  const bool last = op_of(call) == "rpartition";
  const size_t at = last ? from.rfind(what) : from.find(what);
  std::array<std::string, 3> parts;
  if (at == std::string::npos)
    parts[last ? 2 : 0] = from;
  else
    parts = {from.substr(0, at), what, from.substr(at + what.size())};
  call.returns(Items(parts.begin(), parts.end()));
  return true;
}

bool split_from_right(NodeCall& call) {
  if (!is_text(call)) return false;
  std::string from = call.string_at(0);
  const std::string separator = nonempty_at(call, 1);
  int64_t most = call.argument_count() > 2 ? call.number_at(2) : -1;
  std::vector<std::string> parts;
  for (size_t at; from.size() >= separator.size() && most-- != 0 &&
                  (at = from.rfind(separator)) != std::string::npos;
       from.erase(at))
    parts.push_back(from.substr(at + separator.size()));
  parts.push_back(std::move(from));
  std::reverse(parts.begin(), parts.end());
  call.give(text_list(std::move(parts)));
  return true;
}

// If line ends are kept, they become separate elements.
bool split_lines(NodeCall& call) {
  if (!is_text(call)) return false;
  require_ascii(call);
  const bool keeps = call.argument_count() > 1 && std::get<bool>(call.at(1).value);
  const std::string& from = call.string_at(0);
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t end; (end = from.find_first_of("\n\r\v\f\x1c\x1d\x1e", at)) != std::string::npos;
       at = end + 1) {
    parts.push_back(from.substr(at, end - at));
    if (keeps) parts.push_back(from.substr(end, 1));
  }
  if (at < from.size()) parts.push_back(from.substr(at));
  call.give(text_list(std::move(parts)));
  return true;
}

bool code_of_letter(NodeCall& call) {  // ord()
  if (!is_text(call)) return false;
  const std::string& letter = call.string_at(0);
  if (letter.size() != 1)
    throw Refusal{str_cat("ord('", letter, "') raises an exception in PyTorch"), ""};
  call.give(Item(int64_t{as_int(letter[0])}));
  return true;
}

}  // namespace

namespace texts {

bool split(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string& from = call.string_at(0);
  std::vector<std::string> parts;
  if (call.argument_count() < 2 || call.at(1).is_none()) {  // splits at runs of spaces
    require_ascii(call);
    constexpr char kSpaces[] = " \t\n\r\v\f\x1c\x1d\x1e";
    for (size_t at = 0; (at = from.find_first_not_of(kSpaces, at)) != std::string::npos;) {
      const size_t end = std::min(from.find_first_of(kSpaces, at), from.size());
      parts.push_back(from.substr(at, end - at));
      at = end;
    }
    call.give(text_list(std::move(parts)));
    return true;
  }
  const std::string separator = nonempty_at(call, 1);
  int64_t most = call.argument_count() > 2 ? call.number_at(2) : -1;
  size_t at = 0;
  for (size_t end; most-- != 0 && (end = from.find(separator, at)) != std::string::npos;
       at = end + separator.size())
    parts.push_back(from.substr(at, end - at));
  parts.push_back(from.substr(at));
  call.give(text_list(std::move(parts)));
  return true;
}

// find(), rfind(), index() and rindex().
bool find(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string part = part_of(call), &what = call.string_at(1);
  const std::string_view op = op_of(call);
  if (part.size() < call.string_at(0).size())
    throw Refusal{str_cat(op, "() in a part of a text"), "search in a slice of it"};
  const size_t at = op[0] == 'r' ? part.rfind(what) : part.find(what);
  if (at == std::string::npos && op.ends_with("index"))
    throw Refusal{str_cat(op, "('", what, "') of '", part, "' raises an exception in PyTorch"), ""};
  call.give(Item(at == std::string::npos ? int64_t{-1} : static_cast<int64_t>(at)));
  return true;
}

bool count(NodeCall& call) {
  if (!is_text(call)) return false;
  const std::string &from = call.string_at(0), what = nonempty_at(call, 1);
  if (call.argument_count() > 2 && (call.number_at(2) != 0 || call.number_at(3) != -1))
    throw Refusal{"count() in a part of a text", "count in a slice of it"};
  int64_t total = 0;
  for (size_t at = 0; (at = from.find(what, at)) != std::string::npos; at += what.size()) ++total;
  call.give(Item(total));
  return true;
}

}  // namespace texts

namespace {

constexpr Row kRows[] = {
    {.op = "aten::join", .script = {join}},
    {.op = "aten::rsplit", .script = {split_from_right}},
    {.op = "aten::splitlines", .script = {split_lines}},
    {.op = "aten::partition", .script = {partition}},
    {.op = "aten::rpartition", .script = {partition}},
    {.op = "aten::replace", .script = {replace}},
    {.op = "aten::lower", .script = {letters<lower>}},
    {.op = "aten::upper", .script = {letters<upper>}},
    {.op = "aten::swapcase", .script = {letters<swapped>}},
    {.op = "aten::capitalize", .script = {capitalize}},
    {.op = "aten::title", .script = {title}},
    {.op = "aten::center", .script = {pad}},
    {.op = "aten::ljust", .script = {pad}},
    {.op = "aten::rjust", .script = {pad}},
    {.op = "aten::zfill", .script = {pad}},
    {.op = "aten::expandtabs", .script = {expand_tabs}},
    {.op = "aten::strip", .script = {strip}},
    {.op = "aten::lstrip", .script = {strip}},
    {.op = "aten::rstrip", .script = {strip}},
    {.op = "aten::startswith", .script = {starts_with}},
    {.op = "aten::endswith", .script = {ends_with}},
    {.op = "aten::find", .script = {texts::find}},
    {.op = "aten::rfind", .script = {texts::find}},
    {.op = "aten::rindex", .script = {texts::find}},
    {.op = "aten::isdigit", .script = {all_are<std::isdigit>}},
    {.op = "aten::isdecimal", .script = {all_are<std::isdigit>}},
    {.op = "aten::isnumeric", .script = {all_are<std::isdigit>}},
    {.op = "aten::isalpha", .script = {all_are<std::isalpha>}},
    {.op = "aten::isalnum", .script = {all_are<std::isalnum>}},
    {.op = "aten::isspace", .script = {all_are<std::isspace>}},
    {.op = "aten::isupper", .script = {has_case<std::isupper>}},
    {.op = "aten::islower", .script = {has_case<std::islower>}},
    {.op = "aten::istitle", .script = {is_title}},
    {.op = "aten::isidentifier", .script = {is_identifier}},
    {.op = "aten::isprintable", .script = {is_printable}},
    {.op = "aten::ord", .script = {code_of_letter}},
};

}  // namespace

std::span<const Row> text_method_rows() { return kRows; }

}  // namespace hg::convert
