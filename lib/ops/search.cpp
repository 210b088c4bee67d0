// SPDX-License-Identifier: Apache-2.0
// Ops that find and count elements: unique, searchsorted, isin, bincount, histc.
#include "hg/ops/search.h"

#include "hg/op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Status unique_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const Dim found = c.fresh_dim();
  c.out(0) = {x.dtype, {found}};
  c.out(1) = {i64, x.shape};
  c.out(2) = {i64, {found}};
  if (!c.attrs().has("dim")) return {};
  HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
  if (x.rank() == 0) return {};
  c.out(0).shape = x.shape;
  c.out(0).shape[axis] = found;
  c.out(1).shape = {x.shape[axis]};
  return {};
}

Status searchsorted_infer(InferContext& c) {
  const TensorType& sorted = c.in(0);
  const TensorType& values = c.in(1);
  if (sorted.dtype != values.dtype)
    return c.fail("the sorted tensor is ", sorted.dtype, ", the values are ", values.dtype);
  if (sorted.rank() == 0) return c.fail("the sorted tensor must have at least one dim");
  if (sorted.rank() > 1) {
    bool fits = sorted.rank() == values.rank();
    for (int d = 0; fits && d + 1 < sorted.rank(); ++d) {
      const Dim &a = sorted.shape[d], &b = values.shape[d];
      fits = !a.is_constant() || !b.is_constant() || a == b;
    }
    if (!fits) return c.fail("the leading dims differ: ", sorted.shape, " and ", values.shape);
  }
  c.out(0) = {i64, values.shape};
  return {};
}

Status isin_infer(InferContext& c) {
  if (c.in(0).dtype != c.in(1).dtype)
    return c.fail("x is ", c.in(0).dtype, ", test is ", c.in(1).dtype);
  c.out(0) = {boolean, c.in(0).shape};
  return {};
}

Status bincount_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.dtype != i64 || x.rank() != 1) return c.fail("x must be i64 with one dim, but is ", x);
  if (c.has(1) && c.in(1).dtype != f32 && c.in(1).dtype != f64)
    return c.fail("weights must be f32 or f64, but are ", c.in(1).dtype);
  const Dim least = c.attrs().integer("minlength");
  if (!c.require_at_least(least, 0)) return c.fail("minlength is ", least);
  if (c.has(1) && !c.require_equal(c.in(1), {c.in(1).dtype, x.shape}))
    return c.fail("x is ", x.shape, ", weights are ", c.in(1).shape);
  c.out(0) = {c.has(1) ? c.in(1).dtype : i64, {c.fresh_dim()}};
  return {};
}

Status histc_infer(InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("x must be floats, but is ", c.in(0).dtype);
  const Dim bins = c.attrs().integer("bins");
  if (bins.is_constant() && bins.constant() < 1) return c.fail("bins is ", bins);
  if (c.attrs().real("max") < c.attrs().real("min"))
    return c.fail("min is ", c.attrs().real("min"), ", max is ", c.attrs().real("max"));
  c.out(0) = {c.in(0).dtype, {bins}};
  return {};
}

constexpr OpDef kOps[] = {
    // Returns the distinct elements in ascending order, the index of each element of x among them
    // (i64, x's shape), and the count of each (i64). Their number depends on data.
    //
    // With dim, compares slices along it instead of elements, and the second result is [size of
    // dim]. consecutive: merges only equal neighbors, in the order of x.
    {.signature = "unique(x, dim: int?, consecutive: bool = false) -> values, inverse, counts",
     .infer = unique_infer,
     .traits = kNoGradient | kDataDependent},
    // For each value, the first position in `sorted` (along its last dim) at which inserting it
    // keeps the order; the last one if right. i64.
    {.signature = "searchsorted(sorted, values, right: bool = false) -> y",
     .infer = searchsorted_infer,
     .traits = kNoGradient},
    // True for each element of x that occurs in test: bool.
    {.signature = "isin(x, test) -> y",
     .infer = isin_infer,
     .traits = kNoGradient,
     .flops =
         [](std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
           return static_cast<double>(in[0].count()) * static_cast<double>(in[1].count());
         }},
    // Number of occurrences of 0, 1, ... in x, or the sums of their weights. x: i64[n], not
    // negative. The result has at least minlength elements; its size depends on data.
    {.signature = "bincount(x, weights?, minlength: int = 0) -> y",
     .infer = bincount_infer,
     .traits = kNoGradient | kDataDependent},
    // Number of elements in each of `bins` equal intervals of [min, max], or of the range of x if
    // min equals max.
    {.signature = "histc(x, bins: int = 100, min: float = 0.0, max: float = 0.0) -> y",
     .infer = histc_infer,
     .traits = kNoGradient},
};

}  // namespace

std::span<const OpDef> search() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
