// SPDX-License-Identifier: Apache-2.0
// What ops on grown lists share: the list of a call, its tensors, and numbers of the graph.
#pragma once

#include <memory>

#include "converter/containers/columns.h"
#include "hg/ops/movement.h"

namespace hg::convert {

inline std::shared_ptr<List> list_item(NodeCall& call, int index) {
  if (index >= call.argument_count()) return nullptr;
  const auto* list = std::get_if<std::shared_ptr<List>>(&call.at(index).value);
  return list != nullptr ? *list : nullptr;
}

inline std::shared_ptr<List> grown_at(NodeCall& call, int index) {
  const std::shared_ptr<List> list = list_item(call, index);
  return list && list->grown ? list : nullptr;
}

inline bool is_of_tensors(const List& list) {
  return list.grown->element.is_tensor() && !cell_of(list.grown->element)->is_number();
}

inline Value all_of(NodeCall& call, const List& list) {
  return call.read(cell_of(list.grown->columns[0].all));
}
inline Value sizes_of(NodeCall& call, const List& list) {
  return call.read(cell_of(list.grown->columns[0].sizes));
}

inline Value number(NodeCall& call, const Dim& dim) {
  return reshape(call.graph().call("dims", {}, {{"values", std::vector<Dim>{dim}}}), {});
}

inline Value positions(NodeCall& call, const Dim& count) {
  return call.graph().call("arange", {}, {{"end", count}});
}

inline void require(NodeCall& call, const Value& condition, std::string_view message) {
  call.graph().call("assert_true", {condition},
                    {{"message", str_cat("the model raises an exception: ", message)}});
}

inline int64_t axis(NodeCall& call, int rank) {
  const int64_t given = call.number("dim", 0), result = given < 0 ? given + rank : given;
  if (result < 0 || result >= rank) call.refuse("dim", str_cat("is ", given, " of rank ", rank));
  return result;
}

// Writes a list; afterwards it owns its elements.
void set_elements(NodeCall& call, const std::shared_ptr<List>& list, const Columns& columns);

// Returns the index of the first number that equals argument 1; the model raises an exception if
// there is none.
Value first_match(NodeCall& call, const List& list);

}  // namespace hg::convert
