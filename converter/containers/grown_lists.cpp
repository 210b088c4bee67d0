// SPDX-License-Identifier: Apache-2.0
// Ops on lists whose length depends on data or sizes (columns.h). Changing a list writes new
// columns; reading it becomes ops on the columns.
#include <algorithm>

#include "converter/containers/container_ops.h"
#include "converter/containers/containers.h"
#include "converter/containers/grown_call.h"
#include "converter/core/scalar.h"
#include "converter/memory/item_tree.h"
#include "converter/rows/view.h"
#include "converter/script/numbers.h"

namespace hg::convert {

void set_elements(NodeCall& call, const std::shared_ptr<List>& list, const Columns& columns) {
  Identities& identities = call.identities();
  identities.check_frozen(Item(list));
  if (list->grown->views) {
    // The unbound tensor may share memory with the parts, but is not written.
    identities.check_change(Item(list));
    list->grown = list_like(call.memory(), *list->grown, columns)->grown;
    return;
  }
  size_t next = 0;
  for (const Column& column : list->grown->columns) {
    call.memory().write(cell_of(column.all), columns[next++]);
    if (!column.open.empty()) call.memory().write(cell_of(column.sizes), columns[next++]);
  }
}

namespace {

Dim length_of(NodeCall& call, const List& list) { return length_of(call.memory(), *list.grown); }

// Returns an argument as an index from the start, which may be out of range.
Value index_at(NodeCall& call, int argument, const Dim& size) {
  Graph& g = call.graph();
  const Value given = cast(number_value(call.memory(), call.at(argument)), i64);
  const Value zero = g.scalar(int64_t{0}, i64);
  return g.call("where",
                {g.call("lt", {given, zero}), g.call("add", {given, number(call, size)}), given});
}

// The same, but the model raises an exception if the index is out of range.
Value checked_index_at(NodeCall& call, int argument, const Dim& size) {
  Graph& g = call.graph();
  const Value index = index_at(call, argument, size);
  require(call,
          g.call("logical_and", {g.call("ge", {index, g.scalar(int64_t{0}, i64)}),
                                 g.call("lt", {index, number(call, size)})}),
          "list index out of range");
  return index;
}

// Returns the element as columns. Adapts the list if it cannot hold the element.
Columns row_of(NodeCall& call, const std::shared_ptr<List>& list, const Item& element) {
  Memory& memory = call.memory();
  if (list->grown->views) {  // a part becomes a separate element
    const auto own = std::make_shared<const Grown>(*list->grown);
    call.identities().check_change(Item(list));
    list->grown = list_like(memory, *own, read_columns(memory, *own))->grown;
  }
  const auto as_it_is = [&] {
    return as_columns(memory, *list->grown, fitted(memory, element, list->grown->pattern));
  };
  if (auto row = as_it_is()) return *std::move(row);
  grow(call.environment(), {list, pattern_of(memory, element)});
  if (auto row = as_it_is()) return *std::move(row);
  throw Refusal{str_cat("a list whose length data or sizes decide holds ", describe(element),
                        " and elements that differ from it"),
                "append elements of one dtype, rank and structure"};
}

// Adds an element to a list. Lists in the element then belong to the list.
void add_element(NodeCall& call, const std::shared_ptr<List>& list, const Item& element) {
  link_element(call.memory(), *list->grown, fitted(call.memory(), element, list->grown->pattern));
  call.identities().store(element);
}

// Rebuilds the list by indices into its elements followed by one additional element.
void replace(NodeCall& call, const std::shared_ptr<List>& list, const Item& element,
             const Value& indices) {
  const Columns row = row_of(call, list, element);
  Memory& memory = call.memory();
  const Columns both = concatenated(*list->grown, {read_columns(memory, *list->grown), row});
  const std::shared_ptr<List> longer = list_like(memory, *list->grown, both);
  set_elements(call, list, taken(memory, *longer->grown, indices));
  add_element(call, list, element);
}

// Removes the element at the index.
void erase(NodeCall& call, const std::shared_ptr<List>& list, const Value& index) {
  Graph& g = call.graph();
  const Value at = positions(call, max(length_of(call, *list) - 1, Dim(0)));
  const Value next = g.call("add", {at, g.scalar(int64_t{1}, i64)});
  const Value indices = g.call("where", {g.call("lt", {at, index}), at, next});
  set_elements(call, list, taken(call.memory(), *list->grown, indices));
}

void give_nothing(NodeCall& call) { call.returns(Items(call.node().outputs.size())); }
void give_list(NodeCall& call) { call.returns(Items(call.node().outputs.size(), call.at(0))); }

// Returns an element that is a part of the unbound tensor.
TensorRef part(NodeCall& call, const TensorRef& parts) {
  const TensorType type = call.memory().type(parts);
  const auto at = scalar_of(call.at(1));
  const Dim& size = type.shape.front();
  rows::View view;
  if (at && at->is_integral()) {
    view = rows::select_view(0, rows::wrapped(call, "idx", at->top, size));
  } else {
    const Value index = rows::data_index(call, number_value(call.memory(), call.at(1)), size);
    view = rows::then(rows::index_view(0, call.keep(index)),
                      rows::reshape_view(Shape(type.shape.begin() + 1, type.shape.end())));
  }
  return call.make_view(parts, std::move(view.forward), std::move(view.inverse), view.relayout);
}

// Whether data decides the selected element or an order.
bool depends_on_data(NodeCall& call, const List& list) {
  const auto is_known = [](const Item& item) {
    const auto number = is_numeric(item) ? scalar_of(item) : std::nullopt;
    return !is_numeric(item) || (number && number->is_constant());
  };
  const std::string_view kind = call.kind();
  if (kind == "aten::slice") {
    for (int i = 1; i < 3 && i < call.argument_count(); ++i)
      if (!is_known(call.at(i))) return true;
    return false;
  }
  if (kind == "aten::__getitem__" || kind == "aten::_set_item" || kind == "aten::pop" ||
      kind == "aten::insert" || kind == "aten::Delete")
    return call.argument_count() > 1 && !is_known(call.at(1));
  if (!std::all_of(list.items.begin(), list.items.end(), is_numeric)) return false;
  const bool sorts = kind == "aten::sort" || kind == "aten::sorted";
  return !std::all_of(list.items.begin(), list.items.end(), is_known) ||
         (!sorts && !is_known(call.at(1)));
}

}  // namespace

namespace grown {

bool append(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const Columns row = row_of(call, list, call.at(1));
  set_elements(call, list,
               concatenated(*list->grown, {read_columns(call.memory(), *list->grown), row}));
  add_element(call, list, call.at(1));
  give_list(call);
  return true;
}

bool insert(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  Graph& g = call.graph();
  const Dim size = length_of(call, *list);
  const Value zero = g.scalar(int64_t{0}, i64), one = g.scalar(int64_t{1}, i64);
  const Value end = number(call, size);
  const Value index = g.call("minimum", {g.call("maximum", {index_at(call, 1, size), zero}), end});
  const Value at = positions(call, size + 1);
  const Value behind = g.call("where", {g.call("eq", {at, index}), end,
                                        g.call("maximum", {g.call("sub", {at, one}), zero})});
  replace(call, list, call.at(2), g.call("where", {g.call("lt", {at, index}), at, behind}));
  give_list(call);
  return true;
}

bool set_item(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  if (list->grown->views) {
    const Columns own = read_columns(call.memory(), *list->grown);
    set_elements(call, list, own);
  }
  Graph& g = call.graph();
  const Dim size = length_of(call, *list);
  const Value index = checked_index_at(call, 1, size), at = positions(call, size);
  replace(call, list, call.at(2),
          g.call("where", {g.call("eq", {at, index}), number(call, size), at}));
  give_list(call);
  return true;
}

// `from` is a copy of the argument's list that fits `to`. Records the memory that the argument
// shares with `to`.
void share_columns(NodeCall& call, int argument, const Grown& from, const Grown& to) {
  Memory& memory = call.memory();
  const std::shared_ptr<List> list = grown_at(call, argument);
  for (size_t k = 0; k < to.columns.size(); ++k) {
    if (list && list->grown->views)
      memory.may_share(cell_of(to.columns[k].all), cell_of(list->grown->columns.at(0).all));
    else
      memory.share_lists(cell_of(from.columns[k].all), cell_of(to.columns[k].all));
  }
}

bool extend(NodeCall& call) {  // list.extend(list), list += list
  const std::shared_ptr<List> list = list_item(call, 0), other = list_item(call, 1);
  if (!list) return false;
  Memory& memory = call.memory();
  if (!list->grown) {
    if (!other || !other->grown) return false;
    call.identities().check_frozen(call.at(0));
    grow(call.environment(), {list, pattern_of(memory, call.at(1)), false});
  }
  if (!other || !other->grown) {
    const Items* more = elements_of(call.at(1));
    if (more == nullptr) return false;
    for (const Item& item : Items(*more)) {
      const Columns row = row_of(call, list, item);
      set_elements(call, list,
                   concatenated(*list->grown, {read_columns(memory, *list->grown), row}));
      add_element(call, list, item);
    }
    give_list(call);
    return true;
  }
  // Finds a pattern for the elements of both.
  const auto both = joined(pattern_of(memory, call.at(0)), pattern_of(memory, call.at(1)), true);
  if (!both)
    throw Refusal{"a list is extended by another whose elements differ in type",
                  "append elements of one dtype, rank and structure"};
  if (!same_structure(call.at(0), fitted(memory, call.at(0), *both)))
    grow(call.environment(), {list, *both, false});
  const Item from = fitted(memory, call.at(1), *both);
  const Grown& more = *std::get<std::shared_ptr<List>>(from.value)->grown;
  set_elements(
      call, list,
      concatenated(*list->grown, {read_columns(memory, *list->grown), read_columns(memory, more)}));
  share_columns(call, 1, more, *list->grown);
  give_list(call);
  return true;
}

bool join(NodeCall& call) {  // list + list
  if (!list_item(call, 0) || !list_item(call, 1)) return false;
  if (!grown_at(call, 0) && !grown_at(call, 1)) return false;  // lists in lists may grow
  Memory& memory = call.memory();
  const Pattern a = pattern_of(memory, call.at(0)), b = pattern_of(memory, call.at(1));
  auto both = joined(a, b, true);
  if (!both)
    throw Refusal{"two lists are joined whose elements differ in type",
                  "append elements of one dtype, rank and structure"};
  std::vector<Columns> parts;
  std::vector<std::shared_ptr<List>> lists;
  for (int i = 0; i < 2; ++i) {
    lists.push_back(std::get<std::shared_ptr<List>>(fitted(memory, call.at(i), *both).value));
    parts.push_back(read_columns(memory, *lists.back()->grown));
  }
  for (int i = 0; i < 2; ++i)
    if (const Items* items = elements_of(call.at(i)))
      for (const Item& item : *items) call.identities().store(item);
  auto result = list_like(memory, *lists[0]->grown, concatenated(*lists[0]->grown, parts));
  for (int i = 0; i < 2; ++i) share_columns(call, i, *lists[i]->grown, *result->grown);
  call.give(Item(std::move(result)));
  return true;
}

bool length(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  call.give(Item(length_of(call, *list)));
  return true;
}

bool get_item(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  if (list->grown->views) {
    call.give(Item(part(call, cell_of(list->grown->columns[0].all))));
    return true;
  }
  Item element =
      element_at(call.memory(), *list->grown, checked_index_at(call, 1, length_of(call, *list)));
  call.identities().store(element);
  call.give(std::move(element));
  return true;
}

bool pop(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  Graph& g = call.graph();
  const Dim size = length_of(call, *list);
  Value index;
  if (call.argument_count() > 1) {
    index = checked_index_at(call, 1, size);
  } else {
    index = g.call("sub", {number(call, size), g.scalar(int64_t{1}, i64)});
    require(call, g.call("ge", {index, g.scalar(int64_t{0}, i64)}), "pop from empty list");
  }
  Item element = element_at(call.memory(), *list->grown, index);
  call.identities().store(element);
  erase(call, list, index);
  if (call.kind() == "aten::Delete")
    give_nothing(call);
  else
    call.give(std::move(element));
  return true;
}

bool remove(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  if (call.kind() == "aten::Delete") return pop(call);
  erase(call, list, first_match(call, *list));
  give_nothing(call);
  return true;
}

bool clear(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  Columns none = read_columns(call.memory(), *list->grown);
  for (Value& value : none)
    value = call.graph().call("slice", {value}, {{"dim", 0}, {"start", 0}, {"end", 0}});
  set_elements(call, list, none);
  give_nothing(call);
  return true;
}

bool copy(NodeCall& call) {  // list(x), x.copy()
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  if (list->grown->views) {
    call.give(Item(std::make_shared<List>(*list)));
    return true;
  }
  call.give(
      Item(list_like(call.memory(), *list->grown, read_columns(call.memory(), *list->grown))));
  return true;
}

bool reverse(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const Value at = positions(call, length_of(call, *list));
  set_elements(call, list,
               taken(call.memory(), *list->grown,
                     call.graph().call("flip", {at}, {{"dims", std::vector<Dim>{0}}})));
  give_nothing(call);
  return true;
}

bool repeat(NodeCall& call) {  // list * n
  const int which = grown_at(call, 0) ? 0 : 1;
  const std::shared_ptr<List> list = grown_at(call, which);
  if (!list || call.argument_count() < 2 || call.kind() == "aten::mul_") return false;
  const auto times = scalar_of(call.at(1 - which));
  if (!times || !times->is_integral()) return false;
  const Dim size = length_of(call, *list);
  const Value at = positions(call, size * max(times->top, Dim(0)));
  const Value indices = call.graph().call("remainder", {at, number(call, max(size, Dim(1)))});
  call.give(
      Item(list_like(call.memory(), *list->grown, taken(call.memory(), *list->grown, indices))));
  return true;
}

bool slice(NodeCall& call) {  // list[start:end], list[::-1]
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const auto given = [&](int i) { return i < call.argument_count() && !call.at(i).is_none(); };
  Graph& g = call.graph();
  Memory& memory = call.memory();
  const Dim size = length_of(call, *list);
  const int64_t step = given(3) ? call.number_at(3) : 1;
  if (step == 0) throw Refusal{"a slice has step 0", ""};
  const auto known = [&](int i) {
    const auto at = given(i) ? scalar_of(call.at(i)) : std::nullopt;
    return !given(i) || (at && at->is_constant());
  };
  if (step > 0 && known(1) && known(2)) {
    const auto bound = [&](int i, const Dim& fallback) {
      if (!given(i)) return fallback;
      const int64_t at = call.number_at(i);
      return at < 0 ? max(size + at, Dim(0)) : min(Dim(at), size);
    };
    const Dim start = bound(1, Dim(0)), end = max(bound(2, size), start);
    if (list->grown->views) {
      auto other = std::make_shared<List>();
      Grown part = *list->grown;
      const rows::View view = rows::slice_view(0, start, end, step);
      part.columns[0].all = Item(
          call.make_view(cell_of(part.columns[0].all), view.forward, view.inverse, view.relayout));
      other->grown = std::make_shared<const Grown>(std::move(part));
      call.give(Item(std::move(other)));
      return true;
    }
    const Value at = g.call("slice", {positions(call, size)},
                            {{"dim", 0}, {"start", start}, {"end", end}, {"step", step}});
    call.give(Item(list_like(memory, *list->grown, taken(memory, *list->grown, at))));
    return true;
  }
  // Returns the positions from `start` to before `end`, both clamped as in Python.
  const Value zero = g.scalar(int64_t{0}, i64), one = g.scalar(int64_t{1}, i64);
  const Value all = number(call, size), by = g.scalar(std::abs(step), i64);
  const Value low = step > 0 ? zero : g.scalar(int64_t{-1}, i64);
  const Value high = step > 0 ? all : g.call("sub", {all, one});
  const auto bound = [&](int i, const Value& fallback) {
    if (!given(i)) return fallback;
    return g.call("minimum", {g.call("maximum", {index_at(call, i, size), low}), high});
  };
  const Value start = bound(1, step > 0 ? low : high), end = bound(2, step > 0 ? high : low);
  const Value way = step > 0 ? g.call("sub", {end, start}) : g.call("sub", {start, end});
  const Value count =
      g.call("floor_divide",
             {g.call("sub", {g.call("add", {g.call("maximum", {way, zero}), by}), one}), by});
  const Value at =
      g.call("add", {g.call("mul", {positions(call, *memory.size_of(memory.make_number(count))),
                                    g.scalar(step, i64)}),
                     start});
  call.give(Item(list_like(memory, *list->grown, taken(memory, *list->grown, at))));
  return true;
}

bool unpack(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const Dim length = length_of(call, *list);
  const auto count = static_cast<int64_t>(call.node().outputs.size());
  if (usual_value(length) != count)
    throw Refusal{str_cat("a list of length ", length, " is unpacked into ", count,
                          " parts, so this number is baked in"),
                  "index the list"};
  call.returns(as_elements(call.memory(), *list->grown, count));
  return true;
}

bool is_none(NodeCall& call) {  // x is None, x is not None
  if (!call.at(0).is_none() && !call.at(1).is_none()) return false;
  call.give(Item(call.kind() == "aten::__isnot__"));
  return true;
}

// x.unbind() along a symbolic size returns a list of unknown length.
bool unbind(NodeCall& call) {
  const TensorRef x = call.ref("self");
  const TensorType type = call.memory().type(x);
  if (x->is_complex() || type.shape.empty()) return false;
  const int64_t dim = axis(call, type.rank());
  if (type.shape[dim].is_constant()) return false;
  rows::Dims order = {Dim(dim)};
  for (int64_t d = 0; d < type.rank(); ++d)
    if (d != dim) order.emplace_back(d);
  const rows::View view = rows::permute_view(order);
  call.give(Item(
      list_of_parts(call.memory(), call.make_view(x, view.forward, view.inverse, view.relayout))));
  return true;
}

// Selects an element of a list with one element type by a data-dependent index.
bool by_data(NodeCall& call) {
  const std::shared_ptr<List> list = list_item(call, 0);
  if (!list || list->grown || list->pieces || list->items.empty()) return false;
  const Row* row = call.row();
  if (row == nullptr || row->grown_list == nullptr || !depends_on_data(call, *list)) return false;
  Memory& memory = call.memory();
  const Pattern wanted = pattern_of(memory, call.at(0));
  const bool changes = call.kind() != "aten::__getitem__" && call.kind() != "aten::index" &&
                       call.kind() != "aten::count" && call.kind() != "aten::sorted" &&
                       call.kind() != "aten::slice";
  if (changes) {
    call.identities().check_frozen(call.at(0));
    grow(call.environment(), {list, wanted, false});
    return row->grown_list(call);
  }
  auto copy = std::make_shared<List>(*list);
  start_growing(call.environment(), {copy, wanted, false});
  NodeCall::Part part;
  for (int i = 0; i < call.argument_count(); ++i) part.arguments.push_back(call.at(i));
  part.arguments[0] = Item(copy);
  call.set_part(&part);
  const bool done = row->grown_list(call);
  call.set_part(nullptr);
  return done;
}

}  // namespace grown

bool has_grown(const Item& item) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value); list && (*list)->grown)
    return true;
  const Items* items = elements_of(item);
  return items != nullptr && std::any_of(items->begin(), items->end(), has_grown);
}

void run_on_grown(NodeCall& call) {
  const Row* row = call.row();
  if (row != nullptr && row->grown_list != nullptr && row->grown_list(call)) return;
  if (row != nullptr && row->passes_grown && (row->grown_list == nullptr || !grown_at(call, 0)) &&
      std::any_of(row->script.begin(), row->script.end(),
                  [&](ScriptOp run) { return run != nullptr && run(call); }))
    return;
  throw Refusal{"the op takes a list whose length only data or a symbolic size decides",
                "use torch.stack or torch.cat on the list first, or give a size that counts the "
                "steps as a number"};
}

}  // namespace hg::convert
