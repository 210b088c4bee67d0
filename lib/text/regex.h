// SPDX-License-Identifier: Apache-2.0
// Regular expressions by Oniguruma, which the package `tokenizers` uses too, in Ruby's syntax.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg {

// Part of a text. The parts of a text cover it in order.
struct Span {
  size_t begin, end;
  bool matches;
};

// Immutable and thread-safe; copies share the compiled expression.
class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  // A pattern that matches the text itself.
  static Result<Regex> literal(std::string_view text);

  // The parts of the text that match, and those between them. An empty text is one part that does
  // not match. Fails if the expression backtracks too often.
  Result<std::vector<Span>> find(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace hg
