// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line/input_text.h"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "tools/command_line/words.h"

namespace hg::tools {
namespace {

constexpr std::string_view kExample = "write it like 'x:f32[n,3,224,224]'";

Outcome parse_number(std::string_view text, std::string_view whole, double& value) {
  const std::string copy(trim(text));
  char* end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0')
    return usage("--input '", whole, "': '", text, "' is not a number; write a range like =0..255");
  return {};
}

Outcome take_dtype(std::string_view word, std::string_view whole, DType& parsed) {
  const Result<DType> dtype = hg::parse_dtype(word);
  if (dtype.ok()) {
    parsed = *dtype;
    return {};
  }
  constexpr std::pair<std::string_view, DType> kTorch[] = {
      {"float32", f32}, {"float", f32},       {"float64", f64},     {"double", f64},
      {"float16", f16}, {"half", f16},        {"bfloat16", bf16},   {"int64", i64},
      {"long", i64},    {"int32", i32},       {"int", i32},         {"int16", i16},
      {"int8", i8},     {"uint8", u8},        {"boolean", boolean}, {"complex64", c64},
      {"cfloat", c64},  {"complex128", c128}, {"cdouble", c128}};
  for (const auto& [name, value] : kTorch)
    if (name == word) {
      parsed = value;
      return {};
    }
  std::vector<std::string> names;
  std::string list;
  for (int i = 0; i < kDTypeCount; ++i) {
    names.emplace_back(to_string(static_cast<DType>(i)));
    list += (i > 0 ? " " : "") + names.back();
  }
  const std::string close = closest_name(word, names);
  return usage("--input '", whole, "': there is no dtype '", word, "'",
               close.empty() ? "" : ", did you mean '" + close + "'", "; it is one of ", list);
}

Outcome parse_sizes(std::string_view text, std::string_view whole, Shape& shape) {
  if (text.empty()) return {};
  for (const std::string_view part : split(text)) {
    const Result<Dim> dim = Dim::parse(part);
    if (!dim.ok())
      return usage("--input '", whole, "': the size '", part,
                   "' is neither a number nor an expression over names such as n or h*2");
    if (dim->is_constant() && dim->constant() < 0)
      return usage("--input '", whole, "': the size ", *dim, " is negative; ",
                   "give a size that may vary a name, such as n");
    shape.push_back(*dim);
  }
  if (shape.size() > size_t{kMaxRank})
    return usage("--input '", whole, "' has rank ", static_cast<int64_t>(shape.size()),
                 ", at most ", kMaxRank, " is possible");
  return {};
}

}  // namespace

Outcome parse_range(std::string_view text, std::string_view whole, Range& range) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos)
    return usage("--input '", whole, "': '=", text, "' is not a range; write it like =0..255");
  double low = 0, high = 0;
  if (Outcome o = parse_number(text.substr(0, dots), whole, low); !o.ok()) return o;
  if (Outcome o = parse_number(text.substr(dots + 2), whole, high); !o.ok()) return o;
  if (!std::isfinite(low) || !std::isfinite(high))
    return usage("--input '", whole, "': the ends of a range are finite numbers, as in =0..255");
  if (low > high)
    return usage("--input '", whole, "': the range's first number exceeds its second");
  range = {low, high};
  return {};
}

Outcome parse_input_text(std::string_view whole, InputText& parsed) {
  parsed = {};
  const std::string_view rest = trim(whole);
  const size_t open = rest.find('[');
  if (open == std::string_view::npos)
    return usage("--input '", whole, "' has no shape in brackets; ", kExample);
  const size_t close = rest.rfind(']');
  if (close == std::string_view::npos || close < open)
    return usage("--input '", whole, "': the bracket '[' is not closed; ", kExample);
  std::string_view head = trim(rest.substr(0, open));
  const std::string_view range = trim(rest.substr(close + 1));
  if (const size_t equals = head.find('='); equals != std::string_view::npos) {
    parsed.new_name = std::string(trim(head.substr(0, equals)));
    if (parsed.new_name.empty())
      return usage("--input '", whole, "' has no new name before '='; ",
                   "write it like 'ids=input:i64[n]'");
    head = trim(head.substr(equals + 1));
  }
  if (const size_t colon = head.rfind(':'); colon != std::string_view::npos) {
    parsed.name = std::string(trim(head.substr(0, colon)));
    if (parsed.name.empty())
      return usage("--input '", whole, "' has no name before the colon; ", kExample);
    head = trim(head.substr(colon + 1));
  }
  if (head.empty())
    return usage("--input '", whole, "' has no dtype before the bracket; ", kExample);
  if (Outcome o = take_dtype(head, whole, parsed.type.dtype); !o.ok()) return o;
  if (Outcome o =
          parse_sizes(trim(rest.substr(open + 1, close - open - 1)), whole, parsed.type.shape);
      !o.ok())
    return o;
  if (range.empty()) return {};
  if (range[0] != '=')
    return usage("--input '", whole, "': '", range, "' is not a range; write it like =0..255");
  return parse_range(range.substr(1), whole, parsed.range);
}

}  // namespace hg::tools
