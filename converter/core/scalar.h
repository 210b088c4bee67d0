// SPDX-License-Identifier: Apache-2.0
// Script numbers: constants, and sizes that depend on symbols. An operation that cannot be exact
// returns no value; the graph then computes it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "hg/graph.h"

namespace hg::convert {

struct Scalar {
  enum class Kind : uint8_t { boolean, integer, real, ratio };
  Kind kind = Kind::integer;
  Dim top;            // boolean (0 or 1, or a term of sizes that is one of them), integer, ratio
  Dim bottom = 1;     // of a ratio: top / bottom is a real number that depends on symbols
  double number = 0;  // real
  // Of a boolean that is a comparison of sizes: that comparison, without reason and origin.
  std::shared_ptr<const Guard> comparison{};

  static Scalar of(bool value) { return {Kind::boolean, Dim(value ? 1 : 0), 1, 0, {}}; }
  static Scalar of(Dim value) { return {Kind::integer, std::move(value), 1, 0, {}}; }
  static Scalar of(double value) { return {Kind::real, 0, 1, value, {}}; }

  bool is_constant() const;
  bool is_integral() const { return kind == Kind::boolean || kind == Kind::integer; }
  double as_double() const;  // of a constant
};

// add sub mul div (true) floor_divide trunc_divide remainder (of Python) fmod pow min max
std::optional<Scalar> apply(std::string_view op, const Scalar& a, const Scalar& b);
// neg abs floor ceil round trunc (as Python: floor, ceil, round and trunc keep reals real)
std::optional<Scalar> apply(std::string_view op, const Scalar& a);
// eq ne lt le gt ge, where the answer is the same for all sizes
std::optional<bool> compare(std::string_view op, const Scalar& a, const Scalar& b);
// The same as a boolean that sizes may decide.
std::optional<Scalar> relate(std::string_view op, const Scalar& a, const Scalar& b);
Scalar equal(const Dim& a, const Dim& b);
// Of booleans.
Scalar negation(const Scalar& a);
Scalar both(const Scalar& a, const Scalar& b);
Scalar either(const Scalar& a, const Scalar& b);
// From here on the graph is for sizes of which the boolean is true; fails where it is for none.
void guard(Graph& graph, const Scalar& condition, std::string_view reason);
// What the term is for most sizes, as far as some of them tell; none where it is many things.
std::optional<int64_t> usual_value(const Dim& dim);
std::optional<Scalar> to_integer(const Scalar& a);  // rounds towards zero
std::optional<Scalar> to_real(const Scalar& a);
std::optional<Scalar> to_boolean(const Scalar& a);  // which sizes may decide

}  // namespace hg::convert
