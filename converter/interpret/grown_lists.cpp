// SPDX-License-Identifier: Apache-2.0
// Lists filled by a loop whose round count depends on data or a symbolic size. Their elements have
// one type, so the list is a tensor [length, ...] that appending extends; reads of the list become
// ops on that tensor.
#include <algorithm>

#include "converter/interpret/containers.h"
#include "converter/interpret/script_ops.h"
#include "converter/rows/view.h"

namespace hg::convert {
namespace {

std::shared_ptr<List> grown_at(NodeCall& call, int index) {
  if (index >= call.argument_count()) return nullptr;
  const auto* list = std::get_if<std::shared_ptr<List>>(&call.at(index).value);
  return list != nullptr && (*list)->grown ? *list : nullptr;
}

// [...] -> [1, ...], as an element of `all`.
Value as_row(NodeCall& call, const Value& all, const Item& element) {
  const bool complex = element.is_tensor() && std::get<TensorRef>(element.value)->is_complex();
  const bool fits = (element.is_tensor() && !complex) || element.is_number();
  if (!fits)
    throw Refusal{str_cat("a loop of unknown length appends ", describe(element), " to a list"),
                  "append tensors or numbers"};
  const Value value = element.is_tensor() ? call.read(std::get<TensorRef>(element.value))
                                          : number_value(call.memory(), element);
  const Shape rest(all.shape().begin() + 1, all.shape().end());
  if (value.dtype() != all.dtype() || value.shape() != rest)
    throw Refusal{
        str_cat("a loop of unknown length appends ", TensorType{value.dtype(), value.shape()},
                " to a list of ", TensorType{all.dtype(), rest}),
        "append tensors of one type"};
  Shape shape = value.shape();
  shape.insert(shape.begin(), Dim(1));
  return reshape(value, shape);
}

// As unbind() gives them: the elements are parts of the tensor, which is a view, and not copies.
bool is_of_views(const List& list) { return !list.grown->is_root(); }

// Writes a list whose elements are its own from now on. What they were parts of may share their
// memory, but is not written.
void set_elements(NodeCall& call, const std::shared_ptr<List>& list, const Value& all) {
  if (!is_of_views(*list)) return call.memory().write(list->grown, all);
  call.interpreter().check_change(Item(list));
  const TensorRef parts = list->grown;
  list->grown = call.make_tensor(all);
  call.may_share(list->grown, parts);
}

void add_element(Memory& memory, const Item& element, const TensorRef& list) {
  if (const auto* tensor = std::get_if<TensorRef>(&element.value))
    if (!(*tensor)->is_number()) memory.add_to_list(*tensor, list);
}

// An element that is a part of the tensor that was unbound.
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

int64_t axis(NodeCall& call, int rank) {
  const int64_t given = call.number("dim", 0), result = given < 0 ? given + rank : given;
  if (result < 0 || result >= rank) call.refuse("dim", str_cat("is ", given, " of rank ", rank));
  return result;
}

Value movedim(const Value& x, int64_t to) {  // dim 0 becomes dim `to`
  std::vector<Dim> order;
  for (int64_t d = 1; d < x.rank(); ++d) order.emplace_back(d);
  order.insert(order.begin() + to, Dim(0));
  return x.graph()->call("permute", {x}, {{"dims", order}});
}

}  // namespace

namespace grown {

bool append(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const bool inserts = call.kind() == "aten::insert";
  const Value all = call.read(list->grown);
  const Value row = as_row(call, all, call.at(inserts ? 2 : 1));
  if (inserts && call.number_at(1) != 0)
    throw Refusal{"an element is inserted into the middle of a list whose length is not known", ""};
  const std::vector<Value> parts = inserts ? std::vector{row, all} : std::vector{all, row};
  set_elements(call, list, call.graph().call("concat", parts, {{"dim", 0}}));
  add_element(call.memory(), call.at(inserts ? 2 : 1), list->grown);
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool extend(NodeCall& call) {  // list.extend(list), list += list
  const std::shared_ptr<List> list = grown_at(call, 0);
  const Items* more = elements_of(call.at(1));
  if (!list || more == nullptr || has_grown(call.at(1))) return false;
  const Value all = call.read(list->grown);
  std::vector<Value> parts = {all};
  for (const Item& item : *more) parts.push_back(as_row(call, all, item));
  if (parts.size() > 1) set_elements(call, list, call.graph().call("concat", parts, {{"dim", 0}}));
  for (const Item& item : *more) add_element(call.memory(), item, list->grown);
  call.returns(Items(call.node().outputs.size(), call.at(0)));
  return true;
}

bool join(NodeCall& call) {  // list + list
  const std::shared_ptr<List> lists[] = {grown_at(call, 0), grown_at(call, 1)};
  const std::shared_ptr<List>& known = lists[0] ? lists[0] : lists[1];
  const Value all = call.read(known->grown);
  std::vector<Value> parts;
  for (int i = 0; i < 2; ++i) {
    if (lists[i]) {
      parts.push_back(call.read(lists[i]->grown));
    } else if (const Items* items = elements_of(call.at(i))) {
      for (const Item& item : *items) parts.push_back(as_row(call, all, item));
    } else {
      return false;
    }
  }
  auto other = std::make_shared<List>();
  other->grown =
      call.memory().make_like(known->grown, call.graph().call("concat", parts, {{"dim", 0}}));
  for (int i = 0; i < 2; ++i) {
    if (lists[i] && is_of_views(*lists[i]))
      call.may_share(other->grown, lists[i]->grown);
    else if (lists[i])
      call.memory().add_to_list(lists[i]->grown, other->grown);
    else
      for (const Item& item : *elements_of(call.at(i)))
        add_element(call.memory(), item, other->grown);
  }
  call.give(Item(std::move(other)));
  return true;
}

bool length(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  call.give(Item(call.read(list->grown).dim(0)));
  return true;
}

bool get_item(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  if (is_of_views(*list)) {
    call.give(Item(part(call, list->grown)));
    return true;
  }
  Graph& g = call.graph();
  const Value all = call.read(list->grown);
  const Value zero = g.scalar(int64_t{0}, i64);
  Value index = cast(number_value(call.memory(), call.at(1)), i64);
  const Value size = reshape(g.call("dims", {}, {{"values", std::vector<Dim>{all.dim(0)}}}), {});
  index = g.call("where", {g.call("lt", {index, zero}), g.call("add", {index, size}), index});
  const Value row = g.call("index_select", {all, reshape(index, {Dim(1)})}, {{"dim", 0}});
  const Value element = reshape(row, Shape(all.shape().begin() + 1, all.shape().end()));
  if (list->grown->is_number()) {
    call.give(Item(call.memory().make_number(element)));
    return true;
  }
  const TensorRef tensor = call.make_tensor(element);
  call.memory().add_to_list(tensor, list->grown);
  call.give(Item(tensor));
  return true;
}

bool stack(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const Value all = call.read(list->grown);
  call.give(Item(call.make_tensor(movedim(all, axis(call, all.rank())))));
  return true;
}

bool cat(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const Value all = call.read(list->grown);
  if (all.rank() == 1) throw Refusal{"tensors of rank 0 are concatenated", "use torch.stack"};
  const int64_t to = axis(call, all.rank() - 1);
  Shape shape(all.shape().begin() + 1, all.shape().end());
  shape[to] = shape[to] * all.dim(0);
  call.give(Item(call.make_tensor(reshape(movedim(all, to), shape))));
  return true;
}

bool to_tensor(NodeCall& call) {  // torch.tensor(numbers)
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list || !list->grown->is_number()) return false;
  const Value all = call.read(list->grown);
  const DType usual = all.dtype() == f64 ? f32 : all.dtype();
  call.give(Item(call.make_tensor(cast(all, call.dtype("dtype", usual)))));
  return true;
}

bool copy(NodeCall& call) {  // list(x), x.copy(), reversed in place
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  Memory& memory = call.memory();
  if (is_of_views(*list) && call.kind() != "aten::reverse") {
    call.give(Item(std::make_shared<List>(*list)));
    return true;
  }
  const Value all = call.read(list->grown);
  if (call.kind() == "aten::reverse") {
    set_elements(call, list, call.graph().call("flip", {all}, {{"dims", std::vector<Dim>{0}}}));
    call.returns(Items(call.node().outputs.size()));
    return true;
  }
  auto other = std::make_shared<List>();
  other->grown = memory.make_like(list->grown, all);
  memory.add_to_list(list->grown, other->grown);
  call.give(Item(std::move(other)));
  return true;
}

bool slice(NodeCall& call) {  // list[start:end], list[::-1]
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  const auto given = [&](int i) { return i < call.argument_count() && !call.at(i).is_none(); };
  const Value all = call.read(list->grown);
  const Dim size = all.dim(0);
  const int64_t step = given(3) ? call.number_at(3) : 1;
  auto other = std::make_shared<List>();
  Value part;
  if (step == -1 && !given(1) && !given(2)) {
    part = call.graph().call("flip", {all}, {{"dims", std::vector<Dim>{0}}});
  } else if (step < 1) {
    throw Refusal{str_cat("a slice with step ", step, " of a list whose length is not known"), ""};
  } else {
    const auto bound = [&](int i, const Dim& fallback) {
      if (!given(i)) return fallback;
      const int64_t at = call.number_at(i);
      return at < 0 ? max(size + at, Dim(0)) : min(Dim(at), size);
    };
    const Dim start = bound(1, Dim(0)), end = max(bound(2, size), start);
    if (is_of_views(*list)) {
      const rows::View view = rows::slice_view(0, start, end, step);
      other->grown = call.make_view(list->grown, view.forward, view.inverse, view.relayout);
      call.give(Item(std::move(other)));
      return true;
    }
    part = call.graph().call("slice", {all},
                             {{"dim", 0}, {"start", start}, {"end", end}, {"step", step}});
  }
  other->grown = call.memory().make_like(list->grown, part);
  if (is_of_views(*list))
    call.may_share(other->grown, list->grown);
  else
    call.memory().add_to_list(list->grown, other->grown);
  call.give(Item(std::move(other)));
  return true;
}

bool unpack(NodeCall& call) {
  const std::shared_ptr<List> list = grown_at(call, 0);
  if (!list) return false;
  throw Refusal{str_cat("a list of length ", call.read(list->grown).dim(0), " is unpacked into ",
                        static_cast<int64_t>(call.node().outputs.size()),
                        " parts, so this number is baked in"),
                ""};
}

// What only passes the list on.
bool pass(NodeCall& call) { return row_named(call.kind())->script[0](call); }

// x.unbind() along a symbolic size: a list of unknown length from the start.
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
  auto list = std::make_shared<List>();
  list->grown = call.make_view(x, view.forward, view.inverse, view.relayout);
  call.give(Item(std::move(list)));
  return true;
}

}  // namespace grown

