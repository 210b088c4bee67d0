// SPDX-License-Identifier: Apache-2.0
// torch's advanced indexing, x[:, i, mask, ...]: which dims are indexed, and where the dims of the
// indices are in the result.
#pragma once

#include <vector>

#include "converter/rows/rows.h"

namespace hg::convert::rows {

// The meaning of x[indices]. The ops index and index_put need the indexed dims first.
struct Indexing {
  std::vector<Value> indices;  // i64, all of one shape; empty if no dim is indexed
  std::vector<Dim> order;      // of x's dims: the indexed ones first
  int at = 0;                  // position of the index dims in the result
  Shape placed_shape;          // of the result

  Value front(const Value& x) const;     // x with the indexed dims first
  Value back(const Value& y) const;      // inverse of front()
  Value placed(const Value& y) const;    // [indices..., rest...] as torch returns it
  Value unplaced(const Value& y) const;  // inverse of placed()
};

// Interprets the argument `indices`, tensors or None. Masks become the positions of their true
// elements.
Indexing indexing_of(Call& call, const Value& x);
// Returns an integer argument as i64.
Value wide_index(Call& call, std::string_view argument);
// Returns x; adds a dim if it has none.
Value at_least_1d(const Value& x);
// Returns the mask, in a shape that broadcasts to x's, if it is the only index; otherwise an
// invalid Value.
Value only_mask(Call& call, const Value& x);
// Returns the positions of nonzero elements, i64[n, rank]; all calls with the same x share one
// node.
Value nonzero_of(const Value& x);
// Splits the positions [n, rank] from nonzero into columns [n].
std::vector<Value> columns(const Value& positions);
// Broadcasts values to a shape. values may have extra leading dims of size 1.
Value fitted(const Value& values, const Shape& shape);

}  // namespace hg::convert::rows
