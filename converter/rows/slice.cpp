// SPDX-License-Identifier: Apache-2.0
// Parts of tensors, which are views, and tensors joined from parts.
#include <algorithm>

#include "converter/alias.h"
#include "converter/rows/view.h"
#include "hg/op.h"

namespace hg::convert::rows {
namespace {

void give(Call& call, TensorRef tensor) {
  call.returns(std::vector<Item>{Item(std::move(tensor))});
}

// A bound of a slice as Python has it, in [0, size]. A symbolic bound that may have either sign
// counts from the start.
Dim bound(const Dim& value, const Dim& size) {
  const Dim from_start = value.upper_bound() < 0 ? value + size : value;
  return min(max(from_start, Dim(0)), size);
}

int axis_of(Call& call, const Value& x, std::string_view argument = "dim", int64_t fallback = 0) {
  return checked_axis(call, argument, call.number(argument, fallback), x.rank());
}

void slice_row(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const int dim = axis_of(call, x);
  const Dim size = x.dim(dim);
  const Dim start = bound(call.integer("start", 0), size);
  const Dim end = max(bound(call.integer("end", size), size), start);
  const Dim step = call.integer("step", 1);
  if (start == Dim(0) && end == size && step == Dim(1)) return give(call, self);
  give(call, sliced(call, self, dim, start, end, step));
}

// An index that data decides, as one element that is not negative.
Value data_index(Call& call, std::string_view argument, const Dim& size) {
  Graph& g = call.graph();
  const Value index = reshape(cast(call.tensor(argument), i64), {Dim(1)});
  const Value sizes = g.call("dims", {}, {{"values", std::vector<Dim>{size}}});
  const Value zero = g.scalar(int64_t{0}, i64);
  return g.call("where", {g.call("lt", {index, zero}), g.call("add", {index, sizes}), index});
}

bool depends_on_data(Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  return item && item->is_tensor() && !std::get<TensorRef>(item->value)->known();
}

void select(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  if (x.rank() == 0) call.refuse("self", "has rank 0");
  const int dim = axis_of(call, x);
  const Dim size = x.dim(dim);
  if (depends_on_data(call, "index")) {
    const Value picked = call.graph().call("index_select", {x, data_index(call, "index", size)},
                                           {{"dim", Dim(dim)}});
    Shape shape = x.shape();
    shape.erase(shape.begin() + dim);
    return call.returns(reshape(picked, shape));
  }
  Dim index = call.integer("index");
  if (index.upper_bound() < 0) index = index + size;
  if (index.is_constant() &&
      (index.constant() < 0 || (size.is_constant() && index.constant() >= size.constant())))
    call.refuse("index",
                text("is ", call.integer("index"), ", outside of a dimension of size ", size));
  give(call, selected(call, self, dim, index));
}

void narrow(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const int dim = axis_of(call, x);
  Dim start = call.integer("start");
  if (start.upper_bound() < 0) start = start + x.dim(dim);
  give(call, sliced(call, self, dim, start, start + call.integer("length"), 1));
}

void give_parts(Call& call, const TensorRef& self, int dim, const std::vector<Dim>& bounds) {
  auto list = std::make_shared<List>();
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    list->items.emplace_back(sliced(call, self, dim, bounds[i], bounds[i + 1], 1));
  call.returns(std::vector<Item>{Item(std::move(list))});
}

int64_t constant_count(const Dim& count, const Value& x) {
  if (!count.is_constant())
    throw Refusal{
        text("the number of parts of a tensor of shape ", x.shape(), " depends on ", count),
        "give that size as a number in --input"};
  return count.constant();
}

void split_by(Call& call, const Dim& size_of_part) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const int dim = axis_of(call, x);
  const Dim size = x.dim(dim);
  if (size_of_part == Dim(0)) {
    if (size != Dim(0)) call.refuse("split_size", "is 0");
    return give_parts(call, self, dim, {Dim(0), Dim(0)});
  }
  const int64_t parts = std::max<int64_t>(constant_count(ceildiv(size, size_of_part), x), 1);
  std::vector<Dim> bounds;
  for (int64_t i = 0; i <= parts; ++i) bounds.push_back(min(size_of_part * Dim(i), size));
  bounds.back() = size;
  give_parts(call, self, dim, bounds);
}

void split_sizes(Call& call, std::string_view argument) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  std::vector<Dim> bounds = {Dim(0)};
  for (const Dim& size : call.integers(argument)) bounds.push_back(bounds.back() + size);
  const int dim = axis_of(call, x);
  if (bounds.back().is_constant() && x.dim(dim).is_constant() && bounds.back() != x.dim(dim))
    call.refuse(argument, text("adds up to ", bounds.back(), ", not ", x.dim(dim)));
  give_parts(call, self, dim, bounds);
}

