// SPDX-License-Identifier: Apache-2.0
// Tokens of a template. Removes spaces around tags as transformers configures jinja2: trim_blocks,
// lstrip_blocks, and no newline at the end of the template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg::jinja {

struct Word {
  enum class Kind : uint8_t {
    data,         // text between tags
    print_begin,  // {{
    print_end,    // }}
    tag_begin,    // {%
    tag_end,      // %}
    name,
    text,
    whole,
    real,
    sign,  // an operator or a bracket
    end,   // of the template
  };
  Kind kind;
  int line;
  std::string text;  // of names, signs and data; value of strings
  int64_t whole = 0;
  double real = 0;
};

// "NAME: line LINE: ...", the form of all errors of a template.
template <class... Parts>
Status syntax_error(std::string_view name, int line, const Parts&... parts) {
  return invalid_argument(name, ": line ", line, ": ", parts...);
}

// The last token is `end`. `source` must be valid UTF-8.
Result<std::vector<Word>> words_of_template(std::string_view source, std::string_view name);

}  // namespace hg::jinja
