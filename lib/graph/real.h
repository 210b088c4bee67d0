// SPDX-License-Identifier: Apache-2.0
// A real number: known when the graph is built, or computed at run time. Expansions read float
// attributes as Reals, so one formula serves both.
#pragma once

#include <string_view>
#include <vector>

#include "hg/op.h"
#include "hg/ops/operators.h"

namespace hg {

class Real {
 public:
  Real(double known = 0) : known_(known) {}             // NOLINT: implicit
  explicit Real(const Value& value) : value_(value) {}  // one number, of rank 0
  bool is_known() const { return !value_; }
  bool is(double number) const { return is_known() && known_ == number; }
  double known() const { return known_; }        // if is_known()
  const Value& value() const { return value_; }  // if not
  // One number of rank 0, rounded to the dtype.
  Value as(Graph& graph, DType dtype) const;
  // In the dtype of x. The graph fails if that dtype is an integer dtype, unless the number is
  // known and fits, as in number_like().
  Value like(const Value& x) const;

 private:
  double known_ = 0;
  Value value_;
};

// Arithmetic in f64.
Real operator+(const Real& a, const Real& b);
Real operator-(const Real& a, const Real& b);
Real operator*(const Real& a, const Real& b);
Real operator/(const Real& a, const Real& b);
// Arithmetic in the dtype of the tensor.
inline Value operator+(const Value& a, const Real& b) { return a + b.like(a); }
inline Value operator-(const Value& a, const Real& b) { return a - b.like(a); }
inline Value operator-(const Real& a, const Value& b) { return a.like(b) - b; }
inline Value operator*(const Value& a, const Real& b) { return b.is(1) ? a : a * b.like(a); }
inline Value operator/(const Value& a, const Real& b) { return a / b.like(a); }
inline Value operator/(const Real& a, const Value& b) { return a.like(b) / b; }

// A float attribute of the op that is being expanded.
Real real(const ExpandContext& c, std::string_view attr);

struct NamedReal {
  std::string_view name;
  Real value;
};
// Graph::calls() with float attributes that may be computed at run time. The op is then expanded,
// with 16-bit floats in f32. The graph fails if the expansion must know such an attribute.
std::vector<Value> calls_with(Graph& graph, std::string_view op, const std::vector<Value>& inputs,
                              const std::vector<NamedReal>& reals, NamedAttrs attrs = {});
// The same for ops with one output.
Value call_with(Graph& graph, std::string_view op, const std::vector<Value>& inputs,
                const std::vector<NamedReal>& reals, NamedAttrs attrs = {});

}  // namespace hg
