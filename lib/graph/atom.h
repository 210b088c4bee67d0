// SPDX-License-Identifier: Apache-2.0
// Representation of a Dim: a constant plus a sum of coefficient * product of atoms. An atom is a
// symbol, a call that did not simplify, or a sum too long to expand. Atoms are immutable and shared
// between sizes, so that nested sizes grow linearly with the model. Code that walks a size must
// visit each atom once (post_order).
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/dim.h"
#include "lib/graph/wide.h"

namespace hg {

struct Atom;
using AtomPtr = std::shared_ptr<const Atom>;
using Product = std::vector<AtomPtr>;  // sorted by key
struct Summand {
  Product product;
  int64_t coefficient = 0;
};
using Sum = std::vector<Summand>;  // sorted by product; no empty product, no coefficient 0

struct Interval {
  int64_t low = 0, high = 0;
};

struct Atom {
  enum class Kind : uint8_t { symbol, floordiv, mod, min, max, sum };

  Atom(Kind kind, std::string key, Interval bounds, Dim a = {}, Dim b = {});
  ~Atom();
  Atom(const Atom&) = delete;
  Atom& operator=(const Atom&) = delete;

  bool is_long() const { return kind != Kind::symbol && key[0] == '#'; }

  Kind kind;
  // The text, or '#' and a 128-bit digest if it would be long. Equal keys mean the same atom.
  std::string key;
  Interval bounds;  // valid for all values of the symbols
  Dim a, b;         // operands; a sum uses only a
  int depth;        // nesting depth of atoms
};

struct Dim::Terms {
  Sum sum;  // never empty
};

constexpr int64_t kSymbolLimit = int64_t{1} << 40;

struct DimAlgebra {
  static std::span<const Summand> sum(const Dim& dim);
  static int64_t constant(const Dim& dim) { return dim.constant_; }
  static Dim make(Sum sum, int64_t constant);  // the sum must be as described above
  static int64_t use_count(const Dim& dim) { return dim.terms_.use_count(); }
};

inline int64_t constant_of(const Dim& dim) { return DimAlgebra::constant(dim); }
inline std::span<const Summand> sum_of(const Dim& dim) { return DimAlgebra::sum(dim); }
constexpr int64_t kLeastInteger = std::numeric_limits<int64_t>::min();

// Orders products by the keys of their atoms: negative, 0 or positive.
int compare(const Product& a, const Product& b);
Product product_of(const Product& a, const Product& b);
Dim of_atom(AtomPtr atom);
// coefficient * product. A product of a single sum is expanded.
Dim of_product(const Product& product, int64_t coefficient);
// Returns the atom if the size is exactly one atom; otherwise null.
const Atom* single_atom(const Dim& dim);
// A sum as one factor of a product, printed as "sum(...)". Only products use it; of_product handles
// a sum without other factors.
Dim sum_atom(const Dim& dim);
// A sum as one summand: the common factor of all summands, times the rest as a sum_atom.
Dim kept_sum(const Dim& dim);
// A call that did not simplify.
Dim call_of(Atom::Kind kind, const Dim& a, const Dim& b);
// Number of summands in the text of the size.
size_t length(const Dim& dim);
// a + factor * b
Dim added(const Dim& a, const Dim& b, int64_t factor);
Dim total_of(std::vector<Dim> parts);
// `dim` * `factor` + `other`, unless a coefficient overflows.
std::optional<Dim> scaled_sum(const Dim& dim, int64_t factor, const Dim& other);

// The size of a dim that broadcasts a and b: max(a, b), but 0 for 0 and 1.
// Equal to a if b is one of the sizes that a was made of.
Dim broadcast_size(const Dim& a, const Dim& b);

// Bounds for symbols in [0, kSymbolLimit]; saturates.
Interval bounds(const Dim& dim);
Interval call_bounds(Atom::Kind kind, const Dim& a, const Dim& b);

// Visits all atoms of a size, each once, after its operands, from left to right.
std::vector<const Atom*> post_order(const Dim& dim);

std::string_view to_string(Atom::Kind kind);  // of a call
// The key of an atom before it is shortened.
std::string key_of(Atom::Kind kind, const Dim& a, const Dim& b);
std::string key_of(const Dim& dim);  // the text, with the keys of atoms

// floor(a / b) for b != 0, in 64 or 128 bits.
template <class Number>
Number floor_divide(Number a, Number b) {
  const Number quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

}  // namespace hg
