// SPDX-License-Identifier: Apache-2.0
// Lists whose length depends on data or on symbolic sizes, represented as tensors. All elements
// have the same containers, and each tensor or number in them becomes one tensor for all elements:
// a column.
#pragma once

#include <vector>

#include "converter/core/item.h"

namespace hg::convert {

// The containers of an item and the types of its leaves.
struct Pattern {
  enum class Kind : uint8_t { leaf, list, grown, tuple, dict, other };
  Kind kind = Kind::other;
  TensorType type;  // of a leaf
  bool is_number = false, is_column = false, is_complex = false;
  std::vector<int> open;       // of a leaf in list elements: the dims that differ
  std::vector<Pattern> parts;  // of a grown list: the structure that all elements share
  Item item;                   // names and keys of a tuple or dict, or another value
};

// The values of one leaf in all elements, as a tensor that belongs to the list alone.
struct Column {
  // [length, ...]. If the elements differ in size: [total, ...]. The first dim concatenates their
  // open dims; the others are the shared dims.
  Item all;
  Item sizes;             // if the elements differ: i64[length, open dims]
  std::vector<int> open;  // the dims of an element that differ
};

struct Grown {
  Pattern pattern;              // of an element
  Item element;                 // the containers of an element; its leaves have no values
  std::vector<Column> columns;  // by leaf
  bool views = false;  // the elements are views of the column, as from unbind(), not copies
};

}  // namespace hg::convert
