// SPDX-License-Identifier: Apache-2.0
// Names of keys and values in exported decoders: inputs "past_key_values.X" or "past.X", outputs
// "present.X" or "present_key_values.X". X is any text; "_" may replace the dot.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

namespace hg {

// The name after its first matching prefix: ".0.key" of "past_key_values.0.key".
inline std::optional<std::string_view> suffix_of(std::string_view name,
                                                 std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) {
      const std::string_view rest = name.substr(prefix.size());
      if (rest.starts_with('.') || rest.starts_with('_')) return rest;
    }
  return std::nullopt;
}

// The reason of the guard that limits a state that grows, before its name.
inline constexpr std::string_view kCapacityOf = "the capacity of '";

inline std::optional<std::string_view> past_suffix(std::string_view name) {
  return suffix_of(name, {"past_key_values", "past"});
}

inline std::optional<std::string_view> present_suffix(std::string_view name) {
  return suffix_of(name, {"present_key_values", "present"});
}

}  // namespace hg
