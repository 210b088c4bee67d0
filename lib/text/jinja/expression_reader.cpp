// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/expression_reader.h"

#include <algorithm>

#include "lib/text/jinja/filters.h"
#include "lib/text/jinja/tests.h"

namespace hg::jinja {
namespace {

using Kind = Expression::Kind;

constexpr int kMostNestedSyntax = 100;
constexpr int kMostLevels = 500;

Expr make(Kind kind, int line) {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  return made;
}

Status add(Expr& to, Result<Expr> part) {
  HG_TRY_ASSIGN(Expr read, std::move(part));
  to->parts.push_back(std::move(read));
  return {};
}

}  // namespace

std::string ExpressionReader::shown() const {
  switch (word().kind) {
    case Word::Kind::end:
      return "the end of the template";
    case Word::Kind::print_end:
      return "'}}'";
    case Word::Kind::tag_end:
      return "'%}'";
    case Word::Kind::text:
      return str_cat("the text '", word().text, "'");
    default:
      return str_cat("'", word().text, "'");
  }
}
Status ExpressionReader::expect_sign(std::string_view sign) {
  if (take_sign(sign)) return {};
  return fail(word().line, "expected '", sign, "', got ", shown());
}
Status ExpressionReader::expect_name(std::string_view name) {
  if (take_name(name)) return {};
  return fail(word().line, "expected '", name, "', got ", shown());
}
Result<std::string> ExpressionReader::any_name() {
  if (word().kind != Word::Kind::name) return fail(word().line, "expected a name, got ", shown());
  std::string name = word().text;
  skip();
  return name;
}
Status ExpressionReader::check_depth() const {
  if (depth_ > kMostNestedSyntax)
    return fail(word().line, "the template is nested more than ", kMostNestedSyntax, " deep");
  return {};
}

Result<Expr> ExpressionReader::read_expression(bool conditional) {
  const Deeper deeper(depth_);
  HG_TRY(check_depth());
  int line = word().line;
  HG_TRY_ASSIGN(Expr left, read_or());
  while (conditional && take_name("if")) {
    Expr made = make(Kind::conditional, line);
    made->parts.push_back(std::move(left));
    HG_TRY(add(made, read_or()));
    Expr otherwise;
    if (take_name("else")) {
      HG_TRY_ASSIGN(otherwise, read_expression());
    }
    made->parts.push_back(std::move(otherwise));
    left = std::move(made);
    HG_TRY(add_level(*left));
  }
  return left;
}

// A chain of operators creates a deep tree without deep recursion here, so its length is limited
// too.
Status ExpressionReader::add_level(const Expression& made) {
  if (++levels_ > kMostLevels)
    return fail(made.line, "an expression has more than ", kMostLevels, " operators in a row");
  return {};
}

// Operators of one precedence, from left to right: signs, or the words of logic.
Result<Expr> ExpressionReader::read_chain(Kind kind,
                                          std::initializer_list<std::string_view> operators,
                                          Read read) {
  const Word::Kind wanted = kind == Kind::binary ? Word::Kind::sign : Word::Kind::name;
  HG_TRY_ASSIGN(Expr left, (this->*read)());
  while (word().kind == wanted &&
         std::find(operators.begin(), operators.end(), word().text) != operators.end()) {
    Expr made = make(kind, word().line);
    made->name = word().text;
    skip();
    made->parts.push_back(std::move(left));
    HG_TRY(add(made, (this->*read)()));
    left = std::move(made);
    HG_TRY(add_level(*left));
  }
  return left;
}
Result<Expr> ExpressionReader::read_or() {
  return read_chain(Kind::logic_or, {"or"}, &ExpressionReader::read_and);
}
Result<Expr> ExpressionReader::read_and() {
  return read_chain(Kind::logic_and, {"and"}, &ExpressionReader::read_not);
}
Result<Expr> ExpressionReader::read_not() {
  if (!is_name("not")) return read_compare();
  const Deeper deeper(depth_);
  HG_TRY(check_depth());
  Expr made = make(Kind::logic_not, word().line);
  skip();
  HG_TRY(add(made, read_not()));
  return made;
}

Result<Expr> ExpressionReader::read_compare() {
  const int line = word().line;
  HG_TRY_ASSIGN(Expr left, read_sum());
  Expr made;
  while (true) {
    std::string name;
    constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
    for (const std::string_view sign : kSigns)
      if (is_sign(sign)) name = sign;
    if (is_name("in")) {
      name = "in";
    } else if (is_name("not") && after().kind == Word::Kind::name && after().text == "in") {
      name = "not in";
      skip();
    }
    if (name.empty()) break;
    skip();
    if (!made) {
      made = make(Kind::compare, line);
      made->parts.push_back(std::move(left));
    }
    HG_TRY_ASSIGN(Expr right, read_sum());
    made->operators.push_back(std::move(name));
    made->parts.push_back(std::move(right));
  }
  if (made) return made;
  return left;
}

Result<Expr> ExpressionReader::read_sum() {
  return read_chain(Kind::binary, {"+", "-"}, &ExpressionReader::read_join);
}
Result<Expr> ExpressionReader::read_join() {
  HG_TRY_ASSIGN(Expr left, read_product());
  if (!is_sign("~")) return left;
  Expr made = make(Kind::join, word().line);
  made->parts.push_back(std::move(left));
  while (take_sign("~")) {
    HG_TRY(add(made, read_product()));
  }
  return made;
}
Result<Expr> ExpressionReader::read_product() {
  return read_chain(Kind::binary, {"*", "/", "//", "%"}, &ExpressionReader::read_power);
}
Result<Expr> ExpressionReader::read_power() {
  return read_chain(Kind::binary, {"**"}, &ExpressionReader::read_filtered);
}
Result<Expr> ExpressionReader::read_filtered() {
  HG_TRY_ASSIGN(Expr made, read_unary());
  while (true) {
    if (is_sign("|")) {
      skip();
      HG_TRY_ASSIGN(made, read_filter(std::move(made)));
    } else if (is_name("is")) {
      HG_TRY_ASSIGN(made, read_test(std::move(made)));
    } else if (is_sign("(")) {
      HG_TRY_ASSIGN(made, read_call(std::move(made)));
    } else {
      return made;
    }
    HG_TRY(add_level(*made));
  }
}
Result<Expr> ExpressionReader::read_unary() {
  const Deeper deeper(depth_);
  HG_TRY(check_depth());
  Expr made;
  if (is_sign("-") || is_sign("+")) {
    made = make(Kind::unary, word().line);
    made->name = word().text;
    skip();
    HG_TRY(add(made, read_unary()));
  } else {
    HG_TRY_ASSIGN(made, read_primary());
  }
  return read_postfix(std::move(made));
}

Result<Expr> ExpressionReader::read_postfix(Expr made) {
  while (true) {
    if (is_sign(".")) {
      HG_TRY_ASSIGN(made, read_attribute(std::move(made)));
    } else if (is_sign("[")) {
      HG_TRY_ASSIGN(made, read_subscript(std::move(made)));
    } else if (is_sign("(")) {
      HG_TRY_ASSIGN(made, read_call(std::move(made)));
    } else {
      return made;
    }
    HG_TRY(add_level(*made));
  }
}

Result<Expr> ExpressionReader::read_primary() {
  const Deeper deeper(depth_);
  HG_TRY(check_depth());
  const Word& first = word();
  Expr made = make(Kind::constant, first.line);
  switch (first.kind) {
    case Word::Kind::name:
      skip();
      if (first.text == "true" || first.text == "True") {
        made->value = Value::flag(true);
      } else if (first.text == "false" || first.text == "False") {
        made->value = Value::flag(false);
      } else if (first.text == "none" || first.text == "None") {
        made->value = Value::none();
      } else {
        made->kind = Kind::name;
        made->name = first.text;
        used_.push_back(first.text);
      }
      return made;
    case Word::Kind::text: {
      std::string text;
      for (; word().kind == Word::Kind::text; skip()) text += word().text;
      made->value = Value::text(std::move(text));
      return made;
    }
    case Word::Kind::whole:
      made->value = Value::whole(first.whole);
      skip();
      return made;
    case Word::Kind::real:
      made->value = Value::real(first.real);
      skip();
      return made;
    case Word::Kind::sign:
      if (take_sign("(")) {
        HG_TRY_ASSIGN(made, read_tuple(true, true));
        HG_TRY(expect_sign(")"));
        return made;
      }
      if (take_sign("[")) {
        made->kind = Kind::list;
        HG_TRY(read_items("]", [&] { return add(made, read_expression()); }));
        return made;
      }
      if (take_sign("{")) {
        made->kind = Kind::dict;
        HG_TRY(read_items("}", [&]() -> Status {
          HG_TRY_ASSIGN(Expr key, read_expression());
          HG_TRY(expect_sign(":"));
          HG_TRY_ASSIGN(Expr value, read_expression());
          made->parts.push_back(std::move(key));
          made->parts.push_back(std::move(value));
          return {};
        }));
        return made;
      }
      break;
    default:
      break;
  }
  return fail(first.line, "expected an expression, got ", shown());
}

// Items separated by commas, with an optional trailing comma, up to a bracket.
template <class F>
Status ExpressionReader::read_items(std::string_view end, const F& read) {
  for (bool is_first = true; !take_sign(end); is_first = false) {
    if (!is_first) {
      HG_TRY(expect_sign(","));
      if (take_sign(end)) return {};
    }
    HG_TRY(read());
  }
  return {};
}

Result<Expr> ExpressionReader::read_tuple(bool conditional, bool in_brackets,
                                          std::string_view end) {
  Expr made = make(Kind::tuple, word().line);
  bool is_tuple = false;
  while (true) {
    if (word().kind == Word::Kind::print_end || word().kind == Word::Kind::tag_end ||
        is_sign(")") || (!end.empty() && is_name(end)))
      break;
    HG_TRY(add(made, read_expression(conditional)));
    if (!take_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && made->parts.size() == 1) return std::move(made->parts[0]);
  if (!is_tuple && !in_brackets) return fail(word().line, "expected an expression, got ", shown());
  return made;
}

Result<Expr> ExpressionReader::read_attribute(Expr of) {
  Expr made = make(Kind::attribute, word().line);
  skip();
  if (word().kind == Word::Kind::whole) {
    made->kind = Kind::subscript;
    made->parts.push_back(std::move(of));
    made->parts.push_back(make(Kind::constant, word().line));
    made->parts.back()->value = Value::whole(word().whole);
    skip();
    return made;
  }
  HG_TRY_ASSIGN(made->name, any_name());
  made->parts.push_back(std::move(of));
  return made;
}

Result<Expr> ExpressionReader::read_subscript(Expr of) {
  Expr made = make(Kind::subscript, word().line);
  skip();
  made->parts.push_back(std::move(of));
  Expr first;
  if (!is_sign(":")) {
    HG_TRY_ASSIGN(first, read_expression());
  }
  made->parts.push_back(std::move(first));
  if (is_sign(":")) {
    made->kind = Kind::slice;
    for (int part = 0; part < 2; ++part) {
      Expr bound;
      if (take_sign(":") && !is_sign(":") && !is_sign("]")) {
        HG_TRY_ASSIGN(bound, read_expression());
      }
      made->parts.push_back(std::move(bound));
    }
  }
  if (is_sign(",")) return fail(word().line, "subscripts of several values are not supported");
  HG_TRY(expect_sign("]"));
  return made;
}

Result<Arguments> ExpressionReader::read_arguments() {
  Arguments arguments;
  HG_TRY(expect_sign("("));
  HG_TRY(read_items(")", [&]() -> Status {
    if (is_sign("*") || is_sign("**"))
      return fail(word().line, "'", word().text, "' before an argument is not supported");
    if (word().kind == Word::Kind::name && after().kind == Word::Kind::sign &&
        after().text == "=") {
      std::string name = word().text;
      for (const auto& [other, unused] : arguments.named)
        if (other == name) return fail(word().line, "the argument '", name, "' is given twice");
      skip();
      skip();
      HG_TRY_ASSIGN(Expr value, read_expression());
      arguments.named.emplace_back(std::move(name), std::move(value));
      return {};
    }
    if (!arguments.named.empty())
      return fail(word().line, "an argument without a name follows one with a name");
    HG_TRY_ASSIGN(Expr value, read_expression());
    arguments.in_order.push_back(std::move(value));
    return {};
  }));
  return arguments;
}
Result<Expr> ExpressionReader::read_call(Expr of) {
  Expr made = make(Kind::call, word().line);
  made->parts.push_back(std::move(of));
  HG_TRY_ASSIGN(made->arguments, read_arguments());
  return made;
}

// After the bar. `of` is null for the first filter of a block.
Result<Expr> ExpressionReader::read_filter(Expr of) {
  Expr made = make(Kind::filter, word().line);
  HG_TRY_ASSIGN(made->name, any_name());
  made->filter = find_filter(made->name);
  if (made->filter == nullptr)
    return fail(made->line, "the filter '", made->name, "' is not supported");
  made->parts.push_back(std::move(of));
  if (is_sign("(")) {
    HG_TRY_ASSIGN(made->arguments, read_arguments());
  }
  return made;
}
Result<Expr> ExpressionReader::read_filters(Expr first) {
  while (take_sign("|")) {
    HG_TRY_ASSIGN(first, read_filter(std::move(first)));
    HG_TRY(add_level(*first));
  }
  return first;
}

Result<Expr> ExpressionReader::read_test(Expr of) {
  Expr made = make(Kind::test, word().line);
  skip();
  const bool is_negated = take_name("not");
  HG_TRY_ASSIGN(made->name, any_name());
  made->test = find_test(made->name);
  if (made->test == nullptr)
    return fail(made->line, "the test '", made->name, "' is not supported");
  made->parts.push_back(std::move(of));
  const bool has_value =
      word().kind == Word::Kind::text || word().kind == Word::Kind::whole ||
      word().kind == Word::Kind::real || is_sign("[") || is_sign("{") ||
      (word().kind == Word::Kind::name && !is_name("else") && !is_name("or") && !is_name("and"));
  if (is_sign("(")) {
    HG_TRY_ASSIGN(made->arguments, read_arguments());
  } else if (has_value) {
    if (is_name("is")) return fail(word().line, "tests cannot be chained with 'is'");
    HG_TRY_ASSIGN(Expr argument, read_primary());
    HG_TRY_ASSIGN(argument, read_postfix(std::move(argument)));
    made->arguments.in_order.push_back(std::move(argument));
  }
  if (!is_negated) return made;
  Expr negated = make(Kind::logic_not, made->line);
  negated->parts.push_back(std::move(made));
  return negated;
}

}  // namespace hg::jinja
