// SPDX-License-Identifier: Apache-2.0
// Code shared by rows for matrices [..., m, n].
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "converter/rows/rows.h"
#include "hg/op.h"
#include "hg/ops/movement.h"

namespace hg::convert::rows {

using Values = std::vector<Value>;

inline Value matrices(Call& call, std::string_view argument) {
  const Value x = call.tensor(argument);
  if (x.dtype() != f32 && x.dtype() != f64)
    call.refuse(argument, str_cat("is ", x.dtype(), "; matrices must be f32 or f64"));
  if (x.rank() < 2)
    call.refuse(argument, str_cat("has the shape ", x.shape(), ", not of a matrix"));
  return x;
}
// Older schemas name the argument `self`.
inline Value self_or_a(Call& call) { return matrices(call, call.has("A") ? "A" : "self"); }

inline Shape batch_of(const Value& x) { return Shape(x.shape().begin(), x.shape().end() - 2); }
inline Shape with(Shape batch, std::initializer_list<Dim> dims) {
  batch.insert(batch.end(), dims);
  return batch;
}
inline Value transposed(const Value& x) {
  std::vector<Dim> dims;
  for (int i = 0; i < x.rank(); ++i) dims.emplace_back(i);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return permute(x, std::move(dims));
}
inline Value widened(const Value& x, int from_end) {  // adds a dim of size 1
  Shape shape = x.shape();
  shape.insert(shape.end() - from_end, Dim(1));
  return reshape(x, std::move(shape));
}
// Broadcasts the batch dims of both.
inline void share_batch(Call& call, std::string_view argument, Value& a, Value& b) {
  const Result<Shape> batch = broadcast(batch_of(a), batch_of(b));
  if (!batch.ok()) call.refuse(argument, std::string(batch.status().message()));
  a = expand(a, with(*batch, {a.dim(-2), a.dim(-1)}));
  b = expand(b, with(*batch, {b.dim(-2), b.dim(-1)}));
}

}  // namespace hg::convert::rows
