// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes. A Dim is an integer expression over named symbols, kept in a normal form: a
// polynomial over symbols and floordiv, mod, min and max terms. Equal normal forms compare equal:
// (n + 1) * 2 - 2 == n * 2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/status.h"
#include "hg/tensor.h"

namespace hg {

// Values of symbols, in binding order.
class Bindings {
 public:
  std::optional<int64_t> find(std::string_view symbol) const;
  // Fails with invalid_argument if the symbol already has a different value.
  Status bind(std::string_view symbol, int64_t value);
  // Replaces the value of all()[index].
  void rebind(size_t index, int64_t value) { values_[index].second = value; }
  const std::vector<std::pair<std::string, int64_t>>& all() const { return values_; }
  bool empty() const { return values_.empty(); }
  friend bool operator==(const Bindings&, const Bindings&) = default;

 private:
  std::vector<std::pair<std::string, int64_t>> values_;
};

class Dim {
 public:
  Dim() = default;                          // zero
  Dim(int64_t value) : constant_(value) {}  // NOLINT: implicit
  Dim(int value) : constant_(value) {}      // NOLINT: implicit
  Dim(const char* symbol);                  // NOLINT: implicit; an identifier such as "n"
  explicit Dim(std::string_view symbol);

  bool is_constant() const { return terms_ == nullptr; }
  int64_t constant() const { return constant_; }  // meaningful only if is_constant()
  // Returns the name if this is a single symbol, otherwise an empty string.
  std::string_view symbol() const;
  // Appends the names of the symbols, each once, in order of first use.
  void collect_symbols(std::vector<std::string>& out) const;

  // Fails if a symbol is unbound, on division by zero, or on overflow.
  Result<int64_t> evaluate(const Bindings& bindings) const;
  // Replaces the bound symbols by their values; other symbols remain.
  Dim substitute(const Bindings& bindings) const;
  // Bounds of the value if every symbol is in [0, 2^40]. They saturate at the limits of int64_t.
  int64_t lower_bound() const;
  int64_t upper_bound() const;

  // Parses the text that append_text() prints: "n", "2*n + 1", "floordiv(h - 1, 2)".
  static Result<Dim> parse(std::string_view text);

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a) { return Dim(0) - a; }
  friend bool operator==(const Dim& a, const Dim& b);
  friend Dim floordiv(const Dim& a, const Dim& b);  // rounds toward minus infinity
  friend Dim mod(const Dim& a, const Dim& b);       // a - floordiv(a, b) * b
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend void append_text(std::string& out, const Dim& dim);

 private:
  struct Terms;  // the non-constant part; null or non-empty
  friend struct DimAlgebra;
  int64_t constant_ = 0;
  std::shared_ptr<const Terms> terms_;
};

Dim floordiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim ceildiv(const Dim& a, const Dim& b);  // floordiv(a + b - 1, b)
void append_text(std::string& out, const Dim& dim);

using Shape = std::vector<Dim>;

void append_text(std::string& out, const Shape& shape);  // "[n, 3, 2*h]"
Dim count(const Shape& shape);                           // product of the sizes; 1 for rank 0
Shape to_shape(const Sizes& sizes);
bool is_constant(const Shape& shape);
// Fails as Dim::evaluate() does, or if a size is negative or the rank exceeds kMaxRank.
Result<Sizes> evaluate(const Shape& shape, const Bindings& bindings);

struct TensorType {
  DType dtype = f32;
  Shape shape;
  int rank() const { return static_cast<int>(shape.size()); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
void append_text(std::string& out, const TensorType& type);  // "f32[n, 3]"

}  // namespace hg
