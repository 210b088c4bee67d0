// SPDX-License-Identifier: Apache-2.0
// Splits a kernel's text into tokens. White space and comments, from '#' to the end of a line,
// separate tokens.
#include "lib/expression/token.h"

#include "lib/platform/chars.h"

namespace hg {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Longer operators first.
constexpr std::string_view kSigns[] = {
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "+", "-", "*", "/", "%",
    "<",  ">",  "=",  "!",  "&",  "|",  "^",  "~",  "?",  ":",  ";",  ",", "(", ")", "[", "]"};

class Splitter {
 public:
  Splitter(std::string_view text, std::vector<Token>& tokens, TextError& error)
      : text_(text), tokens_(tokens), error_(error) {}

  bool run() {
    for (;;) {
      skip();
      if (at_ == text_.size()) break;
      if (!next()) return false;
    }
    tokens_.push_back({.at = at_});
    return true;
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        ++at_;
      else
        break;
    }
  }

  bool fail(size_t at, std::string message) {
    error_ = {at, std::move(message)};
    return false;
  }

  bool next() {
    const char c = peek();
    if (is_letter(c)) return name();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (c == '\'' || c == '"') return word(c);
    for (const std::string_view sign : kSigns)
      if (text_.substr(at_).starts_with(sign)) {
        tokens_.push_back(
            {.kind = Token::Kind::sign, .at = at_, .text = text_.substr(at_, sign.size())});
        at_ += sign.size();
        return true;
      }
    if (c >= ' ' && c <= '~')
      return fail(at_, str_cat("'", std::string(1, c), "' means nothing here"));
    return fail(at_,
                str_cat("the byte ", int{static_cast<unsigned char>(c)}, " means nothing here"));
  }

  // Dots join the parts of a name: p.mass.
  bool name() {
    const size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek()) || (peek() == '.' && is_letter(peek(1)))) ++at_;
    tokens_.push_back(
        {.kind = Token::Kind::name, .at = begin, .text = text_.substr(begin, at_ - begin)});
    return true;
  }

  bool word(char quote) {
    const size_t begin = at_++;
    while (at_ < text_.size() && peek() != quote && peek() != '\n') ++at_;
    if (peek() != quote) return fail(begin, "the quote does not end");
    tokens_.push_back(
        {.kind = Token::Kind::word, .at = begin, .text = text_.substr(begin + 1, at_ - begin - 1)});
    ++at_;
    return true;
  }

  bool number() {
    const size_t begin = at_;
    const bool is_hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    bool is_real = false;
    if (is_hex) {
      at_ += 2;
      while (is_letter(peek()) || is_digit(peek())) ++at_;
    } else {
      while (is_digit(peek())) ++at_;
      if (peek() == '.') {
        is_real = true;
        ++at_;
        while (is_digit(peek())) ++at_;
      }
      const size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
      if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
        is_real = true;
        at_ += sign;
        while (is_digit(peek())) ++at_;
      }
    }
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (is_letter(peek()))
      return fail(begin, str_cat("a number cannot go on with '", std::string(1, peek()), "'"));
    Token token{
        .kind = is_real ? Token::Kind::real : Token::Kind::integer, .at = begin, .text = digits};
    const char* first = digits.data() + (is_hex ? 2 : 0);
    const char* last = digits.data() + digits.size();
    const std::from_chars_result read =
        is_real ? from_chars(first, last, token.real)
                : from_chars(first, last, token.integer, is_hex ? 16 : 10);
    if (read.ec == std::errc::result_out_of_range)
      return fail(begin, str_cat(digits, is_real ? " is no number of f64" : " does not fit i64"));
    if (read.ec != std::errc() || read.ptr != last)
      return fail(begin, str_cat(digits, " is no number"));
    tokens_.push_back(token);
    return true;
  }

  std::string_view text_;
  std::vector<Token>& tokens_;
  TextError& error_;
  size_t at_ = 0;
};

}  // namespace

bool split_into_tokens(std::string_view text, std::vector<Token>& tokens, TextError& error) {
  return Splitter(text, tokens, error).run();
}

}  // namespace hg
