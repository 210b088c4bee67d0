// SPDX-License-Identifier: Apache-2.0
// Ops that select elements by index. Indices are i64; only `index` accepts negative ones. An index
// out of range fails the run.

#include "hg/op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Status check_indices(const InferContext& c, int i) {
  if (c.in(i).dtype != i64) return c.fail("indices must be i64, but are ", c.in(i).dtype);
  return {};
}

// y[i, j] = x[index[i, j], j] for dim 0
Status gather_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const TensorType& index = c.in(1);
  HG_TRY(check_indices(c, 1));
  if (x.rank() != index.rank())
    return c.fail("x is ", x.shape, ", index is ", index.shape, ": the ranks differ");
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  for (int d = 0; d < x.rank(); ++d) {
    const auto at = static_cast<size_t>(d);
    if (d != dim && !c.require_at_least(x.shape[at] - index.shape[at], 0))
      return c.fail("index ", index.shape, " is larger than x ", x.shape, " in dim ", d);
  }
  c.out(0) = {x.dtype, index.shape};
  return {};
}

// dx[index[i, j], j] += dy[i, j]
Status gather_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("scatter", {full_like(c.in(0), 0), c.in(1), c.dout(0)},
                               {{"dim", c.attrs().raw("dim")}, {"reduce", "add"}}));
  return {};
}

// y[i, ...] = x[index[i], ...] for dim 0
Status index_select_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  HG_TRY(check_indices(c, 1));
  if (c.in(1).rank() != 1) return c.fail("index must have one dim, but is ", c.in(1).shape);
  if (x.rank() == 0) return c.fail("x has no dims");
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  c.out(0) = x;
  c.out(0).shape[dim] = c.in(1).shape[0];
  return {};
}

// dx[index[i], ...] += dy[i, ...]
Status index_select_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("index_reduce", {full_like(c.in(0), 0), c.in(1), c.dout(0)},
                               {{"dim", c.attrs().raw("dim")}, {"reduce", "add"}}));
  return {};
}

// weight: [rows, width], indices: any shape; y: [indices..., width]
Status embedding_infer(InferContext& c) {
  const TensorType& weight = c.in(0);
  HG_TRY(check_indices(c, 1));
  if (weight.rank() != 2) return c.fail("weight must have two dims, but is ", weight.shape);
  const Dim padding = c.attrs().integer("padding_idx");
  if (!padding.is_constant()) return c.fail("padding_idx is ", padding, ", but must be a number");
  c.out(0) = {weight.dtype, c.in(1).shape};
  c.out(0).shape.push_back(weight.shape[1]);
  return {};
}

Status embedding_expand(ExpandContext& c) {
  const Value weight = c.in(0), indices = c.in(1);
  Shape shape = indices.shape();
  shape.push_back(weight.dim(1));
  const Value flat = reshape(indices, {count(indices.shape())});
  c.set_out(0, reshape(c.graph().call("index_select", {weight, flat}, {{"dim", 0}}), shape));
  return {};
}

// dweight[indices[i]] += dy[i], except for the row padding_idx; with scale_grad_by_freq, divided by
// the number of occurrences of the index
Status embedding_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value weight = c.in(0);
  const Shape flat = {count(c.in(1).shape())};
  const Value indices = reshape(c.in(1), flat);
  Value dy = reshape(c.dout(0), {flat[0], weight.dim(1)});
  const Dim padding = c.attrs().integer("padding_idx");
  if (padding.constant() >= 0) {
    const Value pads = op("eq", indices, g.scalar(padding.constant(), i64));
    dy = where(reshape(pads, {flat[0], 1}), number(dy, 0), dy);
  }
  if (c.attrs().flag("scale_grad_by_freq")) {
    const Value ones = expand(number(dy, 1), flat);
    const Value often =
        g.call("index_reduce", {expand(number(dy, 0), {weight.dim(0)}), indices, ones},
               {{"dim", 0}, {"reduce", "add"}});
    const Value own = g.call("index_select", {often, indices}, {{"dim", 0}});
    dy = div(dy, reshape(own, {flat[0], 1}));
  }
  c.set_grad(0, g.call("index_reduce", {full_like(weight, 0), indices, dy},
                       {{"dim", 0}, {"reduce", "add"}}));
  return {};
}

// y[p, ...] = x[indices_0[p], indices_1[p], ..., ...]: selects along the first dims of x. All
// indices have one shape. The remaining dims of x come last.
Status check_index(const InferContext& c, int first) {
  const TensorType& x = c.in(0);
  const int used = c.input_count() - first;
  if (used < 1) return c.fail("there are no indices");
  if (used > x.rank()) return c.fail("there are ", used, " indices for x ", x.shape);
  for (int i = first; i < c.input_count(); ++i) {
    HG_TRY(check_indices(c, i));
    bool same = c.in(i).rank() == c.in(first).rank();
    for (size_t d = 0; same && d < c.in(i).shape.size(); ++d)
      same = c.require_equal(c.in(i).shape[d], c.in(first).shape[d]);
    if (!same)
      return c.fail("the indices have different shapes ", c.in(first).shape, " and ",
                    c.in(i).shape);
  }
  return {};
}

Shape indexed_shape(const InferContext& c, int first) {
  Shape shape = c.in(first).shape;
  const Shape& x = c.in(0).shape;
  shape.insert(shape.end(), x.begin() + (c.input_count() - first), x.end());
  return shape;
}

Status index_infer(InferContext& c) {
  HG_TRY(check_index(c, 1));
  c.out(0) = {c.in(0).dtype, indexed_shape(c, 1)};
  return {};
}

