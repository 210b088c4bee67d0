// SPDX-License-Identifier: Apache-2.0
// Views: ops that read the memory of x with other strides. They have no kernels. The planner calls
// `view` for the strides, and copies x first if no strides fit.
#include <algorithm>

#include "hg/op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Shape listed_shape(std::span<const Dim> listed) { return Shape(listed.begin(), listed.end()); }

Status check_sizes(const InferContext& c, const Shape& shape) {
  if (shape.size() > kMaxRank)
    return c.fail("the shape has ", int64_t(shape.size()), " dims, of ", kMaxRank, " at most");
  for (const Dim& size : shape)
    if (!c.require_at_least(size, 0))
      return c.fail("shape ", shape, " has the negative size ", size);
  return {};
}

Status reshape_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const std::span<const Dim> listed = c.attrs().integers("shape");
  c.out(0).dtype = x.dtype;
  Shape& shape = c.out(0).shape;
  shape.assign(listed.begin(), listed.end());
  HG_TRY(check_sizes(c, shape));
  if (!c.require_equal(count(x.shape), count(shape)))
    return c.fail("x is ", x.shape, " with ", count(x.shape), " elements, but shape ", shape,
                  " has ", count(shape));
  return {};
}

// dx = dy in the shape of x
Status reshape_grad(GradContext& c) {
  c.set_grad(0, reshape(c.dout(0), c.in(0).shape()));
  return {};
}

// Splits the dims of x and the new dims into the smallest groups with equal numbers of elements.
// Within a group, x must be one run with a constant stride.
bool reshape_view(ViewContext& c) {
  const Sizes& shape = c.in_shape();
  const Sizes& to = c.out_shape();
  if (shape.count() == 0) {
    c.set(0, contiguous_strides(to));
    return true;
  }
  Sizes strides(to.rank(), 1);
  int next = to.rank() - 1;  // index of a new dim
  int64_t elements = 1;      // of the current group of x
  int64_t filled = 1;        // of these, already assigned to new dims
  int64_t base = 1;          // stride of the group's last dim
  bool open = false;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    if (!open) {
      base = c.in_strides()[d];
      elements = filled = 1;
      open = true;
    }
    elements *= shape[d];
    int outer = d - 1;
    while (outer >= 0 && shape[outer] == 1) --outer;
    const bool ends = outer < 0 || c.in_strides()[outer] != elements * base;
    if (!ends) continue;
    while (next >= 0 && (filled < elements || to[next] == 1)) {
      strides[next] = filled * base;
      filled *= to[next];
      --next;
    }
    if (filled != elements) return false;
    open = false;
  }
  c.set(0, strides);
  return true;
}

Status permute_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  HG_TRY_ASSIGN(const std::vector<int> dims, c.axes("dims", x.rank()));
  if (static_cast<int>(dims.size()) != x.rank())
    return c.fail("dims has ", int64_t(dims.size()), " entries, x has rank ", x.rank());
  TensorType& y = c.out(0);
  y.dtype = x.dtype;
  y.shape.clear();
  for (int d : dims) y.shape.push_back(x.shape[d]);
  return {};
}

// dx = dy with the dims in their original order
Status permute_grad(GradContext& c) {
  const int rank = c.in(0).rank();
  Dims inverse(rank);
  const std::span<const Dim> dims = c.attrs().integers("dims");
  for (int i = 0; i < rank; ++i) {
    HG_TRY_ASSIGN(const int from, normalize_axis(dims[i].constant(), rank));
    inverse[from] = i;
  }
  c.set_grad(0, permute(c.dout(0), std::move(inverse)));
  return {};
}

bool permute_view(ViewContext& c) {
  const int rank = c.in_shape().rank();
  Sizes strides;
  for (const Dim& dim : c.attrs().integers("dims")) {
    const int64_t d = dim.constant();
    strides.push_back(c.in_strides()[static_cast<int>(d < 0 ? d + rank : d)]);
  }
  c.set(0, strides);
  return true;
}

Status expand_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  Shape shape = listed_shape(c.attrs().integers("shape"));
  HG_TRY(check_sizes(c, shape));
  if (shape.size() < x.shape.size())
    return c.fail("x is ", x.shape, ", which has more dims than shape ", shape);
  const size_t added = shape.size() - x.shape.size();
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (!(x.shape[i] == Dim(1)) && certainly_differ(x.shape[i], shape[i + added]))
      return c.fail("x is ", x.shape, ", which cannot be repeated to ", shape);
  c.out(0) = {x.dtype, std::move(shape)};
  return {};
}

