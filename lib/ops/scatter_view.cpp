// SPDX-License-Identifier: Apache-2.0
// The reverse of views: x with src written to the elements of the view of x with the same
// attributes.
#include "hg/op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

struct Reverse {
  std::string_view op, view;
  std::vector<std::string_view> attrs;
};

Reverse reverse_of(const AttrReader& attrs) {
  const std::string_view op = attrs.op().name();
  if (op == "slice_scatter") return {op, "slice", {"dim", "start", "end", "step"}};
  if (op == "diagonal_scatter") return {op, "diagonal", {"offset", "dim1", "dim2"}};
  return {op, "as_strided", {"size", "stride", "storage_offset"}};
}

NamedAttrs copied(const AttrReader& attrs, const Reverse& reverse) {
  NamedAttrs copies;
  for (std::string_view name : reverse.attrs) copies.push_back({name, attrs.raw(name)});
  return copies;
}

Status slice_scatter_infer(InferContext& c) {
  const TensorType &x = c.in(0), &src = c.in(1);
  if (x.rank() == 0) return c.fail("x has no dims");
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  HG_TRY_ASSIGN(const Dim size, sliced_size(c, dim));
  if (src.dtype != x.dtype) return c.fail("x is ", x.dtype, ", src is ", src.dtype);
  c.out(0) = x;
  Shape& view = c.out(0).shape;
  view[static_cast<size_t>(dim)] = size;
  bool same = src.rank() == x.rank();
  for (size_t d = 0; same && d < view.size(); ++d) same = c.require_equal(src.shape[d], view[d]);
  if (!same) return c.fail("src must be ", view, ", but is ", src.shape);
  view[static_cast<size_t>(dim)] = x.shape[static_cast<size_t>(dim)];
  return {};
}

// The rule of the view determines the shape of src.
Status scatter_view_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const TensorType& src = c.in(1);
  const Reverse reverse = reverse_of(c.attrs());
  Graph scratch = c.scratch_graph();
  const Value view = scratch.call(reverse.view, {scratch.input("x", x.dtype, x.shape)},
                                  copied(c.attrs(), reverse));
  if (!scratch.status().ok()) return c.fail(scratch.status().message());
  if (src.dtype != x.dtype) return c.fail("x is ", x.dtype, ", src is ", src.dtype);
  bool same = src.rank() == view.rank();
  for (int d = 0; same && d < src.rank(); ++d) same = c.require_equal(src.shape[d], view.dim(d));
  if (!same) return c.fail("src must be ", view.shape(), ", but is ", src.shape);
  c.out(0) = x;
  return {};
}

// dx = dy with zeros written, dsrc = the view of dy
Status scatter_view_grad(GradContext& c) {
  const Reverse reverse = reverse_of(c.attrs());
  const NamedAttrs attrs = copied(c.attrs(), reverse);
  if (c.needs(0))
    c.set_grad(0, c.graph().call(reverse.op, {c.dout(0), full_like(c.in(1), 0)}, attrs));
  if (c.needs(1)) c.set_grad(1, c.graph().call(reverse.view, {c.dout(0)}, attrs));
  return {};
}

constexpr OpDef kOps[] = {
    // A copy of x with slice(x, dim, start, end, step) replaced by src.
    {.signature = "slice_scatter(x, src, dim: int, start: int, end: int, step: int = 1) -> y",
     .infer = slice_scatter_infer,
     .grad = scatter_view_grad,
     .alias = 1},
    // A copy of x with diagonal(x, offset, dim1, dim2) replaced by src.
    {.signature = "diagonal_scatter(x, src, offset: int = 0, dim1: int = 0, dim2: int = 1) -> y",
     .infer = scatter_view_infer,
     .grad = scatter_view_grad,
     .alias = 1},
    // A copy of x with as_strided(x, size, stride, storage_offset) replaced by src.
    {.signature =
         "as_strided_scatter(x, src, size: int[], stride: int[], storage_offset: int = 0) -> y",
     .infer = scatter_view_infer,
     .grad = scatter_view_grad,
     .alias = 1},
};

}  // namespace

std::span<const OpDef> scatter_view() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
