// SPDX-License-Identifier: Apache-2.0
// Tables that list names in one text, separated by spaces.
#pragma once

#include <string_view>

namespace hg::convert {

inline bool has_word(std::string_view words, std::string_view word) {
  for (size_t at = words.find(word); at != words.npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

}  // namespace hg::convert
