// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace hg {

// Proposes at most `most` tokens for the end of a text: the tokens after the previous occurrence of
// its last three tokens, or two, or one.
inline std::vector<int32_t> looked_up(std::span<const int32_t> text, size_t most) {
  for (size_t n = std::min<size_t>(3, text.size()); n > 0; --n) {
    const std::span<const int32_t> end = text.last(n);
    for (size_t at = text.size() - n; at-- > 0;)
      if (std::equal(end.begin(), end.end(), text.begin() + static_cast<std::ptrdiff_t>(at))) {
        const std::span<const int32_t> next = text.subspan(at + n);
        return {next.begin(),
                next.begin() + static_cast<std::ptrdiff_t>(std::min(most, next.size()))};
      }
  }
  return {};
}

}  // namespace hg
