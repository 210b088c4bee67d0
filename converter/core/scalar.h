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
  Dim top;            // of a boolean (0, 1, or a term of sizes with these values), integer or ratio
  Dim bottom = 1;     // of a ratio: top / bottom is a real number that depends on symbols
  double number = 0;  // real
  // For a boolean that compares sizes: the comparison, without reason and origin.
  std::shared_ptr<const Guard> comparison{};

  static Scalar of(bool value) { return {Kind::boolean, Dim(value ? 1 : 0), 1, 0, {}}; }
  static Scalar of(Dim value) { return {Kind::integer, std::move(value), 1, 0, {}}; }
  static Scalar of(double value) { return {Kind::real, 0, 1, value, {}}; }

  bool is_constant() const;
  bool is_integral() const { return kind == Kind::boolean || kind == Kind::integer; }
  double as_double() const;  // only for constants
};

// Ops: add sub mul div (true division) floor_divide trunc_divide remainder (Python's) fmod pow min
// max.
std::optional<Scalar> apply(std::string_view op, const Scalar& a, const Scalar& b);
// Ops: neg abs floor ceil round trunc. A real stays real.
std::optional<Scalar> apply(std::string_view op, const Scalar& a);
// Ops: eq ne lt le gt ge. Returns the answer if it is the same for all sizes.
std::optional<bool> compare(std::string_view op, const Scalar& a, const Scalar& b);
// Returns the same as a boolean that may depend on sizes.
std::optional<Scalar> relate(std::string_view op, const Scalar& a, const Scalar& b);
Scalar equal(const Dim& a, const Dim& b);
// For booleans.
Scalar negation(const Scalar& a);
Scalar both(const Scalar& a, const Scalar& b);
Scalar either(const Scalar& a, const Scalar& b);
// Restricts the graph to sizes for which the boolean is true; fails if it is never true.
void guard(Graph& graph, const Scalar& condition, std::string_view reason);
// Returns the value that the term has for most of a sample of sizes; nothing if no value has a
// majority.
std::optional<int64_t> usual_value(const Dim& dim);
std::optional<Scalar> to_integer(const Scalar& a);  // rounds toward zero
std::optional<Scalar> to_real(const Scalar& a);
std::optional<Scalar> to_boolean(const Scalar& a);  // may depend on sizes

}  // namespace hg::convert
