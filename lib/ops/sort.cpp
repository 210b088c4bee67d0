// SPDX-License-Identifier: Apache-2.0
// Ops that order the elements along one dim. NaN is larger than every number.
#include "hg/ops/sort.h"

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "lib/ops/reduce.h"
#include "lib/ops/sort.h"
#include "lib/table/rows.h"

namespace hg::ops {

Status pick_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  if (x.rank() == 0) {
    c.set_grad(0, dy);
    return {};
  }
  const Value zeros = c.graph().call("expand", {number_like(x, 0)}, {{"shape", x.shape()}});
  c.set_grad(0, c.graph().call("scatter", {zeros, c.out(1), dy},
                               {{"dim", c.attrs().integer("dim")}, {"reduce", "add"}}));
  return {};
}

namespace {

Status infer_sort(InferContext& c) {
  HG_TRY(c.axis("dim", c.in(0).rank()).status());
  c.out(0) = c.in(0);
  c.out(1) = {i64, c.in(0).shape};
  return {};
}

// The size along dim; 1 for rank 0
Dim line_size(const TensorType& x, int axis) { return x.rank() == 0 ? Dim(1) : x.shape[axis]; }

Status infer_topk(InferContext& c) {
  const TensorType& x = c.in(0);
  HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
  const Dim k = c.attrs().integer("k"), size = line_size(x, axis);
  if (k.is_constant() && size.is_constant() && (k.constant() < 0 || k.constant() > size.constant()))
    return c.fail("k is ", k, ", dim ", axis, " has ", size, " elements");
  c.out(0) = x;
  if (x.rank() > 0) c.out(0).shape[axis] = k;
  c.out(1) = {i64, c.out(0).shape};
  return {};
}

Status infer_one(InferContext& c) {
  const TensorType& x = c.in(0);
  const bool keepdim = c.attrs().flag("keepdim");
  std::vector<int> axes;
  if (c.attrs().has("dim")) {
    HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
    if (line_size(x, axis) == Dim(0)) return c.fail("dim ", axis, " of ", x.shape, " is empty");
    axes = {axis};
  } else {
    for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
  }
  c.out(0) = {x.dtype, reduced_shape(x.shape, axes, keepdim)};
  c.out(1) = {i64, c.out(0).shape};
  return {};
}
Status infer_kthvalue(InferContext& c) {
  HG_TRY(infer_one(c));
  HG_TRY_ASSIGN(const int axis, c.axis("dim", c.in(0).rank()));
  const Dim k = c.attrs().integer("k"), size = line_size(c.in(0), axis);
  if (k.is_constant() && size.is_constant() && (k.constant() < 1 || k.constant() > size.constant()))
    return c.fail("k is ", k, ", dim ", axis, " has ", size, " elements");
  return {};
}

// One element of each line. Without dim, all equal elements share dy.
Status one_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value x = c.in(0), dy = c.dout(0);
  if (x.rank() == 0) {
    c.set_grad(0, g.call("reshape", {dy}, {{"shape", Shape()}}));
    return {};
  }
  std::vector<int> axes;
  for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
  if (!c.attrs().has("dim")) {
    const Shape kept = reduced_shape(x.shape(), axes, true);
    const Value y = g.call("reshape", {c.out(0)}, {{"shape", kept}});
    const Value same = logical_or(eq(x, y), logical_and(ne(x, x), ne(y, y)));
    const Value chosen = cast(same, x.dtype());
    const Value share = chosen / g.call("sum", {chosen});
    c.set_grad(0, g.call("reshape", {dy}, {{"shape", kept}}) * share);
    return {};
  }
  HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
  const Shape kept = reduced_shape(x.shape(), {axis}, true);
  const Value zeros = g.call("expand", {number_like(x, 0)}, {{"shape", x.shape()}});
  c.set_grad(0, g.call("scatter",
                       {zeros, g.call("reshape", {c.out(1)}, {{"shape", kept}}),
                        g.call("reshape", {dy}, {{"shape", kept}})},
                       {{"dim", axis}, {"reduce", "add"}}));
  return {};
}

// Values and their indices (i64) along dim. NaN is larger than every number.
constexpr OpDef kOps[] = {
    // Stable: equal elements keep their order.
    {.signature = "sort(x, dim: int = -1, descending: bool = false) -> values, indices",
     .infer = infer_sort,
     .grad = pick_grad},
    // The k largest or smallest elements, sorted.
    {.signature = "topk(x, k: int, dim: int = -1, largest: bool = true) -> values, indices",
     .infer = infer_topk,
     .grad = pick_grad},
    // The k-th smallest element, k counting from 1.
    {.signature = "kthvalue(x, k: int, dim: int = -1, keepdim: bool = false) -> values, indices",
     .infer = infer_kthvalue,
     .grad = one_grad},
    // The lower of two middle elements; NaN if any element is NaN. Without dim, of all elements.
    {.signature = "median(x, dim: int?, keepdim: bool = false) -> values, indices",
     .infer = infer_one,
     .grad = one_grad},
    // As median, ignoring NaN.
    {.signature = "nanmedian(x, dim: int?, keepdim: bool = false) -> values, indices",
     .infer = infer_one,
     .grad = one_grad},
    // The most frequent element, the smallest of several, and its last index.
    {.signature = "mode(x, dim: int = -1, keepdim: bool = false) -> values, indices",
     .infer = infer_one,
     .grad = one_grad},
};

}  // namespace

std::span<const OpDef> sort() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
