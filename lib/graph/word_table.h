// SPDX-License-Identifier: Apache-2.0
// Names of enumerators in both directions: HG_WORDS defines to_string() and the parser of an enum
// from the names of its enumerators, in their order.
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

#define HG_WORDS(Word, parse, what, ...)                        \
  std::string_view to_string(Word word) {                       \
    static constexpr std::string_view kNames[] = {__VA_ARGS__}; \
    return word_name(kNames, word);                             \
  }                                                             \
  Result<Word> parse(std::string_view name) {                   \
    static constexpr std::string_view kNames[] = {__VA_ARGS__}; \
    return parse_word<Word>(kNames, what, name);                \
  }

}  // namespace hg