// dx = dy summed over the repeated dims
Status expand_grad(GradContext& c) {
  c.set_grad(0, c.dout(0));
  return {};
}

bool expand_view(ViewContext& c) {
  const int added = c.out_shape().rank() - c.in_shape().rank();
  Sizes strides(c.out_shape().rank(), 0);
  for (int d = 0; d < c.in_shape().rank(); ++d)
    if (c.in_shape()[d] != 1) strides[d + added] = c.in_strides()[d];
  c.set(0, strides);
  return true;
}

Status slice_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.rank() == 0) return c.fail("x has no dims");
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  HG_TRY_ASSIGN(Dim size, sliced_size(c, dim));
  c.out(0) = x;
  c.out(0).shape[dim] = std::move(size);
  return {};
}

// dx = zeros with dy in the slice
Status slice_grad(GradContext& c) {
  NamedAttrs attrs;
  for (std::string_view name : {"dim", "start", "end", "step"})
    attrs.push_back({name, c.attrs().raw(name)});
  c.set_grad(0, c.graph().call("slice_scatter", {full_like(c.in(0), 0), c.dout(0)}, attrs));
  return {};
}

bool slice_view(ViewContext& c) {
  const int dim = c.axis("dim", c.in_shape().rank());
  Sizes strides = c.in_strides();
  const int64_t offset = c.integer("start") * strides[dim];
  if (c.out_shape()[dim] > 1) strides[dim] *= c.integer("step");  // any number
  c.set(c.out_shape().count() == 0 ? 0 : offset, strides);
  return true;
}

Status flip_infer(InferContext& c) {
  HG_TRY(c.axes("dims", c.in(0).rank()).status());
  c.out(0) = c.in(0);
  return {};
}

// dx = dy flipped back
Status flip_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("flip", {c.dout(0)}, {{"dims", c.attrs().raw("dims")}}));
  return {};
}

bool flip_view(ViewContext& c) {
  const int rank = c.in_shape().rank();
  Sizes strides = c.in_strides();
  int64_t offset = 0;
  for (const Dim& dim : c.attrs().integers("dims")) {
    if (rank == 0) break;
    const int64_t d = dim.constant();
    const int axis = static_cast<int>(d < 0 ? d + rank : d);
    if (c.in_shape()[axis] == 0) continue;
    offset += strides[axis] * (c.in_shape()[axis] - 1);
    strides[axis] = -strides[axis];
  }
  c.set(c.in_shape().count() == 0 ? 0 : offset, strides);
  return true;
}

// dim1 and dim2 are replaced by one dim at the end.
Status diagonal_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.rank() < 2) return c.fail("x is ", x.shape, ", but needs two dims");
  HG_TRY_ASSIGN(const int dim1, c.axis("dim1", x.rank()));
  HG_TRY_ASSIGN(const int dim2, c.axis("dim2", x.rank()));
  if (dim1 == dim2) return c.fail("dim1 and dim2 are both ", dim1);
  const Dim offset = c.attrs().integer("offset");
  TensorType& y = c.out(0);
  y.dtype = x.dtype;
  y.shape.clear();
  for (int d = 0; d < x.rank(); ++d)
    if (d != dim1 && d != dim2) y.shape.push_back(x.shape[d]);
  const Dim rows = x.shape[dim1] + min(offset, 0);
  const Dim columns = x.shape[dim2] - max(offset, 0);
  y.shape.push_back(max(min(rows, columns), 0));
  return {};
}

// dx = zeros with dy on the diagonal
Status diagonal_grad(GradContext& c) {
  NamedAttrs attrs;
  for (std::string_view name : {"offset", "dim1", "dim2"})
    attrs.push_back({name, c.attrs().raw(name)});
  c.set_grad(0, c.graph().call("diagonal_scatter", {full_like(c.in(0), 0), c.dout(0)}, attrs));
  return {};
}

bool diagonal_view(ViewContext& c) {
  const int rank = c.in_shape().rank();
  const int dim1 = c.axis("dim1", rank), dim2 = c.axis("dim2", rank);
  const int64_t offset = c.integer("offset");
  Sizes strides;
  for (int d = 0; d < rank; ++d)
    if (d != dim1 && d != dim2) strides.push_back(c.in_strides()[d]);
  strides.push_back(c.in_strides()[dim1] + c.in_strides()[dim2]);
  if (c.out_shape().count() == 0)  // the offset may be any number
    c.set(0, strides);
  else
    c.set(offset >= 0 ? offset * c.in_strides()[dim2] : -offset * c.in_strides()[dim1], strides);
  return true;
}

