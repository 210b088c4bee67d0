// SPDX-License-Identifier: Apache-2.0
// Operations of control flow on items that enter and leave it: collects the tensors and numbers in
// containers, and compares items.
#pragma once

#include <optional>
#include <vector>

#include "converter/memory/item_values.h"

namespace hg::convert {

// Returns true or false, or nothing if data or symbols decide.
std::optional<bool> decided(const Item& item);
// Appends the tensors and numbers in an item, in order.
void collect(const Item& item, std::vector<const Item*>& leaves);
size_t count_leaves(const Item& item);
// Returns the same containers with other leaves, starting at `next`.
Item rebuild(const Item& item, const std::vector<Item>& leaves, size_t& next);
bool same_structure(const Item& a, const Item& b);
// Returns the same pointer for items that are the same list, tuple, dict or object; null for other
// items.
const void* identity_of(const Item& item);
// Returns whether the container is the item or in it.
bool holds(const Item& item, const void* container);
// Returns a new list or dict with the same elements. restore() copies the elements of `from` back
// to the container.
Item snapshot(const Item& container);
void restore(const Item& container, const Item& from);
// Whether the item is a number, or a tensor that represents one.
bool is_numeric(const Item& item);
// Returns the tensor; null if it represents a number, or for other items.
TensorRef tensor_of(const Item& item);
// Returns the column (core/grown.h), which the script does not see; null for other items.
TensorRef column_of(const Item& item);
// Whether the item is or contains a list.
bool holds_list(const Item& item);
// Whether both are the same constant or the same tensor, so that no result is needed for them.
bool keeps(const Item& a, const Item& b);
bool is_complex(const Item& item);
// Whether the item is the result of prim::Uninitialized: a value that is never read.
bool is_undefined(const Item& item);
// Returns the item with its undefined parts replaced by the containers of the other. The result of
// an early return is completely undefined on the path that continues.
Item defined_like(const Item& item, const Item& other);
// Whether the item is a constant: it is the same inside and outside a body, so it may replace an
// undefined value.
bool is_constant(const Item& item);
// Whether the item is the text of a value that depends on sizes or data.
bool is_unknown_text(const Item& item);

}  // namespace hg::convert
