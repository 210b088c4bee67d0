// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/size_expression.h"

#include <charconv>
#include <functional>
#include <string>
#include <vector>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

constexpr int kMostSizeNesting = 400;  // a parenthesis counts as two: power and factor

class Parser {
 public:
  explicit Parser(std::string_view all) : all_(all), rest_(all) {}

  Dim whole() {
    const Dim result = sum();
    space();
    if (!rest_.empty()) fail();
    return result;
  }

 private:
  [[noreturn]] void fail() const {
    throw Refusal{str_cat("the size '", all_.substr(0, 200), "' of the exported program"), ""};
  }

  void space() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  std::string_view word() {
    space();
    size_t length = 0;
    const auto part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '.';
    };
    while (length < rest_.size() && part(rest_[length])) ++length;
    const std::string_view result = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return result;
  }

  Dim sum() {
    std::vector<Dim> parts = {product()};
    for (;;) {
      if (take("+"))
        parts.push_back(product());
      else if (take("-"))
        parts.push_back(-product());
      else
        return total(std::move(parts));
    }
  }

  // Adds in pairs, because adding to a long sum copies it.
  static Dim total(std::vector<Dim> parts) {
    for (size_t step = 1; step < parts.size(); step *= 2)
      for (size_t i = 0; i + step < parts.size(); i += 2 * step)
        parts[i] = parts[i] + parts[i + step];
    return std::move(parts[0]);
  }

  Dim product() {
    Dim result = power();
    for (;;) {
      if (take("//"))
        result = divided(result, power(), floordiv);
      else if (take("%"))
        result = divided(result, power(), mod);
      else if (take("*"))
        result = result * power();
      else
        return result;
    }
  }

  Dim power() {
    if (++depth_ > kMostSizeNesting) fail();
    const Dim base = factor();
    const Dim result = take("**") ? raised(base, power()) : base;
    --depth_;
    return result;
  }

  Dim raised(const Dim& base, const Dim& exponent) const {
    if (!exponent.is_constant() || exponent.constant() < 0 || exponent.constant() > 8) fail();
    Dim result = 1;
    for (int64_t i = 0; i < exponent.constant(); ++i) result = result * base;
    return result;
  }

  Dim divided(const Dim& a, const Dim& b,
              const std::function<Dim(const Dim&, const Dim&)>& by) const {
    if (b.is_constant() && b.constant() == 0) fail();
    return by(a, b);
  }

  Dim factor() {
    if (++depth_ > kMostSizeNesting) fail();
    const Dim result = unnested();
    --depth_;
    return result;
  }

  Dim unnested() {
    if (take("-")) return -factor();
    if (take("(")) {
      const Dim result = sum();
      if (!take(")")) fail();
      return result;
    }
    const std::string_view name = word();
    if (name.empty()) fail();
    if (name[0] >= '0' && name[0] <= '9') {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc() || end != name.data() + name.size()) fail();
      return number;
    }
    if (!take("(")) {
      if (name.find('.') != name.npos) fail();
      return Dim(name);
    }
    return name == "Symbol" ? symbol() : call(name);
  }

  // Parses 's77', positive=True, integer=True)
  Dim symbol() {
    if (!take("'")) fail();
    const std::string_view name = word();
    if (name.empty() || name.find('.') != name.npos || !take("'")) fail();
    while (take(",")) {
      word();
      if (!take("=")) fail();
      word();
    }
    if (!take(")")) fail();
    return Dim(name);
  }

  Dim call(std::string_view name) {
    std::vector<Dim> arguments;
    if (!take(")")) {
      do {
        arguments.push_back(sum());
      } while (take(","));
      if (!take(")")) fail();
    }
    name = name.substr(name.rfind('.') + 1);
    const bool two = arguments.size() == 2;
    if (name == "Integer" && arguments.size() == 1) return arguments[0];
    if (name == "FloorDiv" && two) return divided(arguments[0], arguments[1], floordiv);
    if (name == "CleanDiv" && two) return divided(arguments[0], arguments[1], floordiv);
    if (name == "CeilDiv" && two) return divided(arguments[0], arguments[1], ceildiv);
    if ((name == "Mod" || name == "PythonMod") && two)
      return divided(arguments[0], arguments[1], mod);
    if (name == "Pow" && two) return raised(arguments[0], arguments[1]);
    constexpr size_t kMostExtremes = 64;  // each contains the text of those before it
    if (arguments.empty()) fail();
    if (name == "Add") return total(std::move(arguments));
    if ((name == "Max" || name == "Min") && arguments.size() > kMostExtremes) fail();
    Dim result = arguments[0];
    for (size_t i = 1; i < arguments.size(); ++i) {
      if (name == "Mul")
        result = result * arguments[i];
      else if (name == "Max")
        result = max(result, arguments[i]);
      else if (name == "Min")
        result = min(result, arguments[i]);
      else
        fail();
    }
    if (arguments.size() == 1 && name != "Mul" && name != "Max" && name != "Min") fail();
    return result;
  }

  std::string_view all_, rest_;
  int depth_ = 0;
};

}  // namespace

Dim parse_size_expression(std::string_view text) { return Parser(text).whole(); }

}  // namespace hg::convert
