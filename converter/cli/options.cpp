// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace hg::convert {
namespace {

constexpr std::string_view kExample = "write it like 'x:f32[n,3,224,224]'";

template <class... Parts>
[[noreturn]] void usage(const Parts&... parts) {
  throw Failure{Exit::usage, str_cat(parts...)};
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

// Parts between commas that are outside of parentheses: min(n, 4) is one.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    parts.push_back(trim(text.substr(start, i - start)));
    start = i + 1;
  }
  return parts;
}

double number(std::string_view text, std::string_view whole) {
  std::string copy(trim(text));
  char* end = nullptr;
  double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0')
    usage("--input '", whole, "': '", text, "' is no number; write a range like =0..255");
  return value;
}

DType parse_dtype(std::string_view word, std::string_view whole) {
  Result<DType> dtype = dtype_named(word);
  if (dtype.ok()) return *dtype;
  constexpr std::pair<std::string_view, DType> kTorch[] = {
      {"float32", f32}, {"float", f32},       {"float64", f64},     {"double", f64},
      {"float16", f16}, {"half", f16},        {"bfloat16", bf16},   {"int64", i64},
      {"long", i64},    {"int32", i32},       {"int", i32},         {"int16", i16},
      {"int8", i8},     {"uint8", u8},        {"boolean", boolean}, {"complex64", c64},
      {"cfloat", c64},  {"complex128", c128}, {"cdouble", c128}};
  for (const auto& [name, value] : kTorch)
    if (name == word) return value;
  std::vector<std::string> names;
  std::string list;
  for (int i = 0; i < kDTypeCount; ++i) {
    names.emplace_back(name_of(static_cast<DType>(i)));
    list += (i > 0 ? " " : "") + names.back();
  }
  std::string close = closest_name(word, names);
  usage("--input '", whole, "': there is no dtype '", word, "'",
        close.empty() ? "" : ", did you mean '" + close + "'", "; it is one of ", list);
}

}  // namespace

InputOption parse_input(std::string_view whole) {
  InputOption option;
  std::string_view rest = trim(whole);
  size_t open = rest.find('[');
  if (open == std::string_view::npos)
    usage("--input '", whole, "' has no shape in brackets; ", kExample);
  size_t close = rest.rfind(']');
  if (close == std::string_view::npos || close < open)
    usage("--input '", whole, "': the bracket '[' is not closed; ", kExample);
  std::string_view head = trim(rest.substr(0, open));
  std::string_view dims = trim(rest.substr(open + 1, close - open - 1));
  std::string_view range = trim(rest.substr(close + 1));
  size_t colon = head.rfind(':');
  if (colon != std::string_view::npos) {
    option.spec.name = std::string(trim(head.substr(0, colon)));
    if (option.spec.name.empty())
      usage("--input '", whole, "' has no name before the colon; ", kExample);
    head = trim(head.substr(colon + 1));
  }
  if (head.empty()) usage("--input '", whole, "' has no dtype before the bracket; ", kExample);
  option.spec.type.dtype = parse_dtype(head, whole);
  if (!dims.empty()) {
    for (std::string_view part : split(dims)) {
      Result<Dim> dim = Dim::parse(part);
      if (!dim.ok())
        usage("--input '", whole, "': the size '", part,
              "' is neither a number nor an expression"
              " over names such as n or h*2");
      if (dim->is_constant() && dim->constant() < 0)
        usage("--input '", whole, "': the size ", *dim, " is negative; ",
              "give a size that may vary a name, such as n");
      option.spec.type.shape.push_back(*dim);
    }
  }
  if (option.spec.type.rank() > kMaxRank)
    usage("--input '", whole, "' has rank ", option.spec.type.rank(), ", at most ", kMaxRank,
          " is possible");
  if (!range.empty()) {
    size_t dots = range.find("..");
    if (range[0] != '=' || dots == std::string_view::npos)
      usage("--input '", whole, "': '", range, "' behind the shape is no range like =0..255");
    option.range = {number(range.substr(1, dots - 1), whole),
                    number(range.substr(dots + 2), whole)};
    if (!std::isfinite(option.range->first) || !std::isfinite(option.range->second))
      usage("--input '", whole, "': the ends of a range are finite numbers, as in =0..255");
    if (option.range->first > option.range->second)
      usage("--input '", whole, "': the range's first number exceeds its second");
  }
  return option;
}

SizeOption parse_size(std::string_view option, std::string_view text) {
  SizeOption result;
  size_t equals = text.find('=');
  if (equals == std::string_view::npos || trim(text.substr(0, equals)).empty())
    usage(option, " '", text, "': write it like n=1,4");
  result.symbol = std::string(trim(text.substr(0, equals)));
  for (std::string_view part : split(text.substr(equals + 1))) {
    int64_t size = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (part.empty() || error != std::errc() || end != part.data() + part.size() || size < 0)
      usage(option, " '", text, "': '", part, "' is no size; write it like n=1,4");
    result.sizes.push_back(size);
  }
  return result;
}

std::string closest_name(std::string_view name, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    // Levenshtein's distance, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        size_t replace = diagonal + (name[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace hg::convert
