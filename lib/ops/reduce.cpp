// SPDX-License-Identifier: Apache-2.0
// Reductions over any dims. An empty list of dims means all of them.
#include "hg/ops/reduce.h"

#include <algorithm>
#include <cmath>

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/scan.h"
#include "hg/ops/unary.h"
#include "lib/graph/real.h"
#include "lib/ops/reduce.h"
#include "lib/ops/row.h"
#include "lib/table/rows.h"

namespace hg::ops {

Shape reduced_shape(const Shape& shape, const std::vector<int>& axes, bool keepdim) {
  Shape result;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (!gone)
      result.push_back(shape[d]);
    else if (keepdim)
      result.emplace_back(1);
  }
  return result;
}

namespace {

std::vector<int> all_axes(int rank) {
  std::vector<int> axes;
  for (int d = 0; d < rank; ++d) axes.push_back(d);
  return axes;
}

// y without the dims `axes`; returns the same values with size 1 there, which broadcast with x.
Value with_kept_dims(const Value& y, const Shape& x, const std::vector<int>& axes) {
  const Shape kept = reduced_shape(x, axes, true);
  return y.shape() == kept ? y : y.graph()->call("reshape", {y}, {{"shape", kept}});
}
std::vector<int> axes_of(const GradContext& c) {
  const int rank = c.in(0).rank();
  const std::span<const Dim> given = c.attrs().integers("dim");
  if (given.empty()) return all_axes(rank);
  std::vector<int> axes;
  for (const Dim& dim : given) {
    const int64_t axis = dim.constant();
    if (rank > 0) axes.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
  }
  return axes;
}
Value kept(const GradContext& c, const Value& y) {
  return with_kept_dims(y, c.in(0).shape(), axes_of(c));
}
Value expanded(const Value& y, const Value& x) {
  return y.shape() == x.shape() ? y : y.graph()->call("expand", {y}, {{"shape", x.shape()}});
}
// The number of elements per result minus `correction`, at least 0, in x's dtype.
Value element_count(const GradContext& c, double correction = 0) {
  const Value x = c.in(0);
  Dim size(1);
  for (int axis : axes_of(c)) size = size * x.dim(axis);
  if (size.is_constant())
    return number_like(x, std::max(0.0, static_cast<double>(size.constant()) - correction));
  const Value number =
      cast(x.graph()->call("dims", {}, {{"values", std::vector<Dim>{size}}}), x.dtype());
  return maximum(number - correction, number_like(x, 0));  // [1]
}

Status infer_dims(InferContext& c, DType dtype) {
  HG_TRY_ASSIGN(std::vector<int> axes, c.axes("dim", c.in(0).rank()));
  if (axes.empty()) axes = all_axes(c.in(0).rank());
  c.out(0) = {dtype, reduced_shape(c.in(0).shape, axes, c.attrs().flag("keepdim"))};
  return {};
}
Status infer_total(InferContext& c) {
  return infer_dims(c, is_float(c.in(0).dtype) ? c.in(0).dtype : i64);
}
Status infer_floats(InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("x must be floats, but is ", c.in(0).dtype);
  return infer_dims(c, c.in(0).dtype);
}
Status infer_extreme(InferContext& c) {
  HG_TRY_ASSIGN(std::vector<int> axes, c.axes("dim", c.in(0).rank()));
  if (axes.empty()) axes = all_axes(c.in(0).rank());
  for (int axis : axes)
    if (c.in(0).rank() > 0 && c.in(0).shape[axis] == Dim(0))
      return c.fail("dim ", axis, " of ", c.in(0).shape, " is empty, there is no extreme value");
  return infer_dims(c, c.in(0).dtype);
}
Status infer_test(InferContext& c) { return infer_dims(c, boolean); }

// dim: one dim, or none for the flattened tensor
Status infer_index(InferContext& c) {
  const TensorType& x = c.in(0);
  const bool keepdim = c.attrs().flag("keepdim");
  std::vector<int> axes = all_axes(x.rank());
  if (c.attrs().has("dim")) {
    HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
    axes = {axis};
  }
  for (int axis : axes)
    if (x.rank() > 0 && x.shape[axis] == Dim(0))
      return c.fail("dim ", axis, " of ", x.shape, " is empty, there is no extreme value");
  c.out(0) = {i64, reduced_shape(x.shape, axes, keepdim)};
  return {};
}
Status infer_value_and_index(InferContext& c) {
  HG_TRY(infer_index(c));
  c.out(1) = c.out(0);
  c.out(0).dtype = c.in(0).dtype;
  return {};
}

// dx = dy, repeated
Status sum_grad(GradContext& c) {
  c.set_grad(0, expanded(kept(c, c.dout(0)), c.in(0)));
  return {};
}
// dx = dy / count
Status mean_grad(GradContext& c) {
  c.set_grad(0, expanded(kept(c, c.dout(0)) / element_count(c), c.in(0)));
  return {};
}
// The product of all elements before each along the last dim.
Value product_before(const Value& x) {
  const int dim = x.rank() - 1;
  std::vector<Dim> pads(2 * static_cast<size_t>(x.rank()), Dim(0));
  pads[static_cast<size_t>(2 * dim)] = 1;
  Graph& g = *x.graph();
  const Value wide = g.call("pad", {cumprod(x, dim)}, {{"pads", pads}, {"value", 1.0}});
  return g.call("slice", {wide}, {{"dim", dim}, {"start", 0}, {"end", x.dim(dim)}});
}
// dx = dy times the product of the other elements, which is right at zeros, also in derivatives of
// it. f16 and bf16 are multiplied in f32.
Status prod_grad(GradContext& c) {
  const Value x = c.in(0);
  const std::vector<int> axes = axes_of(c);
  std::vector<Dim> order;
  Shape shape, rest = reduced_shape(x.shape(), axes, false);
  const auto is_reduced = [&](int d) {
    return std::find(axes.begin(), axes.end(), d) != axes.end();
  };
  for (const bool reduced : {false, true})
    for (int d = 0; d < x.rank(); ++d)
      if (is_reduced(d) == reduced) order.emplace_back(d);
  Dim size = 1;
  for (const Dim& d : order) {
    shape.push_back(x.dim(static_cast<int>(d.constant())));
    if (is_reduced(static_cast<int>(d.constant()))) size = size * shape.back();
  }
  rest.push_back(size);
  std::vector<Dim> back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i].constant())] = static_cast<int64_t>(i);
  Graph& g = c.graph();
  const auto reshaped = [&](const Value& v, const Shape& to) {
    return g.call("reshape", {v}, {{"shape", to}});
  };
  const auto permuted = [&](const Value& v, const std::vector<Dim>& dims) {
    return g.call("permute", {v}, {{"dims", dims}});
  };
  const Value wide = cast(x, x.dtype() == f64 ? f64 : f32);
  const Value lines = reshaped(permuted(wide, order), rest);
  const auto turned = [&](const Value& v) {
    return g.call("flip", {v}, {{"dims", std::vector<Dim>{Dim(v.rank() - 1)}}});
  };
  const Value others = product_before(lines) * turned(product_before(turned(lines)));
  const Value placed = permuted(reshaped(others, shape), back);
  c.set_grad(0, cast(kept(c, c.dout(0)) * cast(placed, x.dtype()), x.dtype()));
  return {};
}
// Equal elements with the extreme value share dy.
Status extreme_grad(GradContext& c) {
  const Value x = c.in(0);
  const std::vector<int> axes = axes_of(c);
  std::vector<Dim> dims(axes.begin(), axes.end());
  const Value chosen = cast(eq(x, kept(c, c.out(0))), x.dtype());
  c.set_grad(0, kept(c, c.dout(0)) * (chosen / sum(chosen, dims, true)));
  return {};
}
// Only the element at the index receives dy.
Status value_and_index_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value x = c.in(0), dy = c.dout(0);
  const Value zeros = expanded(number_like(x, 0), x);
  if (!c.attrs().has("dim")) {
    const Shape flat = {count(x.shape())};
    const Value spread = g.call("scatter",
                                {g.call("reshape", {zeros}, {{"shape", flat}}),
                                 g.call("reshape", {c.out(1)}, {{"shape", Shape{1}}}),
                                 g.call("reshape", {dy}, {{"shape", Shape{1}}})},
                                {{"dim", 0}, {"reduce", "none"}});
    c.set_grad(0, g.call("reshape", {spread}, {{"shape", x.shape()}}));
    return {};
  }
  if (x.rank() == 0) {
    c.set_grad(0, dy);
    return {};
  }
  HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
  c.set_grad(0, g.call("scatter",
                       {zeros, with_kept_dims(c.out(1), x.shape(), {axis}),
                        with_kept_dims(dy, x.shape(), {axis})},
                       {{"dim", axis}, {"reduce", "none"}}));
  return {};
}
// dx = 2 dy (x - mean) / (count - correction)
Status var_grad(GradContext& c) {
  const Value x = c.in(0);
  const std::vector<int> axes = axes_of(c);
  std::vector<Dim> dims(axes.begin(), axes.end());
  const Value scale = kept(c, c.dout(0)) * 2.0 / element_count(c, c.attrs().real("correction"));
  c.set_grad(0, scale * (x - mean(x, dims, true)));
  return {};
}
// y = sqrt(var): dx = dy (x - mean) / (y (count - correction)), 0 where y is 0
Status std_grad(GradContext& c) {
  const Value x = c.in(0), y = kept(c, c.out(0));
  const std::vector<int> axes = axes_of(c);
  std::vector<Dim> dims(axes.begin(), axes.end());
  const Value flat = eq(y, number_like(x, 0));
  const Value scale = where(flat, number_like(x, 0), kept(c, c.dout(0)) / y);
  c.set_grad(0, scale / element_count(c, c.attrs().real("correction")) * (x - mean(x, dims, true)));
  return {};
}
// The variance may exceed the range of 16-bit floats.
Status std_expand(ExpandContext& c) {
  const std::span<const Dim> dims = c.attrs().integers("dim");
  const DType dtype = c.in(0).dtype();
  const Value y =
      var(cast(c.in(0), dtype == f64 ? f64 : f32), std::vector<Dim>(dims.begin(), dims.end()),
          c.attrs().real("correction"), c.attrs().flag("keepdim"));
  c.set_out(0, cast(sqrt(y), dtype));
  return {};
}
// (sum |x|^p)^(1 / p); p = 0: the number of nonzero elements; infinite p: amax or amin of |x|
Status norm_expand(ExpandContext& c) {
  const DType dtype = c.in(0).dtype();
  const Value x = cast(c.in(0), dtype == f64 ? f64 : f32), size = abs(x);
  const std::span<const Dim> given = c.attrs().integers("dim");
  const std::vector<Dim> dims(given.begin(), given.end());
  const bool keepdim = c.attrs().flag("keepdim");
  const Real ord = real(c, "ord");
  const Value p = ord.like(x);
  const auto some = [&] { return sum(cast(ne(x, number_like(x, 0)), x.dtype()), dims, keepdim); };
  const auto most = [&] { return amax(size, dims, keepdim); };
  const auto least = [&] { return amin(size, dims, keepdim); };
  const auto usual = [&] { return pow(sum(pow(size, p), dims, keepdim), reciprocal(p)); };
  const auto if_order = [&](double order, const Value& yes, const Value& no) {
    return where(eq(p, number_like(p, order)), yes, no);
  };
  const Value y =
      ord.is(0)           ? some()
      : ord.is(HUGE_VAL)  ? most()
      : ord.is(-HUGE_VAL) ? least()
      : ord.is_known()
          ? usual()
          : if_order(0, some(), if_order(HUGE_VAL, most(), if_order(-HUGE_VAL, least(), usual())));
  c.set_out(0, cast(y, dtype));
  return {};
}
// p = 2: dx = dy x / y; p = 1: dy sign x; p = 0: 0; infinite p: as amax of |x|;
// else dy x |x|^(p - 2) / y^(p - 1); 0 where y is 0, and where x is 0 if p < 1
Status norm_grad(GradContext& c) {
  const Value x = c.in(0), y = kept(c, c.out(0)), dy = kept(c, c.dout(0));
  const double p = c.attrs().real("ord");
  const Value zero = number_like(x, 0);
  if (p == 0) {
    c.set_grad(0, expanded(zero, x));
  } else if (p == 1) {
    c.set_grad(0, dy * sign(x));
  } else if (std::isinf(p)) {
    const std::vector<int> axes = axes_of(c);
    std::vector<Dim> dims(axes.begin(), axes.end());
    const Value chosen = cast(eq(abs(x), y), x.dtype());
    c.set_grad(0, dy / sum(chosen, dims, true) * (sign(x) * chosen));
  } else if (p < 1) {  // an infinite slope in sums would make the derivatives of all elements NaN
    const Value direction = sign(x) * pow(abs(x), number_like(x, p - 1));
    c.set_grad(0, where(eq(x, zero), zero, direction) * (dy * pow(y, number_like(x, 1 - p))));
  } else {
    const Value direction = p == 2 ? x : sign(x) * pow(abs(x), number_like(x, p - 1));
    const Value safe = p > 2 ? where(eq(y, zero), number_like(x, 1), y) : y;
    const Value length = p == 2 ? y : pow(safe, number_like(x, p - 1));
    const Value whole = direction * (dy / length);
    c.set_grad(0, where(eq(y, zero), zero, whole));
  }
  return {};
}
// dx = dy e^(x - y)
Status logsumexp_grad(GradContext& c) {
  const Value y = kept(c, c.out(0));
  const Value safe = where(eq(y, number_like(y, -HUGE_VAL)), number_like(y, 0), y);
  c.set_grad(0, kept(c, c.dout(0)) * exp(c.in(0) - safe));
  return {};
}
// y = m + log sum e^(x - m), where m is the largest x if that is finite, else 0
Status logsumexp_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const std::span<const Dim> given = c.attrs().integers("dim");
  const std::vector<Dim> dims(given.begin(), given.end());
  const bool keepdim = c.attrs().flag("keepdim");
  bool empty = false;
  for (int d = 0; d < x.rank(); ++d) empty = empty || x.dim(d) == Dim(0);
  if (empty) {
    c.set_out(0, log(sum(exp(x), dims, keepdim)));
    return {};
  }
  const Value top = amax(x, dims, true);
  const Value zero = number_like(x, 0);
  const Value shift = where(eq(abs(top), number_like(x, HUGE_VAL)), zero, top);
  const Value total = log(sum(exp(x - shift), dims, keepdim));
  const Value back = total.shape() == shift.shape()
                         ? shift
                         : c.graph().call("reshape", {shift}, {{"shape", total.shape()}});
  c.set_out(0, total + back);
  return {};
}

