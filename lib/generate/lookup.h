// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace hg {

// Proposes at most `most` tokens for the end of a text: the tokens after an earlier occurrence of
// its last three tokens, or two, or one. Takes the latest occurrence with `most` tokens after it,
// or else the one with most tokens. A text that repeats a few tokens has none behind the latest.
inline std::vector<int32_t> looked_up(std::span<const int32_t> text, size_t most) {
  if (most == 0) return {};
  for (size_t n = std::min<size_t>(3, text.size()); n > 0; --n) {
    const std::span<const int32_t> end = text.last(n);
    std::span<const int32_t> longest;
    for (size_t at = text.size() - n; at-- > 0 && longest.size() < most;)
      if (std::equal(end.begin(), end.end(), text.begin() + static_cast<std::ptrdiff_t>(at)))
        longest = text.subspan(at + n);
    if (longest.empty()) continue;
    longest = longest.first(std::min(most, longest.size()));
    return {longest.begin(), longest.end()};
  }
  return {};
}

// Sets how many tokens the next look-up proposes, at most `limit`. A run for tokens that are
// rejected costs time: fewer follow a run that rejects all of them, more one that accepts all.
inline void adapt_lookup(int64_t& most, int64_t limit, int64_t proposed, int64_t accepted) {
  if (accepted == proposed)
    most = std::min(limit, 2 * most + 1);
  else if (accepted == 0)
    most = std::max<int64_t>(1, most / 2);
}

// Rounds the tokens of a run down to 2^k or 3 * 2^k, so that few numbers of them occur: a session
// plans each. Kernels for few rows take up to 8, and 16 with AVX-512 and quantized weights.
inline int64_t rounded_run(int64_t tokens) {
  int64_t rounded = 1;
  while (2 * rounded <= tokens) rounded *= 2;
  return rounded >= 2 && rounded + rounded / 2 <= tokens ? rounded + rounded / 2 : rounded;
}

}  // namespace hg
