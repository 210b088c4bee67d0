// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "lib/text/jinja/chars.h"
#include "lib/text/unicode.h"

namespace hg::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Newlines become
// . One newline at the end is dropped.
std::string with_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name)
      : owned_(with_newlines(source)), source_(owned_), name_(name) {}

  Result<std::vector<Word>> run() {
    while (at_ < source_.size()) HG_TRY(read_data());
    push(Word::Kind::end, "");
    return std::move(words_);
  }

 private:
  template <class... Parts>
  Status fail(const Parts&... parts) {
    return syntax_error(name_, line(), parts...);
  }
  int line() {
    for (; counted_ < std::min(at_, source_.size()); ++counted_)
      line_ += source_[counted_] == '\n' ? 1 : 0;
    return line_;
  }
  void push(Word::Kind kind, std::string text) {
    words_.push_back({kind, line(), std::move(text)});
  }
  bool is_at(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  void skip_spaces() {
    const std::string_view rest = source_.substr(at_);
    at_ += rest.size() - strip_left(rest).size();
  }

  // Text up to a tag, and the sign after the tag's opening.
  void push_data(std::string_view text, char sign, bool is_print) {
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && !is_print) {
      const size_t newline = text.rfind('\n');
      const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((begin > 0 || line_starts_) && strip_left(text.substr(begin)).empty())
        text = text.substr(0, begin);
    }
    if (!text.empty()) push(Word::Kind::data, std::string(text));
  }

  // Consumes the end of a tag or comment: "+%}", "-%}" and spaces, or "%}" and a newline.
  bool take_end(std::string_view mark) {
    const size_t begin = at_;
    const char sign = at_ < source_.size() ? source_[at_] : '\0';
    if (sign == '-' || sign == '+') ++at_;
    if (!is_at(mark)) {
      at_ = begin;
      return false;
    }
    at_ += mark.size();
    if (sign == '-')
      skip_spaces();
    else if (sign != '+' && is_at("\n"))
      ++at_;
    line_starts_ = source_[at_ - 1] == '\n';
    return true;
  }

  char take_sign() {
    if (!is_at("-") && !is_at("+")) return '\0';
    return source_[at_++];
  }

  Status read_data() {
    size_t tag = source_.find('{', at_);
    while (tag != std::string_view::npos &&
           (tag + 1 == source_.size() ||
            std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos))
      tag = source_.find('{', tag + 1);
    const std::string_view text = source_.substr(at_, tag - at_);
    if (tag == std::string_view::npos) {
      push(Word::Kind::data, std::string(text));
      at_ = source_.size();
      return {};
    }
    const char kind = source_[tag + 1];
    const size_t sign_at = tag + 2;
    const char sign =
        sign_at < source_.size() && (source_[sign_at] == '-' || source_[sign_at] == '+')
            ? source_[sign_at]
            : '\0';
    push_data(text, sign, kind == '{');
    at_ = tag + 2;
    take_sign();
    line_starts_ = false;
    if (kind == '#') return read_comment();
    if (kind == '%' && take_raw_begin()) return read_raw();
    push(kind == '{' ? Word::Kind::print_begin : Word::Kind::tag_begin, "");
    return read_tag(kind == '{');
  }

  Status read_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return fail("the comment has no end");
    // A sign belongs to the end of the comment if a character remains for it.
    const bool has_sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    at_ = has_sign ? end - 1 : end;
    take_end("#}");
    return {};
  }

  bool take_raw_begin() {
    const size_t begin = at_;
    skip_spaces();
    if (is_at("raw")) {
      at_ += 3;
      skip_spaces();
      if (is_at("-%}")) {
        at_ += 3;
        skip_spaces();
        line_starts_ = source_[at_ - 1] == '\n';
        return true;
      }
      if (is_at("%}")) {
        at_ += 2;
        return true;
      }
    }
    at_ = begin;
    return false;
  }

  Status read_raw() {
    const size_t begin = at_;
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 1)) {
      at_ = tag + 2;
      const char sign = take_sign();
      skip_spaces();
      if (!is_at("endraw")) continue;
      at_ += 6;
      skip_spaces();
      const bool line_starts = line_starts_;
      if (!take_end("%}")) continue;
      const bool behind = line_starts_;
      const size_t end = at_;
      at_ = begin;  // for the line number of the text
      line_starts_ = line_starts;
      push_data(source_.substr(begin, tag - begin), sign, false);
      line_starts_ = behind;
      at_ = end;
      return {};
    }
    at_ = begin;
    return fail("the tag 'raw' has no 'endraw'");
  }

  Status read_tag(bool is_print) {
    std::string brackets;
    while (true) {
      if (brackets.empty()) {
        if (is_print) {
          if (is_at("-}}") || is_at("}}")) {
            const bool strips = is_at("-}}");
            at_ += strips ? 3 : 2;
            if (strips) skip_spaces();
            line_starts_ = source_[at_ - 1] == '\n';
            push(Word::Kind::print_end, "");
            return {};
          }
        } else if (take_end("%}")) {
          push(Word::Kind::tag_end, "");
          return {};
        }
      }
      const size_t before = at_;
      skip_spaces();
      if (at_ != before) continue;
      if (at_ >= source_.size()) return fail("the template ends in a tag");
      HG_TRY(read_word(brackets));
    }
  }

  Status read_word(std::string& brackets) {
    const char c = source_[at_];
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_text(c);
    if (begins_name(c)) {
      const size_t begin = at_;
      while (at_ < source_.size() && (begins_name(source_[at_]) || is_digit(source_[at_]))) ++at_;
      if (at_ < source_.size() && static_cast<uint8_t>(source_[at_]) >= 0x80)
        return fail("names with letters outside ASCII are not supported");
      push(Word::Kind::name, std::string(source_.substr(begin, at_ - begin)));
      return {};
    }
    constexpr std::string_view kSigns[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ","};
    for (const std::string_view sign : kSigns) {
      if (!is_at(sign)) continue;
      if (sign == "(" || sign == "[" || sign == "{") {
        brackets += sign == "(" ? ')' : sign == "[" ? ']' : '}';
      } else if (sign == ")" || sign == "]" || sign == "}") {
        if (brackets.empty() || brackets.back() != sign[0])
          return fail("unexpected '", sign, "'",
                      brackets.empty()
                          ? ""
                          : str_cat(", expected '", brackets.substr(brackets.size() - 1), "'"));
        brackets.pop_back();
      }
      push(Word::Kind::sign, std::string(sign));
      at_ += sign.size();
      return {};
    }
    size_t end = at_;
    next_char(source_, end);
    return fail("unexpected character '", source_.substr(at_, end - at_), "'");
  }

  // Digits with single underscores between them.
  size_t digits_from(size_t at) const {
    while (at < source_.size() &&
           (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                      is_digit(source_[at + 1]) && is_digit(source_[at - 1]))))
      ++at;
    return at;
  }

  Status read_number() {
    const size_t begin = at_;
    const auto digit_at = [&](size_t at) { return at < source_.size() && is_digit(source_[at]); };
    size_t end = digits_from(begin);
    bool is_real = false;
    const bool behind_dot = begin > 0 && source_[begin - 1] == '.';
    if (!behind_dot) {
      if (end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
        end = digits_from(end + 1);
        is_real = true;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
          ++exponent;
        if (digit_at(exponent)) {
          end = digits_from(exponent);
          is_real = true;
        }
      }
    }
    std::string digits(source_.substr(begin, end - begin));
    std::erase(digits, '_');
    Word word{is_real ? Word::Kind::real : Word::Kind::whole, line(), digits};
    const char* const first = digits.data();
    const char* const last = first + digits.size();
    const auto [stop, error] = is_real ? std::from_chars(first, last, word.real)
                                       : std::from_chars(first, last, word.whole);
    if (error != std::errc() || stop != last) return fail("the number ", digits, " is too large");
    const bool leads = !is_real && digits.size() > 1 && digits[0] == '0' && word.whole != 0;
    if (leads || (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))))
      return fail("the number ", source_.substr(begin, end + 1 - begin), " is not supported");
    words_.push_back(std::move(word));
    at_ = end;
    return {};
  }

  Status read_text(char mark) {
    Word word{Word::Kind::text, line(), ""};
    for (size_t at = at_ + 1; at < source_.size(); ++at) {
      const char c = source_[at];
      if (c == mark) {
        words_.push_back(std::move(word));
        at_ = at + 1;
        return {};
      }
      if (c != '\\') {
        word.text += c;
        continue;
      }
      if (++at == source_.size()) break;
      HG_TRY(read_escape(at, word.text));
    }
    return fail("the text has no end");
  }

  // `at` is after a backslash. Moves it to the last character of the escape.
  Status read_escape(size_t& at, std::string& out) {
    constexpr std::string_view kNames = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = source_[at];
    if (c == '\n') return {};
    if (const size_t known = kNames.find(c); known != std::string_view::npos) {
      out += kMeanings[known];
      return {};
    }
    if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t end = at;
      while (end < std::min(at + 3, source_.size()) && source_[end] >= '0' && source_[end] <= '7')
        code = code * 8 + static_cast<uint32_t>(source_[end++] - '0');
      append_char(out, code);
      at = end - 1;
      return {};
    }
    if (static_cast<uint8_t>(c) >= 0x80)
      return fail("a backslash before a letter outside ASCII is not supported");
    if (c == 'N') return fail("the escape \\N is not supported");
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {  // not an escape sequence
      out += '\\';
      out += c;
      return {};
    }
    uint32_t code = 0;
    const std::string_view hex = source_.substr(at + 1, digits);
    const auto [stop, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (hex.size() != digits || error != std::errc() || stop != hex.data() + digits)
      return fail("the escape \\", source_.substr(at, 1), " needs ", uint64_t{digits},
                  " hexadecimal digits");
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
      return fail("the escape \\", source_.substr(at, 1), hex, " is not a character");
    append_char(out, code);
    at += digits;
    return {};
  }

  const std::string owned_;
  const std::string_view source_, name_;
  size_t at_ = 0, counted_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Word> words_;
};

}  // namespace

Result<std::vector<Word>> words_of_template(std::string_view source, std::string_view name) {
  return Lexer(source, name).run();
}

}  // namespace hg::jinja
