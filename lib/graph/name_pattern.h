// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hg {

// Whether a name matches: '*' matches any characters, '?' one.
inline bool matches(std::string_view pattern, std::string_view name) {
  // Backtracks only to the last star.
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace hg
