// SPDX-License-Identifier: Apache-2.0
// Ops that write or accumulate elements at indices, in the order of the indices.
#include <algorithm>
#include <limits>

#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Status check_reduce(const InferContext& c) {
  const std::string& reduce = c.attrs().string("reduce");
  for (std::string_view known : {"none", "add", "prod", "amax", "amin", "mean"})
    if (reduce == known) return {};
  return c.fail("reduce is '", reduce, "', expected one of none add prod amax amin mean");
}

// y[index[i, j], j] = src[i, j] for dim 0, or reduced with the old element
Status scatter_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const TensorType& index = c.in(1);
  const TensorType& src = c.in(2);
  HG_TRY(check_reduce(c));
  if (index.dtype != i64) return c.fail("index must be i64, but is ", index.dtype);
  if (src.dtype != x.dtype) return c.fail("x is ", x.dtype, ", src is ", src.dtype);
  if (x.rank() != index.rank() || x.rank() != src.rank())
    return c.fail("the ranks of x ", x.shape, ", index ", index.shape, " and src ", src.shape,
                  " differ");
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  const bool empty = count(index.shape) == Dim(0);
  for (int d = 0; d < x.rank() && !empty; ++d) {
    const auto at = static_cast<size_t>(d);
    if (!c.require_at_least(src.shape[at] - index.shape[at], 0))
      return c.fail("index ", index.shape, " is larger than src ", src.shape, " in dim ", d);
    if (d != dim && !c.require_at_least(x.shape[at] - index.shape[at], 0))
      return c.fail("index ", index.shape, " is larger than x ", x.shape, " in dim ", d);
  }
  c.out(0) = x;
  return {};
}

// The part of src that index covers, and the reverse for its gradient.
Value reached(const Value& src, const Value& index) {
  Value part = src;
  for (int d = 0; d < src.rank(); ++d)
    if (!(src.dim(d) == index.dim(d))) part = slice(part, d, 0, index.dim(d));
  return part;
}
Value as_large_as(const Value& part, const Value& src) {
  Dims pads;
  for (int d = 0; d < src.rank(); ++d) {
    pads.push_back(0);
    pads.push_back(src.dim(d) - part.dim(d));
  }
  if (part.shape() == src.shape()) return part;
  return part.graph()->call("pad", {part}, {{"pads", std::move(pads)}});
}

struct Scatter {
  Graph& g;
  Value index;
  Dim dim;
  std::string reduce;
  bool include_self;

  Value put(const Value& x, const Value& src, std::string_view how, bool self) const {
    return g.call("scatter", {x, index, src},
                  {{"dim", dim}, {"reduce", std::string(how)}, {"include_self", self}});
  }
  Value pick(const Value& x) const { return g.call("gather", {x, index}, {{"dim", dim}}); }
};

struct Gradients {
  Value dx, dsrc;
};

// The number of values in the mean of each element of y, at least 1.
Value mean_count(const Scatter& s, const Value& x, const Value& src) {
  const Value start = full_like(x, s.include_self ? 1 : 0);
  const Value n = s.put(start, full_like(src, 1), "add", true);
  return op("maximum", n, number(n, 1));
}

// dx = dy y' / x, where y' is the product without the zeros of x. dsrc likewise, but a src that is
// zero receives the product of the others: of its element without zeros, times the other zero if
// it has two, whose derivative is not 0.
Gradients prod_grads(const Scatter& s, const Value& x, const Value& src, const Value& y,
                     const Value& dy) {
  auto no_zeros = [&](const Value& v) { return where(op("eq", v, number(v, 0)), number(v, 1), v); };
  const Value whole = no_zeros(x);
  Gradients grads;
  grads.dx = div(mul(dy, s.put(whole, src, "prod", s.include_self)), whole);
  const Value is_zero = op("eq", src, number(src, 0));
  const Value zeros = s.pick(s.put(full_like(x, 0), cast(is_zero, x.dtype()), "add", true));
  const Value few = op("logical_and", op("le", zeros, number(zeros, 2)), is_zero);
  const Value zero = number(src, 0), pair = op("eq", zeros, number(zeros, 2));
  const Value others = s.put(x, where(few, number(src, 1), src), "prod", s.include_self);
  const Value sum = s.put(full_like(x, 0), where(is_zero, src, zero), "add", true);
  const Value other = where(pair, s.pick(sum) - src, number(src, 1));
  grads.dsrc = where(few, s.pick(mul(dy, others)) * other, div(s.pick(mul(dy, y)), no_zeros(src)));
  return grads;
}

// All elements that equal the largest (smallest) share the gradient. If the result is NaN, so is
// the gradient.
Gradients extreme_grads(const Scatter& s, const Value& x, const Value& src, const Value& y,
                        const Value& dy) {
  const Value from_x = cast(op("eq", x, y), x.dtype());
  const Value from_src = cast(op("eq", src, s.pick(y)), x.dtype());
  const Value n = s.put(from_x, from_src, "add", true);
  const Value part = div(dy, n);
  return {mul(from_x, part), mul(from_src, s.pick(part))};
}

