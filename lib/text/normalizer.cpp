// SPDX-License-Identifier: Apache-2.0
#include "lib/text/normalizer.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/status.h"
#include "lib/graph/utf8.h"
#include "lib/text/regex.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

// The table that SentencePiece compiles from normalization rules: a double-array trie of texts
// (Yata 2008, "darts-clone") and their replacements.
class Charsmap {
 public:
  // Checks every index of the table, so that no text causes an access outside it.
  static Result<Charsmap> read(std::string_view bytes);

  // Replacement of the shortest text in the table that is a prefix of `text`.
  std::optional<std::string_view> replacement(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

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

// Replaces each character by what `f` appends. If `f` appends nothing for the first character, the
// piece no longer begins at the start of the text.
template <class F>
void each_char(Piece& piece, const F& f) {
  std::string out;
  out.reserve(piece.text.size());
  for (size_t at = 0; at < piece.text.size();) {
    const bool is_first = at == 0;
    const char32_t c = next_char(piece.text, at);
    f(out, c);
    if (is_first && out.empty()) piece.at_start = false;
  }
  piece.text = std::move(out);
}

void strip(Piece& piece, bool left, bool right) {
  std::string& text = piece.text;
  size_t begin = 0, end = text.size();
  if (left) {
    for (size_t at = 0; at < end && is_white_space(next_char(text, at));) begin = at;
  }
  while (right && end > begin) {
    size_t at = previous_char(text, end);
    const size_t last = at;
    if (!is_white_space(next_char(text, at))) break;
    end = last;
  }
  if (begin > 0) piece.at_start = false;
  text = text.substr(begin, end - begin);
}

bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
      {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (const auto& [first, last] : kBlocks)
    if (c >= first && c <= last) return true;
  return false;
}

struct BertSettings {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

Status normalize_bert(const BertSettings& settings, Piece& piece) {
  if (settings.clean_text)
    each_char(piece, [](std::string& out, char32_t c) {
      const bool is_space = c == '\t' || c == '\n' || c == '\r' || is_white_space(c);
      if (c == '\t' || c == '\n' || c == '\r')
        out += ' ';
      else if (c != 0 && c != 0xfffd && !is_other(c))
        append_char(out, is_space ? U' ' : c);
    });
  if (settings.handle_chinese_chars)
    each_char(piece, [](std::string& out, char32_t c) {
      if (is_chinese(c)) out += ' ';
      append_char(out, c);
      if (is_chinese(c)) out += ' ';
    });
  if (settings.strip_accents) {
    HG_TRY(normalize(NormalForm::nfd, piece.text));
    each_char(piece, [](std::string& out, char32_t c) {
      if (!is_nonspacing_mark(c)) append_char(out, c);
    });
  }
  if (settings.lowercase) piece.text = lowercase(piece.text);
  return {};
}

// SentencePiece's rules "nmt": removes control characters, and replaces unusual spaces by spaces.
void normalize_nmt(Piece& piece) {
  each_char(piece, [](std::string& out, char32_t c) {
    const bool drop = (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f ||
                      c == 0x8f || c == 0x9f;
    const bool is_space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                          (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
                          c == 0x2581 || c == 0xfeff || c == 0xfffd;
    if (!drop) append_char(out, is_space ? U' ' : c);
  });
}

Status normalize_by(const Charsmap& map, Piece& piece) {
  constexpr size_t kLongest = 6;  // bytes: longer graphemes are replaced character by character
  HG_TRY_ASSIGN(const std::vector<size_t> ends, grapheme_ends(piece.text));
  std::string out;
  size_t begin = 0;
  for (const size_t end : ends) {
    const std::string_view grapheme = std::string_view(piece.text).substr(begin, end - begin);
    begin = end;
    if (grapheme.size() < kLongest) {
      if (const auto with = map.replacement(grapheme)) {
        out += *with;
        continue;
      }
    }
    for (size_t at = 0; at < grapheme.size();) {
      const size_t first = at;
      next_char(grapheme, at);
      const std::string_view part = grapheme.substr(first, at - first);
      out += map.replacement(part).value_or(part);
    }
  }
  piece.text = std::move(out);
  return {};
}

Status replace(const Regex& regex, const std::string& content, Piece& piece) {
  HG_TRY_ASSIGN(const std::vector<Span> spans, regex.find(piece.text));
  std::string out;
  for (const Span& span : spans) {
    const std::string_view part =
        std::string_view(piece.text).substr(span.begin, span.end - span.begin);
    if (span.matches && span.begin == 0 && span.end > 0 &&
        (content.empty() || count_chars(part) > 1))
      piece.at_start = false;
    out += span.matches ? std::string_view(content) : part;
  }
  piece.text = std::move(out);
  return {};
}

using Read = Result<Normalizer> (*)(const JsonAt&, int depth);

template <NormalForm kForm>
Result<Normalizer> read_form(const JsonAt&, int) {
  return Normalizer([](Piece& piece) { return normalize(kForm, piece.text); });
}
template <void (*kStep)(Piece&)>
Result<Normalizer> read_step(const JsonAt&, int) {
  return Normalizer([](Piece& piece) {
    kStep(piece);
    return Status();
  });
}

void to_lowercase(Piece& piece) { piece.text = lowercase(piece.text); }
void to_byte_chars(Piece& piece) { piece.text = bytes_as_chars(piece.text); }
void strip_accents(Piece& piece) {
  each_char(piece, [](std::string& out, char32_t c) {
    if (!is_mark(c)) append_char(out, c);
  });
}

Result<Normalizer> read_strip(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const bool left, json.member("strip_left").flag());
  HG_TRY_ASSIGN(const bool right, json.member("strip_right").flag());
  return Normalizer([left, right](Piece& piece) {
    strip(piece, left, right);
    return Status();
  });
}

Result<Normalizer> read_bert(const JsonAt& json, int) {
  BertSettings settings{};
  HG_TRY_ASSIGN(settings.clean_text, json.member("clean_text").flag());
  HG_TRY_ASSIGN(settings.handle_chinese_chars, json.member("handle_chinese_chars").flag());
  HG_TRY_ASSIGN(settings.lowercase, json.member("lowercase").flag());
  HG_TRY_ASSIGN(settings.strip_accents, json.flag("strip_accents", settings.lowercase));
  return Normalizer([settings](Piece& piece) { return normalize_bert(settings, piece); });
}

Result<Normalizer> read_prepend(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string before, json.member("prepend").text());
  return Normalizer([before](Piece& piece) {
    if (!piece.text.empty()) piece.text.insert(0, before);
    return Status();
  });
}

Result<Normalizer> read_replace(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const Regex regex, pattern_from(json.member("pattern")));
  HG_TRY_ASSIGN(const std::string content, json.member("content").text());
  return Normalizer([regex, content](Piece& piece) { return replace(regex, content, piece); });
}

Result<Normalizer> read_precompiled(const JsonAt& json, int) {
  const JsonAt at = json.member("precompiled_charsmap");
  HG_TRY_ASSIGN(const std::string text, at.text());
  const Result<std::string> bytes = from_base64(text);
  if (!bytes.ok()) return at.wrong(bytes.status().message());
  const Result<Charsmap> map = Charsmap::read(*bytes);
  if (!map.ok()) return at.wrong(map.status().message());
  const auto shared = std::make_shared<const Charsmap>(*map);
  return Normalizer([shared](Piece& piece) { return normalize_by(*shared, piece); });
}

Result<Normalizer> read_sequence(const JsonAt& json, int depth) {
  const JsonAt list = json.member("normalizers");
  HG_TRY(list.is_list());
  std::vector<Normalizer> steps;
  for (size_t i = 0; i < list->size(); ++i) {
    HG_TRY_ASSIGN(Normalizer step, normalizer_from(list.item(i), depth + 1));
    steps.push_back(std::move(step));
  }
  return in_turn(std::move(steps));
}

constexpr std::pair<std::string_view, Read> kReaders[] = {
    {"NFC", read_form<NormalForm::nfc>},
    {"NFD", read_form<NormalForm::nfd>},
    {"NFKC", read_form<NormalForm::nfkc>},
    {"NFKD", read_form<NormalForm::nfkd>},
    {"Lowercase", read_step<to_lowercase>},
    {"ByteLevel", read_step<to_byte_chars>},
    {"StripAccents", read_step<strip_accents>},
    {"Nmt", read_step<normalize_nmt>},
    {"Strip", read_strip},
    {"BertNormalizer", read_bert},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Precompiled", read_precompiled},
    {"Sequence", read_sequence},
};

// GPT-2's table: printable Latin-1 characters represent themselves, other bytes are U+0100 and
// following.
struct ByteChars {
  std::array<char32_t, 256> chars{};
  std::array<int16_t, 0x144> bytes{};
};
constexpr ByteChars kByteChars = [] {
  ByteChars table;
  for (int16_t& byte : table.bytes) byte = -1;
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool is_printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const char32_t c = is_printable ? static_cast<char32_t>(b) : next++;
    table.chars[static_cast<size_t>(b)] = c;
    table.bytes[c] = static_cast<int16_t>(b);
  }
  return table;
}();

}  // namespace

Normalizer in_turn(std::vector<Normalizer> steps) {
  return [steps = std::move(steps)](Piece& piece) -> Status {
    for (const Normalizer& step : steps) HG_TRY(step(piece));
    return {};
  };
}

Result<Normalizer> normalizer_from(const JsonAt& json, int depth) {
  if (json.is_null()) return in_turn({});
  if (depth > kMostNested)
    return json.wrong("normalizers are nested more than ", kMostNested, " deep");
  HG_TRY_ASSIGN(const std::string type, json.member("type").text());
  for (const auto& [name, read] : kReaders)
    if (name == type) return read(json, depth);
  return json.unknown("the normalizer '", type, "' is unknown");
}

std::string bytes_as_chars(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) append_char(out, kByteChars.chars[static_cast<uint8_t>(b)]);
  return out;
}

int byte_of_char(char32_t c) { return c < kByteChars.bytes.size() ? kByteChars.bytes[c] : -1; }

}  // namespace hg
