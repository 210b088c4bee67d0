// SPDX-License-Identifier: Apache-2.0
#include "lib/text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>

#include <memory>

namespace hg {

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t at = 0; at < size;) {
    UChar32 c;
    U8_NEXT_OR_FFFD(bytes, at, size, c);
    append_char(out, static_cast<char32_t>(c));
  }
  return out;
}

char32_t next_char(std::string_view text, size_t& at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto size = static_cast<int64_t>(text.size());
  auto i = static_cast<int64_t>(at);
  UChar32 c;
  U8_NEXT_OR_FFFD(bytes, i, size, c);
  at = static_cast<size_t>(i);
  return static_cast<char32_t>(c);
}

size_t previous_char(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80);
  return end;
}

void append_char(std::string& text, char32_t c) {
  uint8_t bytes[U8_MAX_LENGTH];
  int length = 0;
  U8_APPEND_UNSAFE(bytes, length, static_cast<UChar32>(c));
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

size_t count_chars(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xc0) != 0x80;
  return count;
}

namespace {

UChar32 code(char32_t c) { return static_cast<UChar32>(c); }
uint32_t category(char32_t c) { return U_GET_GC_MASK(code(c)); }

// In some parts the package `tokenizers` 0.23 uses the properties of Unicode 8 and 9. There, newer
// characters have no properties. The few whose category changed since are listed below.
bool is_of_version(char32_t c, int version) {
  UVersionInfo age;
  u_charAge(code(c), age);
  return age[0] < version || (age[0] == version && age[1] == 0);
}

}  // namespace

bool is_white_space(char32_t c) { return u_isUWhiteSpace(code(c)); }
bool is_number(char32_t c) { return (category(c) & U_GC_N_MASK) != 0; }
bool is_word(char32_t c) {
  return u_isUAlphabetic(code(c)) ||
         (category(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(code(c), UCHAR_JOIN_CONTROL);
}
bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7f && !u_isalnum(code(c));
  if (c == 0x166d || c == 0x111c9) return true;
  return is_of_version(c, 8) && (category(c) & U_GC_P_MASK) != 0;
}
bool is_mark(char32_t c) {
  if (c == 0x1cf2 || c == 0x1cf3) return true;
  return is_of_version(c, 9) && (category(c) & U_GC_M_MASK) != 0 && c != 0x111c9;
}
bool is_nonspacing_mark(char32_t c) {
  if (c == 0x1734) return true;
  return is_of_version(c, 8) && (category(c) & U_GC_MN_MASK) != 0 && c != 0x1885 && c != 0x1886 &&
         c != 0xa9bd && c != 0x111c9;
}
bool is_other(char32_t c) {
  constexpr uint32_t kMask = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK;
  return is_of_version(c, 8) && (category(c) & kMask) != 0;
}

int script_of(char32_t c) {
  constexpr char32_t kProlongedSound = 0x30fc;
  if (c == ' ' || !is_of_version(c, 9)) return kAnyScript;
  if (c == kProlongedSound) return USCRIPT_HAN;
  UErrorCode error = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(code(c), &error);
  if (script == USCRIPT_UNKNOWN) return kAnyScript;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

Status normalize(NormalForm form, std::string& text) {
  HG_CHECK(text.size() <= kMostTextBytes, "a text has ", uint64_t{text.size()},
           " bytes while it is normalized, at most ", uint64_t{kMostTextBytes}, " are possible");
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const by =
      form == NormalForm::nfc    ? icu::Normalizer2::getNFCInstance(error)
      : form == NormalForm::nfd  ? icu::Normalizer2::getNFDInstance(error)
      : form == NormalForm::nfkc ? icu::Normalizer2::getNFKCInstance(error)
                                 : icu::Normalizer2::getNFKDInstance(error);
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(text.size()));
  if (U_SUCCESS(error))
    by->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                      nullptr, error);
  if (U_FAILURE(error)) return internal_error("ICU cannot normalize a text: ", u_errorName(error));
  text = std::move(out);
  return {};
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_char(text, at);
    append_char(out, static_cast<char32_t>(u_tolower(code(c))));
    // The only character whose lower case is two characters in every context.
    if (c == 0x130) append_char(out, 0x307);
  }
  return out;
}

Result<std::vector<size_t>> grapheme_ends(std::string_view text) {
  struct Close {
    void operator()(UBreakIterator* breaks) const { ubrk_close(breaks); }
    void operator()(UText* open) const { utext_close(open); }
  };
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<UText, Close> open(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error));
  const std::unique_ptr<UBreakIterator, Close> breaks(
      ubrk_open(UBRK_CHARACTER, "en", nullptr, 0, &error));
  if (U_SUCCESS(error)) ubrk_setUText(breaks.get(), open.get(), &error);
  if (U_FAILURE(error))
    return internal_error("ICU cannot find graphemes of a text: ", u_errorName(error));
  std::vector<size_t> ends;
  for (int32_t end; (end = ubrk_next(breaks.get())) != UBRK_DONE;)
    ends.push_back(static_cast<size_t>(end));
  return ends;
}

}  // namespace hg
