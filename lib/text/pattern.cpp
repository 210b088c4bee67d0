// SPDX-License-Identifier: Apache-2.0
#include "lib/text/pattern.h"

namespace hg {

Result<Regex> pattern_from(const JsonAt& json) {
  const JsonAt literal = json.member("String"), regex = json.member("Regex");
  if (literal.is_null() == regex.is_null())
    return json.wrong("expected an object with one member, String or Regex");
  HG_TRY_ASSIGN(const std::string text, literal.is_null() ? regex.text() : literal.text());
  const Result<Regex> compiled = literal.is_null() ? Regex::compile(text) : Regex::literal(text);
  if (!compiled.ok()) return json.wrong(compiled.status().message());
  return compiled;
}

}  // namespace hg