// dx[indices[p]] += dy[p]
Status index_grad(GradContext& c) {
  std::vector<Value> inputs = {full_like(c.in(0), 0), c.dout(0)};
  for (int i = 1; i < c.input_count(); ++i) inputs.push_back(c.in(i));
  c.set_grad(0, c.graph().call("index_put", inputs, {{"accumulate", true}}));
  return {};
}

// x with y[indices[p]] = values[p] in order of p, or += with accumulate
Status index_put_infer(InferContext& c) {
  HG_TRY(check_index(c, 2));
  const TensorType& values = c.in(1);
  if (values.dtype != c.in(0).dtype)
    return c.fail("x is ", c.in(0).dtype, ", values are ", values.dtype);
  const Shape want = indexed_shape(c, 2);
  bool same = want.size() == values.shape.size();
  for (size_t d = 0; same && d < want.size(); ++d) same = c.require_equal(want[d], values.shape[d]);
  if (!same) return c.fail("values must be ", want, ", but are ", values.shape);
  c.out(0) = c.in(0);
  return {};
}

// dx = dy, but zero where values were written (unless accumulated); dvalues[p] = dy[indices[p]]
Status index_put_grad(GradContext& c) {
  Graph& g = c.graph();
  std::vector<Value> picked = {c.dout(0)}, cleared = {c.dout(0), full_like(c.in(1), 0)};
  for (int i = 2; i < c.input_count(); ++i) {
    picked.push_back(c.in(i));
    cleared.push_back(c.in(i));
  }
  if (c.needs(0))
    c.set_grad(0, c.attrs().flag("accumulate") ? c.dout(0) : g.call("index_put", cleared));
  if (c.needs(1)) c.set_grad(1, g.call("index", picked));
  return {};
}

// y[i, class] = class == x[i]
Status one_hot_infer(InferContext& c) {
  HG_TRY(check_indices(c, 0));
  const Dim classes = c.attrs().integer("num_classes");
  c.out(0) = c.in(0);
  if (classes == Dim(-1)) {
    if (count(c.in(0).shape) == Dim(0)) return c.fail("x is empty, so num_classes must be given");
    c.out(0).shape.push_back(c.fresh_dim());
  } else {
    if (!c.require_at_least(classes, 1)) return c.fail("num_classes is ", classes);
    c.out(0).shape.push_back(classes);
  }
  return {};
}

// The positions of the nonzero elements, one per row, in row-major order.
Status nonzero_infer(InferContext& c) {
  const Dim found = c.fresh_dim();
  c.out(0) = {i64, {found, Dim(c.in(0).rank())}};
  return {};
}

// repeats: [n]; y contains i repeats[i] times
Status repeat_interleave_infer(InferContext& c) {
  HG_TRY(check_indices(c, 0));
  if (c.in(0).rank() != 1) return c.fail("repeats must have one dim, but are ", c.in(0).shape);
  c.out(0) = {i64, {c.fresh_dim()}};
  return {};
}

// Indices are i64. An index out of range fails the run; only index and index_put accept negative
// ones.
constexpr OpDef kOps[] = {
    // For dim 0: y[i, j] = x[index[i, j], j].
    {.signature = "gather(x, index, dim: int) -> y", .infer = gather_infer, .grad = gather_grad},
    // For dim 0: y[i, ...] = x[index[i], ...]. index: [n].
    {.signature = "index_select(x, index, dim: int) -> y",
     .infer = index_select_infer,
     .grad = index_select_grad},
    // weight: [rows, width], indices: any shape -> [indices..., width]. The row padding_idx
    // receives no gradient (-1: none). If scale_grad_by_freq, the gradient of a row is divided by
    // the number of times it was read.
    {.signature = "embedding(weight, indices, padding_idx: int = -1, "
                  "scale_grad_by_freq: bool = false) -> y",
     .infer = embedding_infer,
     .grad = embedding_grad,
     .expand = embedding_expand,
     .traits = kKeepsFinite},
    // y[p, ...] = x[indices[0][p], indices[1][p], ..., ...]: indexes the first dims of x. At least
    // one index is needed; all have the same shape. The other dims of x follow.
    {.signature = "index(x, indices...) -> y",
     .infer = index_infer,
     .grad = index_grad,
     .traits = kKeepsFinite},
    // A copy of x with y[indices[0][p], ..., ...] = values[p, ...] in order of p, or += if
    // accumulate. values has the shape of index(x, indices).
    {.signature = "index_put(x, values, indices..., accumulate: bool = false) -> y",
     .infer = index_put_infer,
     .grad = index_put_grad,
     .alias = 1},
    // y[..., k] = (x[...] == k), i64 of shape [x..., num_classes]. -1: one more than the largest
    // element of x, a size that depends on data.
    {.signature = "one_hot(x, num_classes: int = -1) -> y",
     .infer = one_hot_infer,
     .traits = kNoGradient | kDataDependent},
    // Positions of the nonzero elements, in row-major order: i64[count, rank of x]. count depends
    // on data.
    {.signature = "nonzero(x) -> y",
     .infer = nonzero_infer,
     .traits = kNoGradient | kDataDependent},
    // Repeats i repeats[i] times, in order. repeats: i64[n] -> i64[sum of repeats].
    {.signature = "repeat_interleave(repeats) -> y",
     .infer = repeat_interleave_infer,
     .traits = kNoGradient | kDataDependent},
};

}  // namespace

std::span<const OpDef> index() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
