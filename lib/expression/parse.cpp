// SPDX-License-Identifier: Apache-2.0
// Parses a kernel's text by recursive descent, one function per level of precedence. The levels are
// those of Python; and, or, not and ?: may also be written as in C.
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <span>

#include "lib/expression/syntax.h"
#include "lib/expression/token.h"

namespace hg {
namespace {

using Kind = Syntax::Expression::Kind;

constexpr int kMostNested = 200;
constexpr size_t kMostExpressions = 1 << 16;
constexpr int kNone = -1;  // no expression, because of an error

struct Operator {
  std::string_view sign, function;
};
constexpr Operator kOr[] = {{"or", "logical_or"}, {"||", "logical_or"}};
constexpr Operator kAnd[] = {{"and", "logical_and"}, {"&&", "logical_and"}};
constexpr Operator kCompare[] = {{"==", "eq"}, {"!=", "ne"}, {"<", "lt"},
                                 {"<=", "le"}, {">", "gt"},  {">=", "ge"}};
constexpr Operator kBitOr[] = {{"|", "bitwise_or"}};
constexpr Operator kBitXor[] = {{"^", "bitwise_xor"}};
constexpr Operator kBitAnd[] = {{"&", "bitwise_and"}};
constexpr Operator kShift[] = {{"<<", "bitwise_left_shift"}, {">>", "bitwise_right_shift"}};
constexpr Operator kSum[] = {{"+", "add"}, {"-", "sub"}};
constexpr Operator kProduct[] = {
    {"*", "mul"}, {"/", "div"}, {"//", "floor_divide"}, {"%", "remainder"}};
// From the lowest precedence. `not` is between the second and the third level.
constexpr std::span<const Operator> kLevels[] = {kOr,     kAnd,   kCompare, kBitOr,  kBitXor,
                                                 kBitAnd, kShift, kSum,     kProduct};
constexpr size_t kCompareLevel = 2;

constexpr std::string_view kReserved[] = {"let",   "and", "or",  "not", "true",
                                          "false", "pi",  "inf", "nan"};

bool is_reserved(std::string_view name) {
  for (const std::string_view word : kReserved)
    if (word == name) return true;
  return false;
}

class Parser {
 public:
  Parser(Syntax& syntax, const std::vector<Syntax::Parameter>* parameters) : syntax_(syntax) {
    if (parameters == nullptr) return;
    are_declared_ = true;
    for (const Syntax::Parameter& parameter : *parameters) declare(parameter, 0);
  }

  bool run(TextError& error) {
    if (split_into_tokens(syntax_.text, tokens_, error_)) statements();
    error = error_;
    return error_.message.empty();
  }

 private:
  const Token& token() const { return tokens_[next_]; }
  bool is_end() const { return token().kind == Token::Kind::end; }
  bool take(std::string_view sign) {
    if (!token().is(sign)) return false;
    ++next_;
    return true;
  }
  template <class... Parts>
  int fail(size_t at, const Parts&... parts) {
    if (error_.message.empty()) error_ = {at, str_cat(parts...)};
    return kNone;
  }
  std::string found() const {
    return is_end() ? "the text ends" : str_cat("'", token().text, "' stands");
  }
  bool expect(std::string_view sign) {
    if (take(sign)) return true;
    fail(token().at, found(), " where '", sign, "' was expected");
    return false;
  }

  int add(Syntax::Expression expression) {
    if (syntax_.expressions.size() == kMostExpressions)
      return fail(expression.at, "there are more than ", int64_t{kMostExpressions}, " operations");
    syntax_.expressions.push_back(std::move(expression));
    return static_cast<int>(syntax_.expressions.size()) - 1;
  }
  int call(size_t at, std::string_view function, std::vector<int> arguments) {
    for (const int argument : arguments)
      if (argument == kNone) return kNone;
    return add({.kind = Kind::call,
                .at = at,
                .name = std::string(function),
                .arguments = std::move(arguments)});
  }
  int real(size_t at, double value) { return add({.kind = Kind::real, .at = at, .real = value}); }