// `dim` lists the dims to reduce; empty: all. Reduced dims are removed, or become 1 if keepdim.
constexpr OpDef kOps[] = {
    // Sum. Integers and bool return i64.
    row<kReduction>("sum(x, dim: int[] = [], keepdim: bool = false) -> y", infer_total, sum_grad),
    // Product. Integers and bool return i64.
    row<kReduction>("prod(x, dim: int[] = [], keepdim: bool = false) -> y", infer_total, prod_grad),
    // Mean. Floats only.
    row<kReduction>("mean(x, dim: int[] = [], keepdim: bool = false) -> y", infer_floats,
                    mean_grad),
    // Largest element; NaN if any element is NaN. Equal elements share the gradient.
    row<kReduction>("amax(x, dim: int[] = [], keepdim: bool = false) -> y", infer_extreme,
                    extreme_grad),
    // Smallest element; NaN if any element is NaN. Equal elements share the gradient.
    row<kReduction>("amin(x, dim: int[] = [], keepdim: bool = false) -> y", infer_extreme,
                    extreme_grad),
    // True if all elements are nonzero: bool.
    row<kReduction>("all(x, dim: int[] = [], keepdim: bool = false) -> y", infer_test, nullptr),
    // True if any element is nonzero: bool.
    row<kReduction>("any(x, dim: int[] = [], keepdim: bool = false) -> y", infer_test, nullptr),
    // Index (i64) of the first largest element along dim; without dim, in the flattened tensor.
    row<kReduction>("argmax(x, dim: int?, keepdim: bool = false) -> y", infer_index, nullptr),
    // Index (i64) of the first smallest element along dim; without dim, in the flattened tensor.
    row<kReduction>("argmin(x, dim: int?, keepdim: bool = false) -> y", infer_index, nullptr),
    // Largest element along dim, or of all elements, and its index (i64; the first of equal ones).
    // NaN if any is NaN.
    row<kReduction>("max(x, dim: int?, keepdim: bool = false) -> values, indices",
                    infer_value_and_index, value_and_index_grad),
    // Smallest element along dim, or of all elements, and its index (i64; the first of equal ones).
    // NaN if any is NaN.
    row<kReduction>("min(x, dim: int?, keepdim: bool = false) -> values, indices",
                    infer_value_and_index, value_and_index_grad),
    // sum((x - mean)^2) / max(0, count - correction)
    row<kReduction>("var(x, dim: int[] = [], correction: float = 1.0, keepdim: bool = false) -> y",
                    infer_floats, var_grad),
    // (sum |x|^ord)^(1 / ord). ord 0: number of nonzero elements; infinity: largest |x|.
    {.signature = "norm(x, ord: float = 2.0, dim: int[] = [], keepdim: bool = false) -> y",
     .infer = infer_floats,
     .grad = norm_grad,
     .expand = norm_expand,
     .traits = kReduction},
    // Square root of var.
    // C++: stddev
    {.signature = "std(x, dim: int[] = [], correction: float = 1.0, keepdim: bool = false) -> y",
     .infer = infer_floats,
     .grad = std_grad,
     .expand = std_expand,
     .traits = kReduction},
    // log(sum(e^x))
    {.signature = "logsumexp(x, dim: int[] = [], keepdim: bool = false) -> y",
     .infer = infer_floats,
     .grad = logsumexp_grad,
     .expand = logsumexp_expand,
     .traits = kReduction},
};

}  // namespace

std::span<const OpDef> reduce() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
