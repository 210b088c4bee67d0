// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 text and their properties, from ICU. Texts must be valid UTF-8 unless a
// comment says otherwise: callers pass the result of valid_utf8().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg {

// Limit of a text, also during normalization: sizes are int32_t in ICU and Oniguruma.
inline constexpr size_t kMostTextBytes = 0x7fffffff / 3;

// The text with U+FFFD for each maximal invalid part.
std::string valid_utf8(std::string_view text);

// Returns the character at `at` and moves `at` past it. `at` must be less than text.size().
char32_t next_char(std::string_view text, size_t& at);
// Start of the last character before `end`, which must be at least 1.
size_t previous_char(std::string_view text, size_t end);
void append_char(std::string& text, char32_t c);
size_t count_chars(std::string_view text);

bool is_white_space(char32_t c);
bool is_number(char32_t c);           // general category N
bool is_word(char32_t c);             // \w of Unicode regular expressions
bool is_punctuation(char32_t c);      // ASCII symbols and general category P, of Unicode 8
bool is_mark(char32_t c);             // general category M, of Unicode 9
bool is_nonspacing_mark(char32_t c);  // general category Mn, of Unicode 8
bool is_other(char32_t c);            // categories Cc, Cf, Co and Cs, not Cn, of Unicode 8
// Equal for characters of one script. Hiragana and Katakana count as Han, as in the package
// `tokenizers`. Spaces and characters that are not in Unicode 9 match any script.
int script_of(char32_t c);
inline constexpr int kAnyScript = -1;

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
Status normalize(NormalForm form, std::string& text);
std::string lowercase(std::string_view text);  // character by character

// Ends of the extended grapheme clusters of the text, in order.
Result<std::vector<size_t>> grapheme_ends(std::string_view text);

}  // namespace hg