// Windows of `size` elements along dim, one per `step`. The window becomes the last dim.
Status unfold_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  const Dim size = c.attrs().integer("size"), step = c.attrs().integer("step");
  const Dim length = x.rank() == 0 ? Dim(1) : x.shape[dim];
  if (!c.require_at_least(step, 1)) return c.fail("step is ", step, ", but must be 1 or more");
  if (!c.require_at_least(size, 0) || !c.require_at_least(length - size, 0))
    return c.fail("size is ", size, ", but dim ", dim, " of x has ", length, " elements");
  c.out(0) = x;
  if (x.rank() > 0) c.out(0).shape[dim] = floordiv(length - size, step) + 1;
  c.out(0).shape.push_back(size);
  return {};
}

// dx[window * step + i] += dy[window, i]
Status unfold_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value x = c.in(0);
  Value dy = c.dout(0);
  if (x.rank() == 0) {
    c.set_grad(0, sum(dy, {}));
    return {};
  }
  HG_TRY_ASSIGN(const int dim, c.axis("dim", x.rank()));
  const Dim windows = dy.dim(dim), size = dy.dim(-1);
  auto count_up = [&](const Dim& end, Shape shape) {
    return reshape(g.call("arange", {}, {{"end", end}}), std::move(shape));
  };
  const Value step =
      g.call("arange", {},
             {{"end", windows * c.attrs().integer("step")}, {"step", c.attrs().integer("step")}});
  const Value at = add(reshape(step, {windows, 1}), count_up(size, {1, size}));
  // dy: moves the window dim after dim, and merges both.
  Dims order;
  for (int d = 0; d < x.rank(); ++d) {
    order.emplace_back(d);
    if (d == dim) order.emplace_back(x.rank());
  }
  dy = permute(dy, std::move(order));
  Shape flat = x.shape();
  flat[dim] = windows * size;
  c.set_grad(
      0, g.call("index_reduce", {full_like(x, 0), reshape(at, {windows * size}), reshape(dy, flat)},
                {{"dim", dim}, {"reduce", "add"}}));
  return {};
}

bool unfold_view(ViewContext& c) {
  Sizes strides = c.in_strides();
  if (strides.empty()) {
    strides.push_back(1);
  } else {
    const int dim = c.axis("dim", c.in_shape().rank());
    const int64_t stride = strides[dim];
    if (c.out_shape()[dim] > 1) strides[dim] *= c.integer("step");  // any number
    strides.push_back(stride);
  }
  c.set(0, strides);
  return true;
}

// The elements of x in row-major order, read with other sizes and strides.
Status as_strided_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  Shape shape = listed_shape(c.attrs().integers("size"));
  const std::span<const Dim> strides = c.attrs().integers("stride");
  HG_TRY(check_sizes(c, shape));
  if (strides.size() != shape.size())
    return c.fail("size has ", int64_t(shape.size()), " entries, stride has ",
                  int64_t(strides.size()));
  Dim last = c.attrs().integer("storage_offset");
  if (!c.require_at_least(last, 0)) return c.fail("storage_offset is ", last);
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!c.require_at_least(strides[i], 0)) return c.fail("stride ", strides[i], " is negative");
    if (shape[i] == Dim(0)) empty = true;
    const Dim steps = shape[i] - 1;
    int64_t reach = 0;  // an overflowed sum could seem to be inside x
    if (steps.is_constant() && strides[i].is_constant() && last.is_constant() &&
        (__builtin_mul_overflow(steps.constant(), strides[i].constant(), &reach) ||
         __builtin_add_overflow(last.constant(), reach, &reach)))
      return c.fail("stride ", strides[i], " times ", steps, " overflows");
    last = last + steps * strides[i];
  }
  if (!empty && !c.require_at_least(count(x.shape) - 1 - last, 0) && is_constant(shape))
    return c.fail("element ", last, " is beyond the ", count(x.shape), " elements of x");
  c.out(0) = {x.dtype, std::move(shape)};
  return {};
}

// The position in x of each element of y, in row-major order.
Value strided_positions(Graph& g, Shape shape, std::span<const Dim> strides, const Dim& offset) {
  const Shape ones(shape.size(), Dim(1));
  Value at = integer(g, offset, ones);
  for (size_t i = 0; i < shape.size(); ++i) {
    Shape along = ones;
    along[i] = shape[i];
    const Value steps = reshape(g.call("arange", {}, {{"end", shape[i]}}), along);
    at = add(at, mul(steps, integer(g, strides[i], ones)));
  }
  return at;
}

