// SPDX-License-Identifier: Apache-2.0
// The inside of a Dim: a constant plus a sum of coefficient * product of atoms. An atom is a
// symbol, a call that did not simplify, or a sum that is too long to multiply out. Atoms are never
// changed once made and are shared between sizes, so that what a net nests layer by layer stays as
// large as the net; whatever walks through a size therefore meets each atom once (post_order).
#pragma once

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
using Sum = std::vector<Summand>;  // sorted by product, none empty, no coefficient 0

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
  // The text, or '#' and a digest of 128 bits where that would be long: equal keys are one atom.
  std::string key;
  Interval bounds;  // what holds for all sizes of symbols
  Dim a, b;         // the operands; a sum has a alone
  int depth;        // of atoms in atoms
};

struct Dim::Terms {
  Sum sum;  // never empty
};

constexpr int64_t kSymbolLimit = int64_t{1} << 40;

struct DimAlgebra {
  static std::span<const Summand> sum(const Dim& dim);
  static int64_t constant(const Dim& dim) { return dim.constant_; }
  static Dim make(Sum sum, int64_t constant);  // the sum as described above
  static int64_t use_count(const Dim& dim) { return dim.terms_.use_count(); }
};

// Orders products by the keys of their atoms: negative, 0 or positive.
int compare(const Product& a, const Product& b);
Product product_of(const Product& a, const Product& b);
Dim of_atom(AtomPtr atom);
// coefficient * product; a sum that stands alone is multiplied out.
Dim of_product(const Product& product, int64_t coefficient);
// The one atom that is the whole size, or null.
const Atom* single_atom(const Dim& dim);
// A sum as one factor, as the text "sum(...)" says; only for products, of_product has it alone.
Dim sum_atom(const Dim& dim);
// A sum as one summand: what all summands have in common, times the rest as a sum_atom.
Dim kept_sum(const Dim& dim);
// A call that did not simplify.
Dim call_of(Atom::Kind kind, const Dim& a, const Dim& b);
// How many summands the size has as text.
size_t length(const Dim& dim);
// a + factor * b
Dim added(const Dim& a, const Dim& b, int64_t factor);
Dim total_of(std::vector<Dim> parts);
// `dim` times `factor` + `other`, unless a coefficient overflows.
std::optional<Dim> scaled_sum(const Dim& dim, int64_t factor, const Dim& other);

// Bounds for symbols in [0, kSymbolLimit]; saturates.
Interval bounds(const Dim& dim);
Interval call_bounds(Atom::Kind kind, const Dim& a, const Dim& b);

// All atoms that a size is made of, each once, after its operands; from the left.
std::vector<const Atom*> post_order(const Dim& dim);

std::string_view name_of(Atom::Kind kind);  // of a call
// What an atom's key says when it is not too long.
std::string key_of(Atom::Kind kind, const Dim& a, const Dim& b);
std::string key_of(const Dim& dim);  // the text with the keys of atoms

// floor(a / b) for b != 0, of 64 or 128 bits.
template <class Number>
Number floor_divide(Number a, Number b) {
  const Number quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

}  // namespace hg
