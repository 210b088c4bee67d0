// SPDX-License-Identifier: Apache-2.0
// Lists whose length data or sizes decide, as data: their elements have the same containers, and
// each tensor or number in them is one tensor for all elements, a column.
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
  std::vector<int> open;       // of a leaf of a list's elements: the dims that differ
  std::vector<Pattern> parts;  // of a grown list: what all elements have in common
  Item item;                   // a tuple or dict for its names and keys, or something else
};

// One leaf of all elements: a tensor that only the list has.
struct Column {
  // [length, ...]. If the elements differ in size: [total, ...]; the first dim joins their open
  // dims, and the others are the shared dims.
  Item all;
  Item sizes;             // of elements that differ: i64[length, open dims]
  std::vector<int> open;  // the dims of an element that differ
};

struct Grown {
  Pattern pattern;              // of an element
  Item element;                 // the containers of an element, and leaves without values
  std::vector<Column> columns;  // by leaf
  bool views = false;  // as unbind() gives them: the elements are parts of the column, not copies
};

}  // namespace hg::convert
