// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/chars.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <nlohmann/json.hpp>

#include "lib/text/unicode.h"

namespace hg::jinja {

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    next_char(text, at);
    out.push_back(text.substr(begin, at - begin));
  }
  return out;
}

namespace {

template <class F>
std::string_view strip_where(std::string_view text, bool left, bool right, const F& goes) {
  while (left && !text.empty()) {
    size_t at = 0;
    if (!goes(next_char(text, at))) break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    const size_t begin = previous_char(text, text.size());
    size_t at = begin;
    if (!goes(next_char(text, at))) break;
    text = text.substr(0, begin);
  }
  return text;
}

bool ends_line(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

icu::UnicodeString wide(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}
std::string narrow(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

}  // namespace

std::string_view strip_left(std::string_view text) {
  return strip_where(text, true, false, is_space);
}
std::string_view strip_right(std::string_view text) {
  return strip_where(text, false, true, is_space);
}
std::string_view strip_of(std::string_view text, std::string_view of, bool left, bool right) {
  return strip_where(text, left, right, [&](char32_t c) {
    for (size_t at = 0; at < of.size();)
      if (next_char(of, at) == c) return true;
    return false;
  });
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    if (!ends_line(next_char(text, at))) continue;
    if (text[here] == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, here - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = std::string_view::npos;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const bool space = is_space(next_char(text, at));
    if (space && begin != std::string_view::npos) {
      words.push_back(text.substr(begin, here - begin));
      begin = std::string_view::npos;
    } else if (!space && begin == std::string_view::npos) {
      begin = here;
    }
  }
  if (begin != std::string_view::npos) words.push_back(text.substr(begin));
  return words;
}

std::string upper(std::string_view text) {
  return narrow(wide(text).toUpper(icu::Locale::getRoot()));
}
std::string lower(std::string_view text) {
  return narrow(wide(text).toLower(icu::Locale::getRoot()));
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  // Converts the whole text to lower case, because a final sigma depends on the preceding
  // characters.
  const std::string small = lower(text);
  size_t at = 0, from = 0;
  const char32_t first = next_char(text, at);
  const std::string small_first = lower(text.substr(0, at));
  from = small.starts_with(small_first) ? small_first.size() : at;
  const icu::UnicodeString title =
      icu::UnicodeString(static_cast<UChar32>(first)).toTitle(nullptr, icu::Locale::getRoot());
  return narrow(title) + small.substr(from);
}

std::string titled(std::string_view text) {
  // Words are runs of cased letters. Letters are converted one by one, as in Python.
  std::string out;
  bool in_word = false;
  for (const std::string_view part : characters(text)) {
    size_t at = 0;
    const auto c = static_cast<UChar32>(next_char(part, at));
    const icu::UnicodeString one(c);
    if (in_word)
      out += lower(part);
    else
      out += narrow(icu::UnicodeString(one).toTitle(nullptr, icu::Locale::getRoot()));
    in_word = u_hasBinaryProperty(c, UCHAR_CASED) != 0;
  }
  return out;
}

bool are_digits(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<UChar32>(next_char(text, at));
    const int type = u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE);
    if (type != U_NT_DECIMAL && type != U_NT_DIGIT) return false;
  }
  return !text.empty();
}

bool has_case(std::string_view text, bool is_upper) {
  bool has = false;
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<UChar32>(next_char(text, at));
    if (u_charType(c) == U_TITLECASE_LETTER ||
        u_hasBinaryProperty(c, is_upper ? UCHAR_LOWERCASE : UCHAR_UPPERCASE))
      return false;
    has |= u_hasBinaryProperty(c, is_upper ? UCHAR_UPPERCASE : UCHAR_LOWERCASE) != 0;
  }
  return has;
}

Result<std::string> replaced(Meter& meter, std::string_view text, std::string_view from,
                             std::string_view to, int64_t most) {
  HG_TRY(meter.spend(text.size() * (1 + from.size() / 16) / 64));
  HG_TRY(meter.grow(text.size()));
  std::string out;
  size_t done = 0;
  for (int64_t count = 0; most < 0 || count < most; ++count) {
    size_t at = text.find(from, done);
    if (from.empty()) {  // before each character, and at the end
      at = done;
      if (count > 0) {
        if (done == text.size()) break;
        next_char(text, at);
      }
    }
    if (at == std::string_view::npos) break;
    HG_TRY(meter.grow(to.size()));
    out += text.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  out += text.substr(done);
  return out;
}

namespace {

void append_hex(std::string& out, char32_t c, int digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kDigits[c >> shift & 15];
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & kHidden) == 0;
}

}  // namespace

std::string repr_of(std::string_view text) {
  const char mark =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"'
                                                                                            : '\'';
  std::string out(1, mark);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_char(text, at);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == static_cast<char32_t>(mark)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_printable(c)) {
      append_char(out, c);
    } else {
      const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
      out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
      append_hex(out, c, digits);
    }
  }
  return out + mark;
}

std::string json_quoted(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hg::jinja
