// SPDX-License-Identifier: Apache-2.0
// Short spellings for formulas on matrices in the last two dims.
#pragma once

#include <initializer_list>
#include <utility>

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
