// SPDX-License-Identifier: Apache-2.0
// Code shared by the builtins on lists, tuples and dicts.
#pragma once

#include <string_view>
#include <vector>

#include "converter/rows/node_call.h"

namespace hg::convert {

using Items = std::vector<Item>;

// Of a list or a tuple; null for other items.
const Items* elements_of(const Item& item);
Item list_of(Items items);
bool first_is_list(NodeCall& call);
bool first_is_dict(NodeCall& call);
// The elements of the first argument, a list that is about to change.
Items& changed_list(NodeCall& call);
// The first argument, a dict that is about to change.
Dict& changed_dict(NodeCall& call);
// Argument `argument` as an index of `size` elements, counted from the end when negative.
size_t position(NodeCall& call, int argument, size_t size);
// The place of the key, or the number of entries.
size_t find_key(const Dict& dict, const Item& key);
void put(Dict& dict, const Item& key, const Item& value);

}  // namespace hg::convert
