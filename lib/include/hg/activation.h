// SPDX-License-Identifier: Apache-2.0
// The activations that linear and conv can apply to their result. activations.inc is the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace hg {

enum class Activation : uint8_t {
#define HG_ACTIVATION(number, name, op, attrs) name = number,
#include "hg/activations.inc"
};

inline constexpr std::string_view kActivationNames[] = {
#define HG_ACTIVATION(number, name, op, attrs) #name,
#include "hg/activations.inc"
};
inline constexpr int kActivationCount = static_cast<int>(std::size(kActivationNames));

constexpr std::string_view to_string(Activation activation) {
  return kActivationNames[static_cast<size_t>(activation)];
}
// Returns nullopt if no activation has this name.
constexpr std::optional<Activation> parse_activation(std::string_view name) {
  for (int i = 0; i < kActivationCount; ++i)
    if (kActivationNames[i] == name) return static_cast<Activation>(i);
  return std::nullopt;
}

}  // namespace hg
