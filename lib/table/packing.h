// SPDX-License-Identifier: Apache-2.0
// How bytes store the levels of a quantized weight [n, k].
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hg {

enum class Packing : uint8_t {
  bytes,   // [n, k], 8 bits each
  rows,    // [ceil(n / 2), k]: row i in the low 4 bits, row i + ceil(n / 2) in the high ones
  halves,  // [n, ceil(k / 2)]: column i in the low 4 bits, column i + ceil(k / 2) in the high ones
  pairs,   // [n, ceil(k / 2)]: column 2 i in the low 4 bits, 2 i + 1 in the high ones
};
inline constexpr std::string_view kPackingNames[] = {"bytes", "rows", "halves", "pairs"};

inline std::optional<Packing> parse_packing(std::string_view name) {
  for (int i = 0; i < 4; ++i)
    if (kPackingNames[i] == name) return static_cast<Packing>(i);
  return {};
}
inline std::string_view to_string(Packing packing) {
  return kPackingNames[static_cast<int>(packing)];
}

}  // namespace hg
