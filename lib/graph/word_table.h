// SPDX-License-Identifier: Apache-2.0
// Names of enumerators in both directions: a table in enumerator order.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "hg/status.h"
#include "lib/graph/border.h"

namespace hg {

template <class Word>
std::string_view word_name(std::span<const std::string_view> names, Word word) {
  const auto index = static_cast<size_t>(word);
  return index < names.size() ? names[index] : "invalid";
}

// Fails with a message that lists all names. Contains or_no_memory() for the public functions that
// only call it.
template <class Word>
Result<Word> parse_word(std::span<const std::string_view> names, std::string_view what,
                        std::string_view name) {
  return or_no_memory([&]() -> Result<Word> {
    std::string known;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return static_cast<Word>(i);
      known += str_cat(" ", names[i]);
    }
    return invalid_argument("there is no ", what, " '", name, "'; use one of", known);
  });
}

}  // namespace hg