bool has_grown(const Item& item) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value); list && (*list)->grown)
    return true;
  const Items* items = elements_of(item);
  return items != nullptr && std::any_of(items->begin(), items->end(), has_grown);
}

void run_on_grown(NodeCall& call) {
  const Row* row = row_named(call.kind());
  if (row != nullptr && row->grown_list != nullptr && row->grown_list(call)) return;
  throw Refusal{"the op takes a list whose length only data or a symbolic size decides",
                "use torch.stack or torch.cat on the list first, or give a size that counts the "
                "steps as a number"};
}

void start_growing(Memory& memory, const Growing& growing) {
  const std::vector<Item>& items = growing.list->items;
  const Item& first = items.empty() ? growing.element : items.front();
  if ((!first.is_tensor() && !first.is_number()) ||
      (first.is_tensor() && std::get<TensorRef>(first.value)->is_complex()))
    throw Refusal{str_cat("a loop of unknown length appends ", describe(first), " to a list"),
                  "append tensors or numbers"};
  Graph& g = memory.graph();
  const bool numbers = first.is_number() || std::get<TensorRef>(first.value)->is_number();
  TensorType type;
  if (const auto* tensor = std::get_if<TensorRef>(&first.value))
    type = memory.type(*tensor);
  else
    type.dtype = first.is_bool() ? boolean : first.is_int() ? i64 : f64;
  std::vector<std::string> used;
  for (const Dim& dim : type.shape) dim.collect_symbols(used);
  const std::vector<std::string> known = g.symbols();
  for (const std::string& symbol : used)
    if (std::find(known.begin(), known.end(), symbol) == known.end())
      throw Refusal{str_cat("a loop of unknown length appends ", type, " to a list, and the size ",
                            symbol, " is not known before the loop"),
                    "append tensors of a size that the loop does not change"};
  Shape row = type.shape;
  row.insert(row.begin(), Dim(items.empty() ? 0 : 1));
  std::vector<Value> rows;
  for (const Item& item : items) {
    if (!item.is_tensor() && !item.is_number())
      throw Refusal{str_cat("a loop of unknown length appends to a list of ", describe(item)), ""};
    const Value value = item.is_tensor() ? memory.read(std::get<TensorRef>(item.value))
                                         : number_value(memory, item);
    if (value.dtype() != type.dtype || value.shape() != type.shape)
      throw Refusal{"a loop of unknown length appends to a list of tensors of several types", ""};
    rows.push_back(reshape(value, row));
  }
  if (rows.empty())
    rows.push_back(g.call("expand", {g.scalar(int64_t{0}, type.dtype)}, {{"shape", row}}));
  const Value all = rows.size() == 1 ? rows[0] : g.call("concat", rows, {{"dim", 0}});
  if (Status status = g.take_status(); !status.ok())
    throw Refusal{std::string(status.message()), ""};
  growing.list->grown = numbers ? memory.make_number(all) : memory.make(all);
  for (const Item& item : items) add_element(memory, item, growing.list->grown);
  growing.list->items.clear();
}

}  // namespace hg::convert
