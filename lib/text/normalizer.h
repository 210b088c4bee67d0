// SPDX-License-Identifier: Apache-2.0
// The `normalizer` of a tokenizer.json: what happens to a text before it is split.
#pragma once

#include <functional>
#include <string>

#include "lib/text/json_fields.h"

namespace hg {

// A part of the text that encode() was called with.
struct Piece {
  std::string text;
  // Its first character came from the first character of the whole text. Metaspace asks for it.
  bool at_start = true;
  int32_t id = -1;  // of an added token; -1: text that the model encodes
};

using Normalizer = std::function<Status(Piece&)>;

// The normalizer of a JSON value; null does nothing.
Result<Normalizer> normalizer_from(const JsonAt& json, int depth = 0);

// A normalizer that applies each in turn.
Normalizer in_turn(std::vector<Normalizer> steps);

// The printable characters that byte-level vocabularies use for bytes, and back.
std::string bytes_as_chars(std::string_view bytes);
int byte_of_char(char32_t c);  // -1: the character stands for no byte

inline constexpr int kMostNested = 64;

}  // namespace hg
