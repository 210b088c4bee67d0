// SPDX-License-Identifier: Apache-2.0
// Numbers of a script: constants, and sizes that depend on symbols. What cannot be kept exactly
// gives no value, and is then computed by the graph.
#pragma once

#include <optional>
#include <string_view>

#include "hg/dim.h"

namespace hg::convert {

struct Scalar {
  enum class Kind : uint8_t { boolean, integer, real, ratio };
  Kind kind = Kind::integer;
  Dim top;            // boolean (0 or 1), integer, ratio
  Dim bottom = 1;     // of a ratio: top / bottom is a real number that depends on symbols
  double number = 0;  // real

  static Scalar of(bool value) { return {Kind::boolean, Dim(value ? 1 : 0), 1, 0}; }
  static Scalar of(Dim value) { return {Kind::integer, std::move(value), 1, 0}; }
  static Scalar of(double value) { return {Kind::real, 0, 1, value}; }

  bool is_constant() const;
  bool is_integral() const { return kind == Kind::boolean || kind == Kind::integer; }
  double as_double() const;  // of a constant
};

// add sub mul div (true) floor_divide trunc_divide remainder (of Python) fmod pow min max
std::optional<Scalar> apply(std::string_view op, const Scalar& a, const Scalar& b);
// neg abs floor ceil round trunc (as Python: floor, ceil, round and trunc keep reals real)
std::optional<Scalar> apply(std::string_view op, const Scalar& a);
// eq ne lt le gt ge
std::optional<bool> compare(std::string_view op, const Scalar& a, const Scalar& b);
std::optional<Scalar> to_integer(const Scalar& a);  // rounds towards zero
std::optional<Scalar> to_real(const Scalar& a);
std::optional<Scalar> to_boolean(const Scalar& a);

}  // namespace hg::convert
