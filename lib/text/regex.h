// SPDX-License-Identifier: Apache-2.0
// Regular expressions in Ruby's syntax, with Oniguruma, which the package `tokenizers` also uses.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"
#include "lib/text/json_fields.h"

namespace hg {

// A part of a text. The parts cover the text in order.
struct Span {
  size_t begin, end;
  bool matches;
};

// Immutable and thread-safe; copies share the compiled expression.
class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  // A pattern that matches exactly this text.
  static Result<Regex> literal(std::string_view text);

  // The matching parts of the text and the parts between them. An empty text is one part that does
  // not match. Fails if the expression backtracks too often.
  Result<std::vector<Span>> find(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

// Returns the pattern of a tokenizer.json: {"String": text} or {"Regex": expression}.
Result<Regex> pattern_from(const JsonAt& json);

}  // namespace hg
