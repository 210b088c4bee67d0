// SPDX-License-Identifier: Apache-2.0
// The names that exporters of decoders give to keys and values: inputs "past_key_values.X" or
// "past.X" and outputs "present.X" or "present_key_values.X", with any X, also behind "_".
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

namespace hg {

// The name after the first prefix that it has: ".0.key" of "past_key_values.0.key".
inline std::optional<std::string_view> suffix_of(std::string_view name,
                                                 std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) {
      const std::string_view rest = name.substr(prefix.size());
      if (rest.starts_with('.') || rest.starts_with('_')) return rest;
    }
  return std::nullopt;
}

inline std::optional<std::string_view> past_suffix(std::string_view name) {
  return suffix_of(name, {"past_key_values", "past"});
}

inline std::optional<std::string_view> present_suffix(std::string_view name) {
  return suffix_of(name, {"present_key_values", "present"});
}

}  // namespace hg
