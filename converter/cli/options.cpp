// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/options.h"

#include <charconv>

#include "tools/command_line/input_text.h"

namespace hg::convert {
namespace {

using tools::split;
using tools::trim;

template <class... Parts>
[[noreturn]] void usage(const Parts&... parts) {
  throw Failure{Exit::usage, str_cat(parts...)};
}

}  // namespace

InputOption parse_input(std::string_view text) {
  tools::InputText parsed;
  if (const tools::Outcome outcome = tools::parse_input_text(text, parsed); !outcome.ok())
    throw Failure{Exit::usage, outcome.message};
  return {
      {std::move(parsed.name), std::move(parsed.type)}, parsed.range, std::move(parsed.new_name)};
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
      usage(option, " '", text, "': '", part, "' is not a size; write it like n=1,4");
    result.sizes.push_back(size);
  }
  return result;
}

}  // namespace hg::convert