// src has the shape of s.index.
Gradients scatter_grads(const Scatter& s, const Value& x, const Value& src, const Value& y,
                        const Value& dy) {
  Gradients grads;
  if (s.reduce == "none" || s.reduce == "add") {
    grads = {dy, s.pick(dy)};
  } else if (s.reduce == "mean") {
    const Value part = div(dy, mean_count(s, x, src));
    grads = {part, s.pick(part)};
  } else if (s.reduce == "prod") {
    grads = prod_grads(s, x, src, y, dy);
  } else {
    grads = extreme_grads(s, x, src, y, dy);
  }
  if (s.reduce == "none" || !s.include_self)
    grads.dx = s.put(grads.dx, full_like(src, 0), "none", true);
  return grads;
}

Status scatter_grad(GradContext& c) {
  const Scatter s{c.graph(), c.in(1), c.attrs().integer("dim"), c.attrs().string("reduce"),
                  c.attrs().flag("include_self")};
  const Gradients grads = scatter_grads(s, c.in(0), reached(c.in(2), c.in(1)), c.out(0), c.dout(0));
  if (c.needs(0)) c.set_grad(0, grads.dx);
  if (c.needs(2)) c.set_grad(2, as_large_as(grads.dsrc, c.in(2)));
  return {};
}

// y[index[i], ...] = src[i, ...] for dim 0, or reduced with the old element
Status index_reduce_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const TensorType& index = c.in(1);
  const TensorType& src = c.in(2);
  HG_TRY(check_reduce(c));
  if (index.dtype != i64) return c.fail("index must be i64, but is ", index.dtype);
  if (src.dtype != x.dtype) return c.fail("x is ", x.dtype, ", src is ", src.dtype);
  if (index.rank() != 1) return c.fail("index must have one dim, but is ", index.shape);
  if (x.rank() == 0 || x.rank() != src.rank())
    return c.fail("x is ", x.shape, ", src is ", src.shape);
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  for (int d = 0; d < x.rank(); ++d) {
    const auto at = static_cast<size_t>(d);
    const Dim& want = d == dim ? index.shape[0] : x.shape[at];
    if (!c.require_equal(src.shape[at], want))
      return c.fail("x is ", x.shape, ", index is ", index.shape, ", src is ", src.shape,
                    ": they differ in dim ", d);
  }
  c.out(0) = x;
  return {};
}

Value index_along(const Value& index, const Value& src, int dim) {
  Shape shape(src.shape().size(), Dim(1));
  shape[dim] = index.dim(0);
  return expand(reshape(index, shape), src.shape());
}

Status index_reduce_expand(ExpandContext& c) {
  HG_TRY_ASSIGN(const int dim, c.axis("dim", c.in(0).rank()));
  NamedAttrs attrs;
  for (std::string_view name : {"dim", "reduce", "include_self"})
    attrs.push_back({name, c.attrs().raw(name)});
  c.set_out(
      0, c.graph().call("scatter", {c.in(0), index_along(c.in(1), c.in(2), dim), c.in(2)}, attrs));
  return {};
}

// As scatter with the index repeated. Sums need only dsrc[i] = dy[index[i]].
Status index_reduce_grad(GradContext& c) {
  const Value dy = c.dout(0);
  HG_TRY_ASSIGN(const int dim, c.axis("dim", c.in(0).rank()));
  const std::string& reduce = c.attrs().string("reduce");
  if (reduce == "add" && c.attrs().flag("include_self")) {
    if (c.needs(0)) c.set_grad(0, dy);
    if (c.needs(2)) c.set_grad(2, c.graph().call("index_select", {dy, c.in(1)}, {{"dim", dim}}));
    return {};
  }
  const Scatter s{c.graph(), index_along(c.in(1), c.in(2), dim), dim, reduce,
                  c.attrs().flag("include_self")};
  const Gradients grads = scatter_grads(s, c.in(0), c.in(2), c.out(0), dy);
  if (c.needs(0)) c.set_grad(0, grads.dx);
  if (c.needs(2)) c.set_grad(2, grads.dsrc);
  return {};
}

// y[index[i], ...] = table[rows[i], ...] * scale[i], reduced with the old element if kept[i]
Status index_select_reduce_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const TensorType& table = c.in(2);
  HG_TRY(check_reduce(c));
  if (table.dtype != x.dtype || x.rank() == 0 || table.rank() != x.rank())
    return c.fail("x is ", x, ", table is ", table);
  for (int d = 1; d < x.rank(); ++d) {
    const auto at = static_cast<size_t>(d);
    if (!c.require_equal(table.shape[at], x.shape[at]))
      return c.fail("x is ", x.shape, ", table is ", table.shape, ": they differ in dim ", d);
  }
  const DType dtypes[] = {i64, i64, i64, i64, x.dtype, boolean};
  for (int i : {1, 3, 4, 5}) {
    if (!c.has(i)) continue;
    const TensorType& list = c.in(i);
    if (list.dtype != dtypes[i] || list.rank() != 1 ||
        !c.require_equal(list.shape[0], c.in(1).shape[0]))
      return c.fail("input ", i, " is ", list, ", but must be ", dtypes[i], " with one dim of ",
                    c.in(1).shape, " elements");
  }
  if ((c.has(4) || c.has(5)) && !is_float(x.dtype))
    return c.fail("scale and kept need a table of floats, but is ", x.dtype);
  c.out(0) = x;
  return {};
}

