// SPDX-License-Identifier: Apache-2.0
// torch's shape functions, built from existing ops.
#include <algorithm>
#include <numeric>
#include <utility>

#include "hg/op.h"
#include "hg/ops/copy.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/shape.h"

namespace hg {
namespace {

// Returns `dim` of a tensor of `rank` dims. Returns -1 if it is invalid, after failing the graph of
// x.
int axis_of(const Value& x, std::string_view builder, int dim, int rank) {
  const Result<int> axis = normalize_axis(dim, rank);
  if (axis.ok()) return *axis;
  if (x) x.graph()->fail(invalid_argument(builder, ": ", axis.status().message()));
  return -1;
}

}  // namespace

Value transpose(const Value& x, int dim0, int dim1) {
  const int a = axis_of(x, "transpose", dim0, x.rank()),
            b = axis_of(x, "transpose", dim1, x.rank());
  if (a < 0 || b < 0) return {};
  if (x.rank() == 0) return x;
  std::vector<int> order(x.shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[a], order[b]);
  return permute(x, {order.begin(), order.end()});
}

Value unsqueeze(const Value& x, int dim) {
  const int axis = axis_of(x, "unsqueeze", dim, x.rank() + 1);
  if (axis < 0) return {};
  Shape shape = x.shape();
  shape.insert(shape.begin() + axis, Dim(1));
  return reshape(x, std::move(shape));
}

Value squeeze(const Value& x, int dim) {
  const int axis = axis_of(x, "squeeze", dim, x.rank());
  if (axis < 0) return {};
  if (x.rank() == 0) return x;
  Shape shape = x.shape();
  if (!(x.dim(axis) == Dim(1)))
    return x.graph()->fail(
        invalid_argument("squeeze: dim ", axis, " of ", shape, " is ", x.dim(axis), ", not 1"));
  shape.erase(shape.begin() + axis);
  return reshape(x, std::move(shape));
}

Value flatten(const Value& x, int start_dim, int end_dim) {
  const int first = axis_of(x, "flatten", start_dim, x.rank());
  const int last = axis_of(x, "flatten", end_dim, x.rank());
  if (first < 0 || last < 0) return {};
  if (last < first)
    return x.graph()->fail(
        invalid_argument("flatten: start_dim ", first, " comes after end_dim ", last));
  const Shape& from = x.shape();
  Shape shape(from.begin(), from.begin() + first);
  Dim size = 1;
  for (int i = first; i <= last && i < x.rank(); ++i) size = size * x.dim(i);
  shape.push_back(size);
  if (last + 1 < x.rank()) shape.insert(shape.end(), from.begin() + last + 1, from.end());
  return reshape(x, std::move(shape));
}

Value select(const Value& x, int dim, const Dim& index) {
  const int axis = axis_of(x, "select", dim, x.rank());
  if (axis < 0) return {};
  if (x.rank() == 0) return x.graph()->fail(invalid_argument("select: x has no dim to select of"));
  const bool from_end = index.is_constant() && index.constant() < 0;
  const Dim at = from_end ? index + x.dim(axis) : index;
  const Value one = slice(x, axis, at, at + 1);
  return one ? squeeze(one, axis) : one;
}

Value narrow(const Value& x, int dim, const Dim& start, const Dim& length) {
  return slice(x, dim, start, start + length);
}

Value stack(const std::vector<Value>& xs, int dim) {
  if (xs.empty()) return {};
  const int axis = axis_of(xs.front(), "stack", dim, xs.front().rank() + 1);
  if (axis < 0) return {};
  std::vector<Value> wide;
  for (const Value& x : xs) {
    if (x && x.rank() != xs.front().rank())
      return x.graph()->fail(invalid_argument("stack: the tensors have shapes ", xs.front().shape(),
                                              " and ", x.shape()));
    wide.push_back(unsqueeze(x, axis));
  }
  return concat(wide, axis);
}

std::vector<Value> split(const Value& x, const std::vector<Dim>& sizes, int dim) {
  const int axis = axis_of(x, "split", dim, x.rank());
  if (axis < 0) return {};
  Dim sum = 0;
  for (const Dim& size : sizes) sum = sum + size;
  if (x.rank() == 0 || (!(sum == x.dim(axis)) && (sum - x.dim(axis)).is_constant())) {
    x.graph()->fail(invalid_argument("split: the sizes have the sum ", sum, ", x is ", x.shape(),
                                     ", dim is ", dim));
    return {};
  }
  x.graph()->guard(sum, Relation::eq, x.dim(axis), "split");
  std::vector<Value> pieces;
  Dim start = 0;
  for (const Dim& size : sizes) {
    pieces.push_back(slice(x, axis, start, start + size));
    start = start + size;
  }
  return pieces;
}

std::vector<Value> chunk(const Value& x, int64_t chunks, int dim) {
  const int axis = axis_of(x, "chunk", dim, x.rank());
  if (axis < 0) return {};
  if (x.rank() == 0 || !x.dim(axis).is_constant() || chunks < 1) {
    x.graph()->fail(invalid_argument("chunk: cannot make ", chunks, " chunks of dim ", dim, " of ",
                                     x.shape(),
                                     "; its size must be a number, and chunks positive"));
    return {};
  }
  const int64_t size = x.dim(axis).constant();
  const int64_t each = (size + chunks - 1) / chunks;
  if (each == 0) return split(x, std::vector<Dim>(chunks, Dim(0)), dim);
  std::vector<Dim> sizes;
  for (int64_t at = 0; at < size; at += each) sizes.push_back(std::min(each, size - at));
  return split(x, sizes, dim);
}

Value masked_fill(const Value& x, const Value& mask, double value) {
  return where(mask, number_like(x, value), x);
}

}  // namespace hg
