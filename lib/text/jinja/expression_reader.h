// SPDX-License-Identifier: Apache-2.0
// Parses the expressions of a template by recursive descent, with jinja2's precedence.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lib/text/jinja/lexer.h"
#include "lib/text/jinja/syntax.h"

namespace hg::jinja {

class ExpressionReader {
 protected:
  ExpressionReader(std::vector<Word> words, std::string_view name)
      : words_(std::move(words)), name_(name) {}

  // The tokens. The reader never moves past the last one, `end`.
  const Word& word() const { return words_[at_]; }
  const Word& after() const { return words_[at_ + 1 < words_.size() ? at_ + 1 : at_]; }
  void skip() {
    if (at_ + 1 < words_.size()) ++at_;
  }
  bool is_sign(std::string_view sign) const {
    return word().kind == Word::Kind::sign && word().text == sign;
  }
  bool is_name(std::string_view name) const {
    return word().kind == Word::Kind::name && word().text == name;
  }
  bool take_sign(std::string_view sign) {
    const bool is_here = is_sign(sign);
    if (is_here) skip();
    return is_here;
  }
  bool take_name(std::string_view name) {
    const bool is_here = is_name(name);
    if (is_here) skip();
    return is_here;
  }
  template <class... Parts>
  Status fail(int line, const Parts&... parts) const {
    return syntax_error(name_, line, parts...);
  }
  std::string shown() const;  // the token, for messages
  Status expect_sign(std::string_view sign);
  Status expect_name(std::string_view name);
  Result<std::string> any_name();

  // One expression.
  Result<Expr> read_expression(bool conditional = true);
  // One expression, or several separated by commas. `end`: a name that may follow a trailing comma.
  Result<Expr> read_tuple(bool conditional, bool in_brackets, std::string_view end = "");
  // The filters of a tag, starting after the first bar or at a filter without one.
  Result<Expr> read_filter(Expr of);
  Result<Expr> read_filters(Expr first);
  Result<Expr> read_primary();

  // Both limits bound the stack of this reader and of a run.
  Status check_depth() const;
  int depth_ = 0;
  int levels_ = 0;  // operators of the outermost expression

  std::vector<std::string> used_;  // variables, in order

 private:
  using Read = Result<Expr> (ExpressionReader::*)();
  Status add_level(const Expression& made);
  Result<Expr> read_or();
  Result<Expr> read_and();
  Result<Expr> read_not();
  Result<Expr> read_compare();
  Result<Expr> read_sum();
  Result<Expr> read_join();
  Result<Expr> read_product();
  Result<Expr> read_power();
  Result<Expr> read_filtered();
  Result<Expr> read_unary();
  Result<Expr> read_postfix(Expr made);
  Result<Expr> read_attribute(Expr of);
  Result<Expr> read_subscript(Expr of);
  Result<Expr> read_call(Expr of);
  Result<Expr> read_test(Expr of);
  Result<Arguments> read_arguments();
  Result<Expr> read_chain(Expression::Kind kind, std::initializer_list<std::string_view> operators,
                          Read read);
  template <class F>
  Status read_items(std::string_view end, const F& read);

  std::vector<Word> words_;
  std::string_view name_;
  size_t at_ = 0;
};

}  // namespace hg::jinja
