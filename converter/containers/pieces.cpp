// SPDX-License-Identifier: Apache-2.0
// Lists of parts whose number depends on sizes, such as x.chunk(2) if x may have one row. Their
// length and elements are terms of sizes. Any other use of such a list assumes the number of parts
// for most sizes, with a guard, or makes it a grown list.
#include <algorithm>

#include "converter/containers/columns.h"
#include "converter/containers/container_ops.h"
#include "converter/rows/view.h"

namespace hg::convert {
namespace {

std::shared_ptr<List> pieces_at(NodeCall& call, int index) {
  if (index >= call.argument_count()) return nullptr;
  const auto* list = std::get_if<std::shared_ptr<List>>(&call.at(index).value);
  return list != nullptr && (*list)->pieces ? *list : nullptr;
}

Item part(Memory& memory, const Pieces& pieces, const Dim& index) {
  const TensorType type = memory.type(pieces.base);
  const Dim start = index * pieces.size + min(index, pieces.larger);
  const Dim size = pieces.size + max(min(pieces.larger - index, 1), 0);
  const Dim end = min(start + size, type.shape[pieces.dim]);
  rows::View view = rows::slice_view(pieces.dim, start, end);
  if (pieces.copies) return Item(memory.make(view.forward(memory.read(pieces.base))));
  return Item(memory.make_view(pieces.base, std::move(view.forward), std::move(view.inverse),
                               view.relayout));
}

}  // namespace

namespace pieces {

bool length(NodeCall& call) {
  const auto list = pieces_at(call, 0);
  if (!list) return false;
  call.give(Item(list->pieces->count));
  return true;
}

bool get_item(NodeCall& call) {
  const auto list = pieces_at(call, 0);
  if (!list) return false;
  const auto scalar = scalar_of(call.at(1));
  std::optional<Dim> number;
  if (scalar && scalar->is_integral())
    number = scalar->top;
  else if (const auto* tensor = std::get_if<TensorRef>(&call.at(1).value))
    number = call.memory().integer_of(*tensor);
  if (!number) call.refuse("1", str_cat("is ", describe(call.at(1)), ", not an integer"));
  const Dim given = *number, count = list->pieces->count;
  const Dim index = given + min(max(-given, 0), 1) * count;  // negative: from the end
  const std::string reason = str_cat("element ", given, " of a list of parts");
  call.graph().guard(0, Relation::le, index, reason);
  call.graph().guard(index, Relation::lt, count, reason);
  const Pieces& pieces = *list->pieces;
  if (pieces.by_data == nullptr) {
    call.give(part(call.memory(), pieces, index));
    return true;
  }
  const Dim start = index * pieces.size;
  call.give(call.environment().run_op("aten::slice",
                                      {{"self", Item(pieces.base)},
                                       {"dim", Item(pieces.by_data->dim)},
                                       {"start", Item(start)},
                                       {"end", Item(start + pieces.size)},
                                       {"step", Item(1)}},
                                      1, call.node().origin)[0]);
  return true;
}

}  // namespace pieces

bool only_reads_parts(std::string_view kind) {
  constexpr std::string_view kKinds[] = {"aten::cat",       "aten::concat", "aten::concatenate",
                                         "aten::stack",     "aten::hstack", "aten::vstack",
                                         "aten::list",      "aten::slice",  "aten::pad_sequence",
                                         "prim::isinstance"};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

void settle_pieces(Environment& environment, const Item& item, int64_t expected) {
  const auto* list = std::get_if<std::shared_ptr<List>>(&item.value);
  if (list == nullptr || !(*list)->pieces) return;
  Memory& memory = environment.memory();
  const Pieces pieces = *(*list)->pieces;
  if (pieces.by_data != nullptr) {  // the list of each dim
    auto arguments = pieces.by_data->arguments;
    arguments.emplace_back("dim", Item(pieces.by_data->dim));
    const Item all = environment.run_op(pieces.by_data->kind, std::move(arguments), 1,
                                        pieces.by_data->origin)[0];
    **list = *std::get<std::shared_ptr<List>>(all.value);
    return;
  }
  const int64_t count = expected > 0 ? expected : pieces.usual;
  if (count == 0) return grow(environment, {*list, pattern_of(memory, item), false});
  pieces.home->guard(pieces.count, Relation::eq, count, str_cat("a list of ", count, " parts"));
  require_ok(pieces.home->take_status());
  for (int64_t i = 0; i < count; ++i) (*list)->items.push_back(part(memory, pieces, i));
  (*list)->pieces = nullptr;
}

}  // namespace hg::convert
