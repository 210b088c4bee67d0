// SPDX-License-Identifier: Apache-2.0
// The `decoder` of a tokenizer.json: turns the spellings of tokens into text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/text/json_fields.h"

namespace hg {

struct Decoder {
  // Appends the remaining spellings; their concatenation is the text.
  std::function<Status(std::vector<std::string>& tokens)> run;
  // The text of a token depends on few neighbors, so a stream may forget earlier tokens.
  bool is_local = true;
  // Further tokens only append to the text, so a stream may return it early.
  bool appends = true;
  // Bytes such as <0x41> become text when another token ends them.
  bool joins_bytes = false;
};

// The decoder of a JSON value; null joins the spellings with spaces.
Result<Decoder> decoder_from(const JsonAt& json, int depth = 0);

// The byte of a spelling such as <0x41>; -1: another token.
int byte_of_token(std::string_view token);

}  // namespace hg
