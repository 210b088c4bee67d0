// SPDX-License-Identifier: Apache-2.0
// The `normalizer` of a tokenizer.json: changes a text before it is split.
#pragma once

#include <functional>
#include <string>

#include "lib/text/json_fields.h"

namespace hg {

// A part of the text that encode() was called with.
struct Piece {
  std::string text;
  // Whether its first character comes from the first character of the whole text. Metaspace needs
  // this.
  bool at_start = true;
  int32_t id = -1;  // of an added token; -1: text that the model encodes
};

using Normalizer = std::function<Status(Piece&)>;

// The normalizer of a JSON value; null does nothing.
Result<Normalizer> normalizer_from(const JsonAt& json, int depth = 0);

// A normalizer that applies all of these in order.
Normalizer in_turn(std::vector<Normalizer> steps);

// The printable characters that byte-level vocabularies use for bytes, and back.
std::string bytes_as_chars(std::string_view bytes);
int byte_of_char(char32_t c);  // -1: the character represents no byte

inline constexpr int kMostNested = 64;

}  // namespace hg
