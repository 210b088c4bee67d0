// SPDX-License-Identifier: Apache-2.0
// Text from files. Readers reject text that is not UTF-8, as hg/c.h promises.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hg {

// Position of the first byte that starts no valid UTF-8 character (RFC 3629); text.size() if all
// are valid.
inline size_t utf8_end(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t at = 0; at < text.size();) {
    const uint8_t lead = byte(at);
    const size_t more = lead < 0x80                   ? 0
                        : lead >= 0xc2 && lead < 0xe0 ? 1
                        : lead >= 0xe0 && lead < 0xf0 ? 2
                        : lead >= 0xf0 && lead < 0xf5 ? 3
                                                      : text.size();
    if (more >= text.size() - at) return at;
    for (size_t i = 1; i <= more; ++i)
      if ((byte(at + i) & 0xc0) != 0x80) return at;
    // Overlong, a surrogate, or beyond the last code point.
    const uint8_t second = more > 1 ? byte(at + 1) : 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90))
      return at;
    at += more + 1;
  }
  return text.size();
}
inline bool is_utf8(std::string_view text) { return utf8_end(text) == text.size(); }

// The text with \\xNN for each invalid byte, for messages.
inline std::string escaped_utf8(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t end; (end = utf8_end(text)) < text.size(); text.remove_prefix(end + 1)) {
    const auto bad = static_cast<uint8_t>(text[end]);
    out.append(text.substr(0, end)).append("\\x");
    out.push_back(kDigits[bad >> 4]);
    out.push_back(kDigits[bad & 15]);
  }
  return out.append(text);
}

}  // namespace hg
