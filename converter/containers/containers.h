// SPDX-License-Identifier: Apache-2.0
// Code shared by the builtins on lists, tuples and dicts.
#pragma once

#include <string_view>
#include <vector>

#include "converter/rows/node_call.h"

namespace hg::convert {

using Items = std::vector<Item>;

// Returns the elements of a list or tuple; null for other items.
const Items* elements_of(const Item& item);
Item list_of(Items items);
bool first_is_list(NodeCall& call);
bool first_is_dict(NodeCall& call);
// Returns the elements of the first argument, a list that will be changed.
Items& changed_list(NodeCall& call);
// Returns an argument as an index into `size` elements; negative indices count from the end.
size_t position(NodeCall& call, int argument, size_t size);
// Returns the position of the key, or the number of entries.
size_t find_key(const Dict& dict, const Item& key);
void put(Dict& dict, const Item& key, const Item& value);

}  // namespace hg::convert
