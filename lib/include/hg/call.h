// SPDX-License-Identifier: Apache-2.0
// Attributes of an op call, as generated functions take them (hg/executor.h). All types here borrow
// their contents and must not outlive the call.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "hg/graph.h"
#include "hg/tensor.h"

namespace hg {

// A number used as an input, with torch's kind of it: bool, i64 or f64.
struct Number {
  DType kind = f64;
  double real = 0;
  int64_t whole = 0;  // value of a bool or i64

  Number() = default;
  template <class T>
  requires std::is_arithmetic_v<T> Number(T value) : real(static_cast<double>(value)) {
    if constexpr (std::is_integral_v<T>) {
      const bool fits = value <= T{0} || static_cast<uint64_t>(value) <= uint64_t{INT64_MAX};
      kind = std::same_as<T, bool> ? boolean : fits ? i64 : f64;
      whole = static_cast<int64_t>(value);
    }
  }
};

// A list of numbers, or a single number if the op accepts one for a list.
template <class Number>
class ListOf {
 public:
  ListOf() = default;
  ListOf(std::initializer_list<Number> values)
      : values_(std::span(values.begin(), values.size())) {}
  ListOf(std::span<const Number> values) : values_(values) {}
  ListOf(const std::vector<Number>& values) : values_(values) {}
  ListOf(const Sizes& sizes) requires std::same_as<Number, int64_t>
      : values_(sizes.begin(), sizes.size()) {}
  template <class One>
  requires std::is_arithmetic_v<One> ListOf(One value)
      : one_(static_cast<Number>(value)), is_one_(true) {}
  std::span<const Number> values() const { return is_one_ ? std::span(&one_, 1) : values_; }

 private:
  std::span<const Number> values_;
  Number one_ = 0;
  bool is_one_ = false;
};
using Ints = ListOf<int64_t>;
using Reals = ListOf<double>;

// The text of an attribute, or one of the enums of hg/words.h.
class Word {
 public:
  Word(const char* text) : text_(text) {}
  Word(std::string_view text) : text_(text) {}
  Word(const std::string& text) : text_(text) {}
  template <class Enum>
  requires(std::is_enum_v<Enum>&& requires(Enum word) { to_string(word); }) Word(Enum word)
      : text_(to_string(word)) {}
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// An attribute and its value.
struct Argument {
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string_view, DType,
                             std::span<const int64_t>, std::span<const double>>;
  std::string_view name;
  Value value;  // monostate: not given

  Argument(std::string_view attribute, bool given) : name(attribute), value(given) {}
  Argument(std::string_view attribute, int64_t given) : name(attribute), value(given) {}
  Argument(std::string_view attribute, double given) : name(attribute), value(given) {}
  Argument(std::string_view attribute, DType given) : name(attribute), value(given) {}
  Argument(std::string_view attribute, const Word& given) : name(attribute), value(given.text()) {}
  Argument(std::string_view attribute, const Ints& given)
      : name(attribute), value(given.values()) {}
  Argument(std::string_view attribute, const Reals& given)
      : name(attribute), value(given.values()) {}
  template <class T>
  Argument(std::string_view attribute, const std::optional<T>& given) : name(attribute) {
    if (given) value = Argument(attribute, *given).value;
  }

  Attr attr() const;  // copies the value
  // The inverse of attr(). Borrows from `attr`; integers are stored in `list`. Fails with
  // invalid_argument if a value depends on a symbol, and unsupported for a list of strings.
  static Result<Argument> of(std::string_view name, const Attr& attr, std::vector<int64_t>& list);
};

}  // namespace hg
