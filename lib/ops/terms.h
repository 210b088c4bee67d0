// SPDX-License-Identifier: Apache-2.0
// Short spellings of primitives, for expansions and gradients written as formulas; and checks of
// symbolic sizes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hg/op.h"
#include "hg/ops/activation.h"
#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/unary.h"

namespace hg::ops {

using Dims = std::vector<Dim>;

inline bool certainly_differ(const Dim& a, const Dim& b) {
  return a.is_constant() && b.is_constant() && a.constant() != b.constant();
}
// As c.require_equal, but adds a guard to the graph: for sizes that no op of the expansion
// compares. The expansion itself does not run again when sizes are bound.
inline bool guard_equal(const ExpandContext& c, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return a.constant() == b.constant();
  c.graph().guard(a, Relation::eq, b, std::string(c.attrs().op().name()));
  return true;
}
// The size of dim `dim` of x in slice and slice_scatter, whose range must be within x.
inline Result<Dim> sliced_size(const InferContext& c, int dim) {
  const Dim start = c.attrs().integer("start"), end = c.attrs().integer("end"),
            step = c.attrs().integer("step");
  const Shape& shape = c.in(0).shape;
  if (!c.require_at_least(step, 1)) return c.fail("step is ", step, ", but must be 1 or more");
  if (!c.require_at_least(start, 0) || !c.require_at_least(end - start, 0) ||
      !c.require_at_least(shape[static_cast<size_t>(dim)] - end, 0))
    return c.fail("[", start, ", ", end, ") is not within dim ", dim, " of ", shape);
  return ceildiv(end - start, step);
}
template <class Context>
bool given(const Context& c, int i) {  // whether an optional input is given
  return i < c.input_count() && c.has(i);
}
template <class Context>
Value input_or_none(const Context& c, int i) {
  return given(c, i) ? c.in(i) : Value();
}

// A list attribute with one number per spatial dim; one number stands for all.
inline Result<Dims> per_dim(const AttrReader& attrs, std::string_view name, int dims) {
  const std::span<const Dim> listed = attrs.integers(name);
  if (listed.size() == 1) return Dims(dims, listed[0]);
  if (listed.size() != static_cast<size_t>(dims))
    return invalid_argument(name, " has ", int64_t(listed.size()), " numbers for ", dims,
                            " spatial dims");
  return Dims(listed.begin(), listed.end());
}

namespace term {

inline Value number(const Value& like, double value) {
  return like.graph()->scalar(value, like.dtype());
}
inline Value op(std::string_view name, const Value& a) { return a.graph()->call(name, {a}); }
inline Value op(std::string_view name, const Value& a, const Value& b) {
  return a.graph()->call(name, {a, b});
}
inline Value add(const Value& a, double b) { return b == 0 ? a : a + b; }
inline Value mul(const Value& a, double b) { return b == 1 ? a : a * b; }
inline Value reshape(const Value& x, Shape shape) {
  return x.shape() == shape ? x : x.graph()->call("reshape", {x}, {{"shape", std::move(shape)}});
}
// A size as one i64, in a tensor whose dims are all 1.
inline Value integer(Graph& g, const Dim& size, Shape ones = {}) {
  return reshape(g.call("arange", {}, {{"start", size}, {"end", size + 1}}), std::move(ones));
}
inline Value expand(const Value& x, Shape shape) {
  return x.shape() == shape ? x : x.graph()->call("expand", {x}, {{"shape", std::move(shape)}});
}
inline Value permute(const Value& x, Dims dims) {
  return x.graph()->call("permute", {x}, {{"dims", std::move(dims)}});
}
inline Value transpose_last(const Value& x) {  // the last two dims swapped
  if (x.rank() < 2) return x;                  // the graph has failed
  Dims dims;
  for (int i = 0; i < x.rank(); ++i) dims.emplace_back(i);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return permute(x, std::move(dims));
}
inline Value slice(const Value& x, int dim, const Dim& start, const Dim& end) {
  return x.graph()->call("slice", {x}, {{"dim", dim}, {"start", start}, {"end", end}, {"step", 1}});
}
// Computes 16-bit floats in f32 and rounds once at the end.
inline Value widened(const Value& x) {
  return x && (x.dtype() == f16 || x.dtype() == bf16) ? hg::cast(x, f32) : x;
}
inline Value full_like(const Value& x, double value) { return expand(number(x, value), x.shape()); }

}  // namespace term
}  // namespace hg::ops