void split(Call& call) {
  if (call.find("split_sizes")) return split_sizes(call, "split_sizes");
  const Item* size = call.find("split_size");
  if (size && size->is_list()) return split_sizes(call, "split_size");
  split_by(call, call.integer("split_size"));
}

void chunk(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const int dim = axis_of(call, x);
  const int64_t chunks = call.number("chunks");
  const Dim size = x.dim(dim);
  if (chunks < 1) call.refuse("chunks", text("is ", chunks));
  const Dim part = ceildiv(size, Dim(chunks));
  if (part.is_constant() && part != Dim(0)) return split_by(call, part);
  // The size depends on symbols: as many parts as asked for, the last ones perhaps shorter.
  std::vector<Dim> bounds;
  for (int64_t i = 0; i <= chunks; ++i) bounds.push_back(min(part * Dim(i), size));
  bounds.back() = size;
  give_parts(call, self, dim, bounds);
}

void split_at(Call& call, int dim, std::string_view sections, std::string_view indices) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const Dim size = x.dim(dim);
  std::vector<Dim> bounds = {Dim(0)};
  const Item* many = call.find(sections);
  if (many && many->is_int()) {
    const int64_t parts = call.number(sections);
    if (parts < 1) call.refuse(sections, text("is ", parts));
    const Dim part = floordiv(size, Dim(parts)), longer = mod(size, Dim(parts));
    for (int64_t i = 1; i <= parts; ++i) bounds.push_back(part * Dim(i) + min(longer, Dim(i)));
  } else {
    for (const Dim& index : call.integers(many ? sections : indices))
      bounds.push_back(max(bound(index, size), bounds.back()));
    bounds.push_back(max(size, bounds.back()));
  }
  bounds.back() = size;
  give_parts(call, self, dim, bounds);
}

void tensor_split(Call& call) {
  const int dim = axis_of(call, call.tensor("self"));
  split_at(call, dim,
           call.find("tensor_indices_or_sections") ? "tensor_indices_or_sections" : "sections",
           "indices");
}

template <int D>
void split_along(Call& call) {  // hsplit, vsplit, dsplit
  const int rank = call.tensor("self").rank();
  split_at(call, D == 1 && rank == 1 ? 0 : D, "sections", "indices");
}

void unbind(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const int dim = axis_of(call, x);
  auto list = std::make_shared<List>();
  const int64_t parts = constant_count(x.dim(dim), x);
  for (int64_t i = 0; i < parts; ++i) list->items.emplace_back(selected(call, self, dim, Dim(i)));
  call.returns(std::vector<Item>{Item(std::move(list))});
}

// Joined along `dim` after promotion; torch skips tensors of shape [0], whatever the others' rank.
Value concat(Call& call, std::vector<Value> parts, int64_t dim) {
  if (parts.empty()) call.refuse("tensors", "is empty");
  DType dtype = parts[0].dtype();
  int rank = parts[0].rank();
  for (const Value& part : parts) {
    dtype = promote(dtype, part.dtype());
    rank = std::max(rank, part.rank());
  }
  std::vector<Value> kept;
  for (const Value& part : parts)
    if (part.rank() == rank || part.shape() != Shape{Dim(0)}) kept.push_back(cast(part, dtype));
  if (kept.empty()) kept.push_back(cast(parts[0], dtype));
  const int axis = checked_axis(call, "dim", dim, rank);
  return kept.size() == 1 ? kept[0] : call.graph().call("concat", kept, {{"dim", Dim(axis)}});
}

void cat(Call& call) { call.returns(concat(call, call.tensors("tensors"), call.number("dim", 0))); }

