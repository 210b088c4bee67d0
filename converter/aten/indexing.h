// SPDX-License-Identifier: Apache-2.0
// torch's advanced indexing, x[:, i, mask, ...]: which dims the indices apply to, and where the
// dims of the indices go in the result.
#pragma once

#include <vector>

#include "converter/rows/rows.h"

namespace hg::convert::rows {

// What x[indices] means: the ops index and index_put want the indexed dims first.
struct Indexing {
  std::vector<Value> indices;  // i64, all of one shape; empty when nothing is indexed
  std::vector<Dim> order;      // of the dims of x: the indexed ones first
  int at = 0;                  // where the dims of the indices are in the result
  Shape placed_shape;          // of the result

  Value front(const Value& x) const;     // x with the indexed dims first
  Value back(const Value& y) const;      // the reverse
  Value placed(const Value& y) const;    // [indices..., rest...] as torch returns it
  Value unplaced(const Value& y) const;  // the reverse
};

// Of the arguments `indices`, tensors or None; masks become the positions of what is true.
Indexing indexing_of(Call& call, const Value& x);
// An argument of integers, as i64.
Value wide_index(Call& call, std::string_view argument);
// x, or its only element with a dim of its own.
Value at_least_1d(const Value& x);
// The mask, in a shape that broadcasts to x's, when it is the only index; else no value.
Value only_mask(Call& call, const Value& x);
// The positions i64[n, rank] of what is not zero: one node for all that ask it of the same x.
Value nonzero_of(const Value& x);
// The columns [n] of the positions [n, rank] that nonzero gives.
std::vector<Value> columns(const Value& positions);
// values broadcast to a shape; leading dims of one element may be too many.
Value fitted(const Value& values, const Shape& shape);

}  // namespace hg::convert::rows
