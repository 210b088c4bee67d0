// SPDX-License-Identifier: Apache-2.0
// The value of an expression during lowering: a graph value, or one per component of a small
// vector. Also torch's rule for the common dtype of several items.
#pragma once

#include <span>
#include <vector>

#include "hg/graph.h"

namespace hg {

struct Item {
  std::vector<Value> parts;  // one value, or one per component
  bool is_number = false;    // in the text or an argument: adapts to the dtype of tensors
  bool is_vector = false;

  DType dtype() const { return parts[0].dtype(); }
  const Value& part(size_t i) const { return parts[is_vector ? i : 0]; }
};

// torch.result_type: tensors with dims take precedence over tensors of rank 0, which take
// precedence over numbers. A later kind counts only if it is of a higher category (bool, integer,
// float). Numbers alone stay f64 or i64.
DType result_dtype(std::span<const Item* const> items);

// Converts to another dtype. Fails if a number of the text does not fit it.
Result<Value> convert(const Value& value, bool is_number, DType dtype);

}  // namespace hg
