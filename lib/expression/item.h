// SPDX-License-Identifier: Apache-2.0
// What an expression is while it becomes nodes: a value, or the values of a small vector's
// components; and torch's rule for the dtype that several of them meet in.
#pragma once

#include <span>
#include <vector>

#include "hg/graph.h"

namespace hg {

struct Item {
  std::vector<Value> parts;  // one, or the components
  bool is_number = false;    // of the text or of a call: adapts to the dtype of tensors
  bool is_vector = false;

  DType dtype() const { return parts[0].dtype(); }
  const Value& part(size_t i) const { return parts[is_vector ? i : 0]; }
};

// torch.result_type: tensors with dims decide, then those of rank 0, then numbers, where a later
// kind counts only if it is of a higher category (bool, integer, float). Numbers alone stay f64 or
// i64.
DType result_dtype(std::span<const Item* const> items);

// As another dtype. A number of the text must fit it.
Result<Value> convert(const Value& value, bool is_number, DType dtype);

}  // namespace hg
