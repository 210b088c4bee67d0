// SPDX-License-Identifier: Apache-2.0
#include "lib/text/charsmap.h"

#include "lib/graph/utf8.h"

namespace hg {
namespace {

// A unit: bits 0-7 and 31 hold the label, bit 8 whether a value follows, bits 9-30 the offset of
// its children.
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xff); }
uint32_t value_of(uint32_t unit) { return unit & ~(1u << 31); }
bool is_value(uint32_t unit) { return unit >> 31 != 0; }

uint32_t word_at(std::string_view bytes, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return word;
}

}  // namespace

Result<Charsmap> Charsmap::read(std::string_view bytes) {
  if (bytes.size() < 4)
    return corrupt_model("a precompiled charsmap has ", uint64_t{bytes.size()},
                         " bytes, at least 4 are needed");
  const uint32_t size = word_at(bytes, 0);
  if (size > bytes.size() - 4 || size % 4 != 0 || size == 0)
    return corrupt_model("a precompiled charsmap of ", uint64_t{bytes.size()},
                         " bytes has a trie of ", uint64_t{size}, " bytes");
  Charsmap map;
  map.replacements_ = bytes.substr(4 + size);
  if (!is_utf8(map.replacements_) || (!map.replacements_.empty() && map.replacements_.back() != 0))
    return corrupt_model(
        "the replacements of a precompiled charsmap are not UTF-8 that ends with 0");
  for (size_t at = 0; at < size; at += 4) map.units_.push_back(word_at(bytes, 4 + at));
  // The position of a child differs from its parent's by the offset and the label's byte.
  const size_t count = map.units_.size();
  for (size_t i = 0; i < count; ++i) {
    const uint32_t unit = map.units_[i];
    if (is_value(unit)) continue;
    const size_t children = (i ^ offset_of(unit)) | 0xff;
    if (children >= count)
      return corrupt_model("unit ", uint64_t{i}, " of a precompiled charsmap leads to unit ",
                           uint64_t{children}, " of ", uint64_t{count});
    const size_t value = i ^ offset_of(unit);
    if (has_value(unit) && i != 0 && is_value(map.units_[value]) &&
        value_of(map.units_[value]) >= map.replacements_.size())
      return corrupt_model("unit ", uint64_t{value}, " of a precompiled charsmap has replacement ",
                           uint64_t{value_of(map.units_[value])}, " of ",
                           uint64_t{map.replacements_.size()}, " bytes");
  }
  return map;
}

std::optional<std::string_view> Charsmap::replacement(std::string_view text) const {
  size_t at = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0) break;
    at ^= byte;
    const uint32_t unit = units_[at];
    if (label_of(unit) != byte) break;
    at ^= offset_of(unit);
    if (!has_value(unit)) continue;
    const size_t begin = value_of(units_[at]);
    if (begin >= replacements_.size()) return std::nullopt;
    return std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

Result<std::string> from_base64(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  const size_t size = text.size();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (size % 4 != 0 || size - text.size() > 2)
    return corrupt_model("a base64 text has ", uint64_t{size}, " characters");
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int value = digit(text[i]);
    if (value < 0) return corrupt_model("character ", uint64_t{i}, " of a base64 text is invalid");
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return out;
}

}  // namespace hg
