// SPDX-License-Identifier: Apache-2.0
// The `script` and `grown_list` functions of rows: ops on lists, tuples, dicts and text. Each
// returns false if the arguments are of another kind. Also declares the tables of rows without
// tensor code.
#pragma once

#include <span>

#include "converter/rows/node_call.h"

namespace hg::convert {

namespace lists {           // lists.cpp
bool find(NodeCall& call);  // index, count
bool join(NodeCall& call);
bool repeat(NodeCall& call);
bool sort(NodeCall& call);  // also sorted()
bool sum(NodeCall& call);
bool extreme(NodeCall& call);  // min, max
}  // namespace lists

namespace containers {  // containers.cpp: lists, tuples, dicts and text
bool slice(NodeCall& call);
bool copy(NodeCall& call);
}  // namespace containers

namespace dicts {  // dicts.cpp
bool empty(NodeCall& call);
}  // namespace dicts

namespace texts {               // texts.cpp, text_methods.cpp
bool join_two(NodeCall& call);  // a + b
bool length(NodeCall& call);    // of a text that sizes or data decide
bool split(NodeCall& call);
bool find(NodeCall& call);  // find rfind index rindex
bool count(NodeCall& call);
}  // namespace texts

namespace pieces {  // pieces.cpp: a list of parts whose number depends on sizes
bool length(NodeCall& call);
bool get_item(NodeCall& call);
}  // namespace pieces

namespace grown {  // grown_lists.cpp, grown_numbers.cpp, grown_tensors.cpp
bool append(NodeCall& call);
bool insert(NodeCall& call);
bool extend(NodeCall& call);
bool join(NodeCall& call);
bool repeat(NodeCall& call);
bool length(NodeCall& call);
bool get_item(NodeCall& call);
bool set_item(NodeCall& call);
bool pop(NodeCall& call);
bool remove(NodeCall& call);  // also del list[i]
bool clear(NodeCall& call);
bool find(NodeCall& call);  // index, count, x in list
bool sort(NodeCall& call);  // also sorted()
bool reverse(NodeCall& call);
bool total(NodeCall& call);  // sum, min, max
bool equals(NodeCall& call);
bool is_none(NodeCall& call);
bool stack(NodeCall& call);
bool cat(NodeCall& call);
bool pad_sequence(NodeCall& call);
bool to_tensor(NodeCall& call);
bool copy(NodeCall& call);
bool slice(NodeCall& call);
bool unpack(NodeCall& call);
// An op on a list of known length if data selects the element.
bool by_data(NodeCall& call);
// unbind() along a symbolic size, which returns such a list; returns false if the size is known.
bool unbind(NodeCall& call);
}  // namespace grown

// Returns whether the item is or contains a list whose length depends on data or sizes.
bool has_grown(const Item& item);
// Runs an op on such a list; throws Refusal if the op needs the individual elements.
void run_on_grown(NodeCall& call);
// Whether the op reads a list of parts as a whole and keeps nothing of it.
bool only_reads_parts(std::string_view kind);
// Turns a list of parts into a list with `expected` elements, or with the usual number if that is
// 0, or into a grown list if that is unknown.
void settle_pieces(Environment& environment, const Item& item, int64_t expected = 0);

// Rows of ops without tensors, one table per file.
std::span<const Row> container_rows();
std::span<const Row> list_rows();
std::span<const Row> dict_rows();
std::span<const Row> text_rows();
std::span<const Row> text_method_rows();

}  // namespace hg::convert