  // -- Names --------------------------------------------------------------------------------------

  int declare(Syntax::Parameter parameter, size_t at) {
    const auto index = static_cast<int64_t>(syntax_.parameters.size());
    const int expression = add({.kind = Kind::parameter, .at = at, .integer = index});
    names_[parameter.name] = expression;
    syntax_.parameters.push_back(std::move(parameter));
    return expression;
  }

  int named(const Token& name) {
    if (const auto found = names_.find(std::string(name.text)); found != names_.end())
      return found->second;
    const size_t dot = name.text.rfind('.');
    if (dot != std::string_view::npos && name.text.size() == dot + 2) {
      const auto vector = names_.find(std::string(name.text.substr(0, dot)));
      const size_t component = std::string_view("xyzw").find(name.text.back());
      if (vector != names_.end() && component != std::string_view::npos)
        return component_of(name.at, vector->second, static_cast<int64_t>(component));
    }
    if (are_declared_) return fail(name.at, "'", name.text, "' is not declared");
    return declare({.name = std::string(name.text)}, name.at);
  }

  int component_of(size_t at, int vector, int64_t index) {
    if (vector == kNone) return kNone;
    return add({.kind = Kind::call,
                .at = at,
                .name = "component",
                .integer = index,
                .arguments = {vector}});
  }

  // -- Declarations and statements ----------------------------------------------------------------

  // Whether the text begins with "(...) ->".
  bool has_declarations() const {
    if (!token().is("(")) return false;
    size_t i = next_;
    for (int depth = 0; tokens_[i].kind != Token::Kind::end; ++i) {
      depth += tokens_[i].is("(") ? 1 : tokens_[i].is(")") ? -1 : 0;
      if (depth == 0) return tokens_[i + 1].is("->");
    }
    return false;
  }

  // name [: dtype [ '[' components ']' ]] [= number]
  void declaration() {
    const Token name = token();
    if (name.kind != Token::Kind::name || is_reserved(name.text)) {
      fail(name.at, found(), " where the name of a parameter was expected");
      return;
    }
    if (names_.contains(std::string(name.text))) {
      fail(name.at, "there are two parameters '", name.text, "'");
      return;
    }
    ++next_;
    Syntax::Parameter parameter{.name = std::string(name.text)};
    if (take(":")) {
      const Result<DType> dtype = parse_dtype(token().text);
      if (!dtype.ok() || is_complex(*dtype)) {
        fail(token().at, found(), " where a dtype such as f32 was expected");
        return;
      }
      parameter.dtype = *dtype;
      ++next_;
    }
    if (take("[")) {
      if (token().kind != Token::Kind::integer || token().integer < 1 || token().integer > 16) {
        fail(token().at, found(), " where 1 to 16 components were expected");
        return;
      }
      parameter.components = static_cast<int>(token().integer);
      ++next_;
      if (!expect("]")) return;
    }
    if (take("=")) {
      parameter.fallback = unary(0);
      if (parameter.fallback == kNone) return;
      const Kind kind = syntax_.expressions[parameter.fallback].kind;
      if (kind != Kind::integer && kind != Kind::real && kind != Kind::boolean) {
        fail(name.at, "the default of '", name.text, "' is not a number");
        return;
      }
    }
    declare(std::move(parameter), name.at);
  }

  void declarations() {
    ++next_;
    are_declared_ = true;
    while (error_.message.empty() && !take(")")) {
      declaration();
      if (!take(",") && !token().is(")")) expect(")");
    }
    if (error_.message.empty()) expect("->");
  }

  void statements() {
    if (has_declarations()) declarations();
    while (error_.message.empty() && !is_end()) {
      statement();
      if (error_.message.empty() && !is_end()) expect(";");
    }
    if (error_.message.empty() && syntax_.outputs.empty())
      fail(syntax_.text.size(), "the text gives no result");
  }

