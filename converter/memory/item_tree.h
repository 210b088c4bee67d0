// SPDX-License-Identifier: Apache-2.0
// What control flow asks of the items that enter and leave it: the tensors and numbers inside
// containers, and whether two of them are the same.
#pragma once

#include <optional>
#include <vector>

#include "converter/memory/item_values.h"

namespace hg::convert {

// True or false, or none when data or symbols decide.
std::optional<bool> decided(const Item& item);
// The tensors and numbers inside an item, in order.
void collect(const Item& item, std::vector<const Item*>& leaves);
size_t count_leaves(const Item& item);
// The same containers with other leaves, from `next` on.
Item rebuild(const Item& item, const std::vector<Item>& leaves, size_t& next);
bool same_structure(const Item& a, const Item& b);
// What two items have in common that are the same list, tuple, dict or object; null for others.
const void* identity_of(const Item& item);
// Whether the container is the item, or inside it.
bool holds(const Item& item, const void* container);
// A list or dict of its own with the same elements, and back: the elements of `from` become those
// of the container.
Item snapshot(const Item& container);
void restore(const Item& container, const Item& from);
// A number, or a tensor that stands for one.
bool is_numeric(const Item& item);
// The tensor that the item is; null where it stands for a number or is something else.
TensorRef tensor_of(const Item& item);
// Likewise the column that it is (core/grown.h), which the script does not see.
TensorRef column_of(const Item& item);
// Whether the item is, or holds, a list.
bool holds_list(const Item& item);
// Neither a tensor nor a number that could become one, or the same constant in both.
bool keeps(const Item& a, const Item& b);
bool is_complex(const Item& item);
// What prim::Uninitialized gives: a value that is never read, whatever it is.
bool is_undefined(const Item& item);
// The item, of which what is undefined takes the containers of the other: a result of an early
// return is undefined as a whole on the way that goes on.
Item defined_like(const Item& item, const Item& other);
// A constant: the same inside and outside of a body, so that it may stand for what is undefined.
bool is_constant(const Item& item);
// What str() and its like give where sizes or data decide.
bool is_unknown_text(const Item& item);

}  // namespace hg::convert
