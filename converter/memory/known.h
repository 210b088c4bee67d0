// SPDX-License-Identifier: Apache-2.0
// What the import knows of a tensor beside its value in the graph: its numbers, how a view follows
// from its base, and what padding and packing have made of it.
#pragma once

#include <functional>
#include <vector>

#include "converter/core/scalar.h"
#include "hg/graph.h"

namespace hg::convert {

// A view computes its value from its base's, and the base's new value when the view has become
// `value`.
using Forward = std::function<Value(Value base)>;
using Inverse = std::function<Value(Value base, Value value)>;

// Numbers that the import knows of a tensor of rank 0 or 1, such as sizes put into tensors.
struct Known {
  DType dtype = i64;
  int rank = 0;
  std::vector<Scalar> elements;
};

// Sequences of several lengths, packed without what follows their ends.
struct Packed {
  std::function<Value()> lengths;  // i64[batch]
  Dim time, batch;                 // of the padded sequences
  std::function<Value()> padded;   // [time, batch, ...]; none for the batch sizes
};

// What belongs to a nested tensor [batch, time, ...], which stays padded: see script/nested.cpp.
struct Nested {
  std::function<Value()> counts;  // bool[batch, time]: what is no padding
  std::function<Value()> keeps;   // bool[batch, time]: what padding at the end leaves as it is
};

}  // namespace hg::convert
