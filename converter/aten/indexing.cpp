// SPDX-License-Identifier: Apache-2.0
#include "converter/aten/indexing.h"

#include <algorithm>

#include "converter/core/value_numbering.h"
#include "converter/rows/view.h"

namespace hg::convert::rows {
namespace {

bool is_mask(const Value& index) { return index.dtype() == boolean || index.dtype() == u8; }

// Returns the permutation that moves dims [from, from + n) to `to`.
Dims moved(int rank, int from, int n, int to) {
  Dims rest, order;
  for (int d = 0; d < rank; ++d)
    if (d < from || d >= from + n) rest.emplace_back(d);
  for (int i = 0; i < to; ++i) order.push_back(rest[i]);
  for (int d = from; d < from + n; ++d) order.emplace_back(d);
  order.insert(order.end(), rest.begin() + to, rest.end());
  return order;
}

bool is_in_order(const Dims& order) {
  for (size_t i = 0; i < order.size(); ++i)
    if (!(order[i] == Dim(static_cast<int64_t>(i)))) return false;
  return true;
}

Value permuted(const Value& x, const Dims& order) {
  return is_in_order(order) ? x : permute(x, order);
}

}  // namespace

Value Indexing::front(const Value& x) const { return permuted(x, order); }

Value Indexing::back(const Value& y) const {
  Dims inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i].constant()] = static_cast<int64_t>(i);
  return permuted(y, inverse);
}

Value Indexing::placed(const Value& y) const {
  return permuted(y, moved(y.rank(), 0, indices[0].rank(), at));
}

Value Indexing::unplaced(const Value& y) const {
  return permuted(y, moved(y.rank(), at, indices[0].rank(), 0));
}

Value nonzero_of(const Value& x) {
  const Value before = computed_before("nonzero", x);
  return before ? before : x.graph()->call("nonzero", {x});
}

std::vector<Value> columns(const Value& positions) {
  std::vector<Value> result;
  const int64_t rank = positions.dim(1).constant();
  for (int64_t i = 0; i < rank; ++i)
    result.push_back(reshaped(slice(positions, 1, i, i + 1), {positions.dim(0)}));
  return result;
}

Value wide_index(Call& call, std::string_view argument) {
  const Value index = call.tensor(argument);
  if (!is_integer(index.dtype())) call.refuse(argument, str_cat("is ", index.dtype()));
  return convert::cast(index, i64);
}

Value at_least_1d(const Value& x) { return x.rank() == 0 ? reshaped(x, {1}) : x; }

Value fitted(const Value& values, const Shape& shape) {
  Shape own = values.shape();
  while (own.size() > shape.size() && own[0] == Dim(1)) own.erase(own.begin());
  return expanded(reshaped(values, own), shape);
}

Value only_mask(Call& call, const Value& x) {
  Value mask;
  int at = 0, first = 0;
  for (const Value& index : call.tensors_or_none("indices")) {
    if (!index) {
      ++at;
      continue;
    }
    if (mask || !is_mask(index) || index.rank() == 0) return Value();
    mask = index;
    first = at;
    at += index.rank();
  }
  if (!mask || at > x.rank()) return Value();
  Shape shape(x.rank() - first, Dim(1));
  for (int d = 0; d < mask.rank(); ++d) shape[d] = mask.dim(d);
  return reshaped(convert::cast(mask, boolean), shape);
}

Indexing indexing_of(Call& call, const Value& x) {
  Indexing result;
  std::vector<int> dims;  // the indexed dims
  int at = 0;
  for (const Value& index : call.tensors_or_none("indices")) {
    if (!index) {
      ++at;
    } else if (is_mask(index)) {
      if (index.rank() == 0) call.refuse("indices", "holds a mask without dims");
      for (int d = 0; d < index.rank() && at + d < x.rank(); ++d) {
        const Dim& size = x.dim(at + d);
        if (size.is_constant() && index.dim(d).is_constant() && !(size == index.dim(d)))
          call.refuse("indices", str_cat("holds a mask of shape ", index.shape(),
                                         " for a tensor of shape ", x.shape()));
      }
      for (const Value& column : columns(nonzero_of(index))) {
        result.indices.push_back(column);
        dims.push_back(at++);
      }
    } else {
      if (!is_integer(index.dtype()))
        call.refuse("indices", str_cat("holds a tensor of ", index.dtype()));
      result.indices.push_back(convert::cast(index, i64));
      dims.push_back(at++);
    }
  }
  if (at > x.rank())
    call.refuse("indices", str_cat("are too many for a tensor of rank ", x.rank()));
  if (dims.empty()) return result;
  Shape shape;
  for (const Value& index : result.indices)
    shape = broadcast_shape(call, "indices", shape, index.shape());
  for (Value& index : result.indices) index = expanded(index, shape);
  // If the indexed dims are adjacent, the new dims take their place; otherwise they come first.
  const bool adjacent = dims.back() - dims.front() + 1 == static_cast<int>(dims.size());
  result.at = adjacent ? dims.front() : 0;
  for (int d : dims) result.order.emplace_back(d);
  Shape rest;
  for (int d = 0; d < x.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    result.order.emplace_back(d);
    rest.push_back(x.dim(d));
  }
  result.placed_shape = rest;
  result.placed_shape.insert(result.placed_shape.begin() + result.at, shape.begin(), shape.end());
  return result;
}

}  // namespace hg::convert::rows
