// SPDX-License-Identifier: Apache-2.0
// Ops that join the tensors of a list whose length depends on data or sizes.
#include <algorithm>

#include "converter/containers/container_ops.h"
#include "converter/containers/grown_call.h"
#include "converter/rows/view.h"

namespace hg::convert {
namespace {

Value movedim(const Value& x, int64_t to) {  // dim 0 becomes dim `to`
  if (to == 0) return x;
  std::vector<Dim> order;
  for (int64_t d = 1; d < x.rank(); ++d) order.emplace_back(d);
  order.insert(order.begin() + to, Dim(0));
  return x.graph()->call("permute", {x}, {{"dims", order}});
}

// Returns the elements of a list of tensors as [length, ...]. All must have the size of the first.
Value even_elements(NodeCall& call, const List& list) {
  const Value all = all_of(call, list);
  const Column& column = list.grown->columns[0];
  if (column.open.empty()) return all;
  Graph& g = call.graph();
  Memory& memory = call.memory();
  const Value sizes = sizes_of(call, list);
  const Value first = g.call("slice", {sizes}, {{"dim", 0}, {"start", 0}, {"end", 1}});
  require(call, g.call("lt", {g.scalar(int64_t{0}, i64), number(call, sizes.dim(0))}),
          "the list of tensors is empty");
  require(call, g.call("all", {g.call("eq", {sizes, first})}), "the tensors differ in size");
  Shape shape = {sizes.dim(0)};
  for (int64_t j = 0; j < static_cast<int64_t>(column.open.size()); ++j)
    shape.push_back(*memory.size_of(memory.make_number(
        reshape(g.call("slice", {first}, {{"dim", 1}, {"start", j}, {"end", j + 1}}), Shape()))));
  shape.insert(shape.end(), all.shape().begin() + 1, all.shape().end());
  const int rank = static_cast<int>(shape.size()) - 1;
  std::vector<Dim> order(shape.size(), Dim(0));
  int next = 0;
  for (const int d : column.open) order[static_cast<size_t>(d) + 1] = Dim(++next);
  for (int d = 0; d < rank; ++d)
    if (std::find(column.open.begin(), column.open.end(), d) == column.open.end())
      order[static_cast<size_t>(d) + 1] = Dim(++next);
  return g.call("permute", {reshape(all, shape)}, {{"dims", order}});
}

}  // namespace

namespace grown {

bool stack(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list || !is_of_tensors(*list)) return false;
  const Value all = even_elements(call, *list);
  call.give(Item(call.make_tensor(movedim(all, axis(call, all.rank())))));
  return true;
}

bool cat(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list || !is_of_tensors(*list)) return false;
  Value all = all_of(call, *list);
  const std::vector<int>& open = list->grown->columns[0].open;
  const int rank = all.rank() - 1 + static_cast<int>(open.size());
  if (rank == 0) throw Refusal{"tensors of rank 0 are concatenated", "use torch.stack"};
  const int64_t to = axis(call, rank);
  const bool joins_open = open.size() == 1 && open[0] == to;
  if (!joins_open) {
    if (std::find(open.begin(), open.end(), to) != open.end())
      throw Refusal{str_cat("tensors of a list whose length data or sizes decide are concatenated "
                            "along dim ",
                            to, ", and may differ in size in other dims"),
                    "let the elements differ in size in that dim alone"};
    all = even_elements(call, *list);
    Shape shape(all.shape().begin() + 1, all.shape().end());
    shape[to] = shape[to] * all.dim(0);
    call.give(Item(call.make_tensor(reshape(movedim(all, to), shape))));
    return true;
  }
  call.give(Item(call.make_tensor(movedim(all, to))));
  return true;
}

// pad_sequence(list, batch_first, padding_value, padding_side) of tensors that differ in dim 0.
bool pad_sequence(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list || !is_of_tensors(*list)) return false;
  Graph& g = call.graph();
  Memory& memory = call.memory();
  const Column& column = list->grown->columns[0];
  Value all = all_of(call, *list);
  if (column.open.empty()) {
    if (all.rank() < 2) throw Refusal{"pad_sequence() of tensors of rank 0", ""};
    require(call, g.call("lt", {g.scalar(int64_t{0}, i64), number(call, all.dim(0))}),
            "pad_sequence() received an empty list");
  } else if (column.open != std::vector<int>{0}) {
    throw Refusal{"pad_sequence() of tensors that may differ in size in other dims than the first",
                  "let the elements differ in size in dim 0 alone"};
  } else {
    const Value sizes = sizes_of(call, *list);
    require(call, g.call("lt", {g.scalar(int64_t{0}, i64), number(call, sizes.dim(0))}),
            "pad_sequence() received an empty list");
    const Value zero = g.call("full", {}, {{"shape", Shape{1}}, {"value", 0}, {"dtype", i64}});
    const Value most =
        g.call("amax", {g.call("concat", {reshape(sizes, {sizes.dim(0)}), zero}, {{"dim", 0}})});
    const Dim longest = *memory.size_of(memory.make_number(most));
    // Takes row t of each element, or the row of padding behind all of them.
    const Value begins = g.call("sub", {g.call("cumsum", {sizes}, {{"dim", 0}}), sizes});
    Value t = reshape(positions(call, longest), {1, longest});
    if (call.string("padding_side", "right") == "left")
      t = g.call("sub", {t, g.call("sub", {number(call, longest), sizes})});
    const Value inside = g.call(
        "logical_and", {g.call("ge", {t, g.scalar(int64_t{0}, i64)}), g.call("lt", {t, sizes})});
    const Value at =
        g.call("where", {inside, g.call("add", {begins, t}), number(call, all.dim(0))});
    Shape row = all.shape();
    row[0] = 1;
    const Value padding = rows::expanded(call.has("padding_value")
                                             ? call.tensor_or_number("padding_value", all.dtype())
                                             : g.scalar(int64_t{0}, all.dtype()),
                                         row);
    const Value rows = g.call(
        "index_select",
        {g.call("concat", {all, padding}, {{"dim", 0}}), reshape(at, {sizes.dim(0) * longest})},
        {{"dim", 0}});
    row[0] = longest;
    row.insert(row.begin(), sizes.dim(0));
    all = reshape(rows, row);
  }
  call.give(Item(call.make_tensor(call.flag("batch_first", false) ? all : movedim(all, 1))));
  return true;
}

}  // namespace grown
}  // namespace hg::convert