void stack(Call& call) {
  std::vector<Value> parts = call.tensors("tensors");
  const int rank = parts.empty() ? 0 : parts[0].rank();
  for (const Value& part : parts)
    if (part.rank() != rank) call.refuse("tensors", "have different ranks");
  if (parts.empty()) call.refuse("tensors", "is empty");
  const int axis = checked_axis(call, "dim", call.number("dim", 0), rank + 1);
  for (Value& part : parts) {
    Shape shape = part.shape();
    shape.insert(shape.begin() + axis, Dim(1));
    part = reshape(part, shape);
  }
  call.returns(concat(call, parts, axis));
}

// hstack, vstack, dstack, column_stack: at least so many dims first.
void join_along(Call& call, int rank, int dim, bool columns = false) {
  std::vector<Value> parts = call.tensors("tensors");
  for (Value& part : parts) {
    Shape shape = part.shape();
    if (columns && shape.size() <= 1) {
      shape = {count(shape), Dim(1)};
    } else if (rank == 3 && shape.size() < 3) {
      if (shape.empty()) shape = {Dim(1)};
      if (shape.size() == 1) shape.insert(shape.begin(), Dim(1));
      shape.push_back(Dim(1));
    } else {
      while (static_cast<int>(shape.size()) < rank) shape.insert(shape.begin(), Dim(1));
    }
    part = reshape(part, shape);
  }
  const bool flat = !parts.empty() && parts[0].rank() == 1;
  call.returns(concat(call, parts, flat ? 0 : dim));
}

// src written into a part of self.
void slice_scatter(Call& call) {
  const Value x = call.tensor("self");
  const int dim = axis_of(call, x);
  const Dim size = x.dim(dim), start = bound(call.integer("start", 0), size);
  call.returns(call.graph().call("slice_scatter", {x, cast(call.tensor("src"), x.dtype())},
                                 {{"dim", Dim(dim)},
                                  {"start", start},
                                  {"end", max(bound(call.integer("end", size), size), start)},
                                  {"step", call.integer("step", 1)}}));
}

void select_scatter(Call& call) {
  const Value x = call.tensor("self");
  const int dim = axis_of(call, x);
  Dim index = call.integer("index");
  if (index.upper_bound() < 0) index = index + x.dim(dim);
  Value src = cast(call.tensor("src"), x.dtype());
  Shape shape = src.shape();
  shape.insert(shape.begin() + dim, Dim(1));
  call.returns(call.graph().call(
      "slice_scatter", {x, reshape(src, shape)},
      {{"dim", Dim(dim)}, {"start", index}, {"end", index + Dim(1)}, {"step", Dim(1)}}));
}

void diagonal_scatter(Call& call) {
  const Value x = call.tensor("self");
  call.returns(call.graph().call("diagonal_scatter", {x, cast(call.tensor("src"), x.dtype())},
                                 {{"offset", call.integer("offset", 0)},
                                  {"dim1", Dim(axis_of(call, x, "dim1", 0))},
                                  {"dim2", Dim(axis_of(call, x, "dim2", 1))}}));
}

constexpr Row kRows[] = {
    {"aten::slice", slice_row},
    {"aten::select", select},
    {"aten::narrow", narrow},
    {"aten::split", split},
    {"aten::unsafe_split", split},
    {"aten::split_with_sizes", split},
    {"aten::unsafe_split_with_sizes", split},
    {"aten::chunk", chunk},
    {"aten::unsafe_chunk", chunk},
    {"aten::tensor_split", tensor_split},
    {"aten::hsplit", split_along<1>},
    {"aten::vsplit", split_along<0>},
    {"aten::dsplit", split_along<2>},
    {"aten::unbind", unbind},
    {"aten::cat", cat},
    {"aten::concat", cat},
    {"aten::concatenate", cat},
    {"aten::stack", stack},
    {"aten::hstack", [](Call& call) { join_along(call, 1, 1); }},
    {"aten::vstack", [](Call& call) { join_along(call, 2, 0); }},
    {"aten::row_stack", [](Call& call) { join_along(call, 2, 0); }},
    {"aten::dstack", [](Call& call) { join_along(call, 3, 2); }},
    {"aten::column_stack", [](Call& call) { join_along(call, 2, 1, true); }},
    {"aten::slice_scatter", slice_scatter},
    {"aten::select_scatter", select_scatter},
    {"aten::diagonal_scatter", diagonal_scatter},
};

}  // namespace

std::span<const Row> slice() { return kRows; }

}  // namespace hg::convert::rows