Status index_select_reduce_expand(ExpandContext& c) {
  Graph& g = c.graph();
  Value src = g.call("index_select", {c.in(2), c.in(3)}, {{"dim", 0}});
  Shape column(src.shape().size(), Dim(1));
  column[0] = src.dim(0);
  const std::string& reduce = c.attrs().string("reduce");
  if (c.has(4)) src = mul(src, reshape(c.in(4), column));
  if (c.has(5)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double fill = reduce == "amax" ? -kInfinity : reduce == "amin" ? kInfinity : 0;
    src = where(reshape(c.in(5), column), src, number(src, fill));
  }
  c.set_out(
      0,
      g.call("index_reduce", {c.in(0), c.in(1), src},
             {{"dim", 0}, {"reduce", reduce}, {"include_self", c.attrs().flag("include_self")}}));
  return {};
}

// y = x, but the k-th element where mask is true is the k-th element of src
Status masked_scatter_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (c.in(1).dtype != boolean) return c.fail("mask must be bool, but is ", c.in(1).dtype);
  if (c.in(2).dtype != x.dtype) return c.fail("x is ", x.dtype, ", src is ", c.in(2).dtype);
  bool same = c.in(1).rank() == x.rank();
  for (size_t d = 0; same && d < x.shape.size(); ++d)
    same = c.require_equal(x.shape[d], c.in(1).shape[d]);
  if (!same) return c.fail("x is ", x.shape, ", mask is ", c.in(1).shape);
  c.out(0) = x;
  return {};
}

// dx = 0 where mask is true, else dy; dsrc[k] += dy of the k-th true element of mask
Status masked_scatter_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value mask = c.in(1), src = c.in(2), dy = c.dout(0);
  if (c.needs(0)) c.set_grad(0, where(mask, number(dy, 0), dy));
  if (!c.needs(2)) return {};
  const Shape flat = {count(mask.shape())};
  const Value chosen = reshape(mask, flat);
  const Value order =
      op("sub", g.call("cumsum", {cast(chosen, i64)}, {{"dim", 0}}), g.scalar(int64_t{1}, i64));
  // Elements outside the mask add 0 to an extra position after src, which may be empty.
  const Dim length = count(src.shape());
  const Value at = where(chosen, order, integer(g, length));
  const Value zeros = expand(number(dy, 0), {length + 1});
  const Value added = where(chosen, reshape(dy, flat), number(dy, 0));
  const Value dsrc = g.call("index_reduce", {zeros, at, added}, {{"dim", 0}, {"reduce", "add"}});
  c.set_grad(2, reshape(slice(dsrc, 0, 0, length), src.shape()));
  return {};
}

// Indices are i64. An index out of range fails the run; only index and index_put accept negative
// ones.
constexpr OpDef kOps[] = {
    // For dim 0: a copy of x in which x[index[i, j], j] is reduced with src[i, j]. Without
    // include_self, the old element is not part of the reduction.
    {.signature = "scatter(x, index, src, dim: int, reduce: str = \"none\", "
                  "include_self: bool = true) -> y",
     .infer = scatter_infer,
     .grad = scatter_grad,
     .alias = 1},
    // For dim 0: a copy of x in which x[index[i], ...] is reduced with src[i, ...]. index: [n].
    {.signature = "index_reduce(x, index, src, dim: int, reduce: str = \"none\", "
                  "include_self: bool = true) -> y",
     .infer = index_reduce_infer,
     .grad = index_reduce_grad,
     .expand = index_reduce_expand,
     .alias = 1},
    // index_reduce along dim 0 of table[rows[i]] * scale[i]. Rows for which `kept` is false are
    // left out; the reduction is then add, amax or amin. All lists: [n].
    {.signature = "index_select_reduce(x, index, table, rows, scale?, kept?, reduce: str, "
                  "include_self: bool = true) -> y",
     .infer = index_select_reduce_infer,
     .expand = index_select_reduce_expand,
     .alias = 1,
     .traits = kInternal},
    // A copy of x in which the k-th element where mask is true is the k-th element of src. mask:
    // bool, of x's shape.
    {.signature = "masked_scatter(x, mask, src) -> y",
     .infer = masked_scatter_infer,
     .grad = masked_scatter_grad,
     .alias = 1},
};

}  // namespace

std::span<const OpDef> scatter() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