  void statement() {
    const size_t at = token().at;
    const bool is_local = take("let");
    if (is_local && !tokens_[next_ + (is_end() ? 0 : 1)].is("=")) {
      fail(token().at, found(), " where 'name = ...' was expected");
      return;
    }
    if (token().kind != Token::Kind::name || !tokens_[next_ + 1].is("=")) {
      const int result = expression(0);
      if (result == kNone) return;
      if (take(";") && !is_end()) {
        fail(token().at, "something follows the result; name it, or bind it with let");
        return;
      }
      if (is_end() && !syntax_.outputs.empty()) {
        fail(at, "the last result has no name, but '", syntax_.outputs[0].name,
             "' has; name it too, or bind '", syntax_.outputs[0].name, "' with let");
        return;
      }
      syntax_.outputs.push_back({"out", result});
      return;
    }
    const Token name = token();
    next_ += 2;
    const int value = expression(0);
    if (value == kNone) return;
    if (is_reserved(name.text) || name.text.find('.') != std::string_view::npos) {
      fail(name.at, "'", name.text, "' cannot be given a value");
      return;
    }
    if (names_.contains(std::string(name.text))) {
      fail(name.at, "'", name.text, "' has a value already");
      return;
    }
    names_[std::string(name.text)] = value;
    if (!is_local) syntax_.outputs.push_back({std::string(name.text), value});
  }

  // -- Expressions --------------------------------------------------------------------------------

  bool is_too_deep(int depth) {
    if (depth < kMostNested) return false;
    fail(token().at, "more than ", kMostNested, " parentheses are open");
    return true;
  }

  // condition ? a : b
  int expression(int depth) {
    if (is_too_deep(depth)) return kNone;
    const int condition = binary(0, depth);
    if (condition == kNone || !token().is("?")) return condition;
    const size_t at = tokens_[next_++].at;
    const int yes = expression(depth + 1);
    if (yes == kNone || !expect(":")) return kNone;
    return call(at, "where", {condition, yes, expression(depth + 1)});
  }

  int binary(size_t level, int depth) {
    if (level == std::size(kLevels)) return unary(depth);
    if (level == kCompareLevel && (token().is("not") || token().is("!"))) {
      if (is_too_deep(depth)) return kNone;
      const size_t at = tokens_[next_++].at;
      return call(at, "logical_not", {binary(level, depth + 1)});
    }
    int left = binary(level + 1, depth);
    for (int count = 0; left != kNone; ++count) {
      const Operator* found = nullptr;
      for (const Operator& one : kLevels[level])
        if (token().is(one.sign)) found = &one;
      if (found == nullptr) break;
      if (level == kCompareLevel && count > 0)
        return fail(token().at, "comparisons do not chain: write a < b and b < c");
      const size_t at = tokens_[next_++].at;
      left = call(at, found->function, {left, binary(level + 1, depth)});
    }
    return left;
  }

  int unary(int depth) {
    if (is_too_deep(depth)) return kNone;
    const size_t at = token().at;
    if (take("+")) return unary(depth + 1);
    if (take("~")) return call(at, "bitwise_not", {unary(depth + 1)});
    if (!take("-")) return power(depth);
    const bool is_literal =
        token().kind == Token::Kind::integer || token().kind == Token::Kind::real;
    const bool is_base = is_literal && tokens_[next_ + 1].is("**");
    const int value = unary(depth + 1);
    if (value == kNone) return kNone;
    Syntax::Expression& number = syntax_.expressions[value];
    if (!is_literal || is_base || number.kind == Kind::call) return call(at, "neg", {value});
    number.integer = -number.integer;
    number.real = -number.real;
    number.at = at;
    return value;
  }

  // Binds tighter than a preceding sign, and to the right: -a ** b ** c is -(a ** (b ** c)).
  int power(int depth) {
    const int base = component(depth);
    if (base == kNone || !token().is("**")) return base;
    const size_t at = tokens_[next_++].at;
    return call(at, "pow", {base, unary(depth + 1)});
  }