// dx[position] += dy
Status as_strided_grad(GradContext& c) {
  const Value x = c.in(0), dy = c.dout(0);
  const Value at = strided_positions(c.graph(), dy.shape(), c.attrs().integers("stride"),
                                     c.attrs().integer("storage_offset"));
  const Shape flat = {count(dy.shape())};
  const Value zeros = expand(number(x, 0), {count(x.shape())});
  const Value dx = c.graph().call("index_reduce", {zeros, reshape(at, flat), reshape(dy, flat)},
                                  {{"dim", 0}, {"reduce", "add"}});
  c.set_grad(0, reshape(dx, x.shape()));
  return {};
}

bool as_strided_view(ViewContext& c) {
  if (c.in_shape().count() != 0 &&
      !(Tensor{nullptr, f32, c.in_shape(), c.in_strides()}).is_contiguous())
    return false;
  if (c.out_shape().count() == 0) {  // strides may be any numbers
    c.set(0, contiguous_strides(c.out_shape()));
    return true;
  }
  Sizes strides;
  for (const Dim& stride : c.attrs().integers("stride"))
    strides.push_back(c.out_shape()[strides.rank()] > 1 ? stride.constant() : 1);
  c.set(c.integer("storage_offset"), strides);
  return true;
}

// The bits of x as another dtype of the same size. Not every byte is a valid bool.
Status view_dtype_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const DType to = c.attrs().dtype("dtype");
  if (size_of(to) != size_of(x.dtype))
    return c.fail("an element of ", x.dtype, " has ", size_of(x.dtype), " bytes, one of ", to,
                  " has ", size_of(to));
  if (is_complex(to) || (to == boolean && x.dtype != boolean))
    return c.fail("the bits of ", x.dtype, " cannot be viewed as ", to);
  c.out(0) = {to, x.shape};
  return {};
}

// x; its gradient ends here
Status detach_infer(InferContext& c) {
  c.out(0) = c.in(0);
  return {};
}
bool same_places(ViewContext& c) {
  c.set(0, c.in_strides());
  return true;
}

constexpr OpDef kOps[] = {
    // x's elements in row-major order in a new shape; -1 is not allowed.
    {.signature = "reshape(x, shape: int[]) -> y",
     .infer = reshape_infer,
     .grad = reshape_grad,
     .view = reshape_view,
     .traits = kKeepsFinite},
    // Dim i of the result is dim dims[i] of x.
    {.signature = "permute(x, dims: int[]) -> y",
     .infer = permute_infer,
     .grad = permute_grad,
     .view = permute_view,
     .traits = kKeepsFinite},
    // Broadcasts x: repeats dims of size 1 and adds leading dims.
    {.signature = "expand(x, shape: int[]) -> y",
     .infer = expand_infer,
     .grad = expand_grad,
     .view = expand_view,
     .traits = kKeepsFinite},
    // Elements [start, end) of dim with the given step; 0 <= start <= end <= size.
    {.signature = "slice(x, dim: int, start: int, end: int, step: int = 1) -> y",
     .infer = slice_infer,
     .grad = slice_grad,
     .view = slice_view,
     .traits = kKeepsFinite},
    // Returns x and stops gradients: they are zero beyond it.
    {.signature = "detach(x) -> y",
     .infer = detach_infer,
     .view = same_places,
     .traits = kNoGradient},
    // Reinterprets the bits of x as another dtype of the same element size; bool only as bool.
    {.signature = "view_dtype(x, dtype: dtype) -> y",
     .infer = view_dtype_infer,
     .view = same_places,
     .traits = kNoGradient},
    // Reverses the order of the elements along dims.
    {.signature = "flip(x, dims: int[]) -> y",
     .infer = flip_infer,
     .grad = flip_grad,
     .view = flip_view,
     .traits = kKeepsFinite},
    // Replaces dim1 and dim2 by a last dim with x[..., i, i + offset].
    {.signature = "diagonal(x, offset: int = 0, dim1: int = 0, dim2: int = 1) -> y",
     .infer = diagonal_infer,
     .grad = diagonal_grad,
     .view = diagonal_view},
    // Windows of `size` elements along dim, one every `step`; the window becomes a new last dim.
    {.signature = "unfold(x, dim: int, size: int, step: int) -> y",
     .infer = unfold_infer,
     .grad = unfold_grad,
     .view = unfold_view},
    // y[i, j] = element storage_offset + i * stride[0] + j * stride[1] of x in row-major order.
    {.signature = "as_strided(x, size: int[], stride: int[], storage_offset: int = 0) -> y",
     .infer = as_strided_infer,
     .grad = as_strided_grad,
     .view = as_strided_view},
};

}  // namespace

std::span<const OpDef> movement() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
