// SPDX-License-Identifier: Apache-2.0
// Tokens of a kernel's text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg {

struct Token {
  enum class Kind : uint8_t { name, integer, real, word, sign, end };
  Kind kind = Kind::end;
  size_t at = 0;               // offset in the text
  std::string_view text = {};  // without the quotes of a word
  int64_t integer = 0;
  double real = 0;
  bool is(std::string_view sign) const {
    return (kind == Kind::sign || kind == Kind::name) && text == sign;
  }
};

// An error and its position in the text.
struct TextError {
  size_t at = 0;
  std::string message;
};

// Returns the tokens, the last of Kind::end; or false and the first error.
bool split_into_tokens(std::string_view text, std::vector<Token>& tokens, TextError& error);

}  // namespace hg