  int component(int depth) {
    int value = primary(depth);
    while (value != kNone && token().is("[")) {
      const size_t at = tokens_[next_++].at;
      if (token().kind != Token::Kind::integer)
        return fail(token().at, found(), " where the number of a component was expected");
      const int64_t index = tokens_[next_++].integer;
      if (!expect("]")) return kNone;
      value = component_of(at, value, index);
    }
    return value;
  }

  int primary(int depth) {
    const Token first = token();
    if (take("(")) {
      const int inner = expression(depth + 1);
      return inner != kNone && expect(")") ? inner : kNone;
    }
    if (first.kind == Token::Kind::integer) {
      ++next_;
      return add({.kind = Kind::integer, .at = first.at, .integer = first.integer});
    }
    if (first.kind == Token::Kind::real) {
      ++next_;
      return real(first.at, first.real);
    }
    if (first.kind != Token::Kind::name || (is_reserved(first.text) && !is_constant(first.text)))
      return fail(first.at, found(), " where a value was expected");
    ++next_;
    if (token().is("(")) return function(first, depth);
    if (first.text == "true" || first.text == "false")
      return add({.kind = Kind::boolean, .at = first.at, .integer = first.text == "true"});
    if (first.text == "pi") return real(first.at, std::numbers::pi);
    if (first.text == "inf") return real(first.at, std::numeric_limits<double>::infinity());
    if (first.text == "nan") return real(first.at, std::numeric_limits<double>::quiet_NaN());
    return named(first);
  }

  static bool is_constant(std::string_view name) {
    return name == "true" || name == "false" || name == "pi" || name == "inf" || name == "nan";
  }

  int function(const Token& name, int depth) {
    Syntax::Expression result{.kind = Kind::call, .at = name.at, .name = std::string(name.text)};
    ++next_;
    while (!take(")")) {
      const bool has_name = token().kind == Token::Kind::name && tokens_[next_ + 1].is("=");
      const Token argument_name = token();
      if (has_name) next_ += 2;
      const int argument = has_name && token().kind == Token::Kind::word
                               ? add({.kind = Kind::word,
                                      .at = token().at,
                                      .name = std::string(tokens_[next_++].text)})
                               : expression(depth + 1);
      if (argument == kNone) return kNone;
      if (has_name)
        result.named.emplace_back(argument_name.text, argument);
      else if (!result.named.empty())
        return fail(argument_name.at, "an argument without a name follows one with a name");
      else
        result.arguments.push_back(argument);
      if (!take(",") && !token().is(")")) return expect(")"), kNone;
    }
    return add(std::move(result));
  }

  Syntax& syntax_;
  std::vector<Token> tokens_;
  TextError error_;
  size_t next_ = 0;
  std::map<std::string, int> names_;  // parameters and named values, by expression
  bool are_declared_ = false;
};

}  // namespace

std::string Syntax::place(size_t at) const {
  int line = 1, column = 1;
  for (size_t i = 0; i < at && i < text.size(); ++i) {
    ++column;
    if (text[i] != '\n') continue;
    ++line;
    column = 1;
  }
  return str_cat("kernel '", kernel, "', line ", line, ", column ", column, ": ");
}

Result<Syntax> parse_kernel(std::string_view name, std::string_view text,
                            const std::vector<Syntax::Parameter>* parameters) {
  Syntax syntax;
  syntax.kernel = name;
  syntax.text = text;
  TextError error;
  Parser parser(syntax, parameters);
  if (!parser.run(error)) return invalid_argument(syntax.place(error.at), error.message);
  return syntax;
}

std::vector<Syntax::Parameter> backward_parameters(const Syntax& syntax) {
  std::vector<Syntax::Parameter> all = syntax.parameters;
  for (Syntax::Parameter& parameter : all) parameter.fallback = -1;
  for (const std::string prefix : {"", "d"})
    for (const Syntax::Output& output : syntax.outputs)
      all.push_back({.name = prefix + output.name});
  return all;
}

}  // namespace hg
