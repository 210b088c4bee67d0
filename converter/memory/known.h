// SPDX-License-Identifier: Apache-2.0
// What the import knows about a tensor in addition to its graph value: its numbers, how a view
// follows from its base, and its padded or packed form.
#pragma once

#include <functional>
#include <vector>

#include "converter/core/scalar.h"
#include "hg/graph.h"

namespace hg::convert {

// Forward computes a view from its base. Inverse computes the new base after the view was set to
// `value`.
using Forward = std::function<Value(Value base)>;
using Inverse = std::function<Value(Value base, Value value)>;

// Known numbers of a tensor of rank 0 or 1, such as a tensor of sizes.
struct Known {
  DType dtype = i64;
  int rank = 0;
  std::vector<Scalar> elements;
};

// Sequences of several lengths, packed without the padding after their ends.
struct Packed {
  std::function<Value()> lengths;  // i64[batch]
  Dim time, batch;                 // of the padded sequences
  std::function<Value()> padded;   // [time, batch, ...]; none for the batch sizes
};

// Data of a nested tensor [batch, time, ...], which stays padded: see script/nested.cpp.
struct Nested {
  std::function<Value()> counts;  // bool[batch, time]: not padding
  std::function<Value()> keeps;   // bool[batch, time]: not overwritten by the final padding
};

}  // namespace hg::convert
