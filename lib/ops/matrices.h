// SPDX-License-Identifier: Apache-2.0
// Short spellings for formulas on matrices in the last two dims, and what their ops check.
#pragma once

#include <initializer_list>
#include <utility>

#include "hg/op.h"
#include "lib/ops/terms.h"

namespace hg::ops::term {

inline Value product(const Value& a, const Value& b) { return op("matmul", a, b); }
inline Value solved(const Value& a, const Value& b) { return op("solve", a, b); }
// Adds a dim of size 1 before `dim`, counted from the end.
inline Value widen(const Value& x, int dim) {
  Shape shape = x.shape();
  if (x.rank() < dim) return x;  // the graph has failed
  shape.insert(shape.end() - dim, Dim(1));
  return reshape(x, std::move(shape));
}
inline Value identity(const Value& like, const Dim& n) {
  return like.graph()->call("eye", {}, {{"n", n}, {"m", n}, {"dtype", like.dtype()}});
}
// e[i, j] = v[j] - v[i]
inline Value differences(const Value& v) { return widen(v, 1) - widen(v, 0); }

inline Shape with(Shape batch, std::initializer_list<Dim> dims) {
  batch.insert(batch.end(), dims);
  return batch;
}

}  // namespace hg::ops::term

namespace hg::ops {

inline Status check_matrix_shape(InferContext& c, int input, bool square) {
  const TensorType& x = c.in(input);
  if (x.rank() < 2) return c.fail("a matrix has at least two dims, this has the shape ", x.shape);
  const Dim &rows = x.shape[x.shape.size() - 2], &columns = x.shape.back();
  if (square && !c.require_equal(rows, columns))
    return c.fail("the matrices must be square, but their shape is ", x.shape);
  return {};
}
inline Status check_matrix(InferContext& c, int input, bool square) {
  const DType dtype = c.in(input).dtype;
  if (dtype != f32 && dtype != f64) return c.fail("matrices must be f32 or f64, but are ", dtype);
  return check_matrix_shape(c, input, square);
}

}  // namespace hg::ops
