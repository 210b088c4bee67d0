// SPDX-License-Identifier: Apache-2.0
// Functions of Python's str: texts as sequences of characters, with Unicode's spaces, line ends and
// cases. Texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/text/jinja/value.h"

namespace hg::jinja {

bool is_space(char32_t c);  // str.isspace
std::vector<std::string_view> characters(std::string_view text);

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
// Removes the characters in `of` from the requested ends.
std::string_view strip_of(std::string_view text, std::string_view of, bool left, bool right);

// str.splitlines, without line ends.
std::vector<std::string_view> lines_of(std::string_view text);
// str.split without a separator.
std::vector<std::string_view> words_of(std::string_view text);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);       // str.capitalize
std::string titled(std::string_view text);            // str.title
bool are_digits(std::string_view text);               // str.isdigit
bool has_case(std::string_view text, bool is_upper);  // str.isupper or str.islower

// str.replace; a negative `most` replaces all.
Result<std::string> replaced(Meter& meter, std::string_view text, std::string_view from,
                             std::string_view to, int64_t most);

std::string repr_of(std::string_view text);      // repr
std::string json_quoted(std::string_view text);  // json.dumps(ensure_ascii=False)

}  // namespace hg::jinja
