// SPDX-License-Identifier: Apache-2.0
// Views that keep all elements: reshapes, permutations, expansions. As in torch, `reshape` is a
// view if the layout allows it, and a copy otherwise.
#include <algorithm>
#include <numeric>

#include "converter/aten/complex.h"
#include "converter/core/scalar.h"
#include "converter/rows/view.h"
#include "converter/script/fold.h"

namespace hg::convert::rows {
namespace {

Shape shape_of(Call& call) { return call.tensor("self").shape(); }

void to_shape(Call& call, Shape shape) { give_view(call, reshape_view(std::move(shape))); }

// Shares memory if the layout allows it.
void to_shape_or_copy(Call& call, Shape shape) {
  std::optional<bool> shares;
  if (can_always_view(shape_of(call), shape))
    shares = true;
  else if (const auto layout = call.layout(call.ref("self")))
    shares = can_view(*layout, shape_of(call), shape);
  give_shared(call, reshape_view(std::move(shape)), shares);
}

Shape given_shape(Call& call, std::string_view argument, const Dim& total) {
  return resolved_shape(call, argument, call.shape(argument, total), total);
}

void reshape_row(Call& call) {
  to_shape_or_copy(call, given_shape(call, "shape", count(shape_of(call))));
}

// A view with another shape. PyTorch rejects it if the strides do not allow it.
void to_view(Call& call, Shape shape) {
  if (const auto layout = call.layout(call.ref("self"))) {
    const Scalar can = can_view_at(*layout, shape_of(call), shape);
    Graph& graph = call.graph();
    if (!can.is_constant())
      guard(graph, can, "view");
    else if (can.as_double() == 0)
      graph.call("assert_true", {graph.scalar(int64_t{0}, boolean)},
                 {{"message", "view() is asked for a tensor whose strides do not allow it"}});
  } else if (call.order(call.ref("self")) == MemoryOrder::scattered &&
             !can_always_view(shape_of(call), shape)) {
    throw Refusal{
        "data decides how the tensor lies in memory, and so whether view() raises an "
        "exception",
        "use reshape"};
  }
  to_shape(call, std::move(shape));
}

// view: the argument is `size` or `shape`
void view(Call& call) {
  if (call.overload() == "dtype") {
    if (call.dtype("dtype") != call.tensor("self").dtype())
      call.refuse("dtype", "asks for the bits of the elements as another dtype");
    return to_shape(call, shape_of(call));
  }
  const std::string_view name = call.find("shape") != nullptr ? "shape" : "size";
  to_view(call, given_shape(call, name, count(shape_of(call))));
}

void reshape_as(Call& call) { to_shape_or_copy(call, call.tensor("other").shape()); }
void view_as(Call& call) { to_view(call, call.tensor("other").shape()); }

Shape flattened(const Shape& shape, int first, int last) {
  if (shape.empty()) return {1};
  Shape flat(shape.begin(), shape.begin() + first);
  flat.push_back(count(Shape(shape.begin() + first, shape.begin() + last + 1)));
  flat.insert(flat.end(), shape.begin() + last + 1, shape.end());
  return flat;
}

void flatten(Call& call) {
  const Shape shape = shape_of(call);
  const int rank = static_cast<int>(shape.size());
  const int first = axis_of(call, "start_dim", rank, 0), last = axis_of(call, "end_dim", rank, -1);
  if (first > last) call.refuse("start_dim", "comes after end_dim");
  to_shape_or_copy(call, flattened(shape, first, last));
}

// contiguous().view(-1)
void ravel(Call& call) {
  const auto layout = call.layout(call.ref("self"));
  const auto shares = layout ? is_row_major(*layout, shape_of(call)) : std::nullopt;
  give_shared(call, reshape_view({count(shape_of(call))}), shares);
}

void contiguous(Call& call) {
  const TensorRef self = call.ref("self");
  if (call.integer("memory_format", 0) != Dim(0)) {  // self if its layout fits
    const TensorRef copy = call.make_tensor(call.graph().call("contiguous", {call.tensor("self")}));
    call.may_share(copy, self);
    return call.returns(std::vector<Item>{Item(copy)});
  }
  const auto layout = call.layout(self);
  const auto shares = layout ? is_row_major(*layout, shape_of(call)) : std::nullopt;
  if (shares == true) return call.returns(std::vector<Item>{Item(self)});
  give_shared(call, reshape_view(shape_of(call)), shares);
}

// Another tensor with the same memory.
void alias(Call& call) { to_shape(call, shape_of(call)); }

// Another tensor with the same memory but without gradients.
void detach(Call& call) {
  if (!is_float(call.tensor("self").dtype())) return alias(call);
  give_view(call, detach_view());
}

void unflatten(Call& call) {
  const Shape shape = shape_of(call);
  const int dim = axis_of(call, "dim", static_cast<int>(shape.size()), 0);
  const Shape sizes = given_shape(call, "sizes", shape.empty() ? Dim(1) : shape[dim]);
  Shape result(shape.begin(), shape.begin() + dim);
  result.insert(result.end(), sizes.begin(), sizes.end());
  if (!shape.empty()) result.insert(result.end(), shape.begin() + dim + 1, shape.end());
  to_view(call, result);
}

void squeeze(Call& call) {
  const Shape shape = shape_of(call);
  const auto axes = axes_of(call, "dim", static_cast<int>(shape.size()));
  const bool expects_one = call.has("dim");  // a program that names a dim expects it to be 1
  Shape rest;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int>(d)) != axes.end();
    if (named && call.is_one(shape[d], "squeeze", expects_one)) continue;
    rest.push_back(shape[d]);
  }
  to_shape(call, rest);
}

void unsqueeze(Call& call) {
  Shape shape = shape_of(call);
  const int dim = axis_of(call, "dim", static_cast<int>(shape.size()) + 1, 0);
  shape.insert(shape.begin() + dim, Dim(1));
  to_shape(call, shape);
}

template <int kRank>
void atleast(Call& call) {
  if (call.find("tensors") == nullptr) return to_shape(call, at_least(shape_of(call), kRank));
  const Item& given = *call.find("tensors");
  auto list = std::make_shared<List>();
  if (!given.is_list()) call.refuse("tensors", "is not a list");
  for (const Item& item : std::get<std::shared_ptr<List>>(given.value)->items) {
    if (!item.is_tensor()) call.refuse("tensors", "holds something else than tensors");
    const TensorRef& base = std::get<TensorRef>(item.value);
    list->items.push_back(
        view_of(call, base, reshape_view(at_least(call.read(base).shape(), kRank))));
  }
  call.returns({Item(std::move(list))});
}

Dims in_order(int rank) {
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.emplace_back(i);
  return dims;
}

void permute_row(Call& call) {
  const int rank = call.tensor("self").rank();
  Dims dims;
  for (int axis : axes_of(call, "dims", rank)) dims.emplace_back(axis);
  if (static_cast<int>(dims.size()) != rank)
    call.refuse("dims", str_cat("has ", int64_t(dims.size()), " entries for rank ", rank));
  give_view(call, permute_view(dims));
}

void swap_dims(Call& call, int rank, int a, int b) {
  Dims dims = in_order(rank);
  if (rank > 0) std::swap(dims[a], dims[b]);
  give_view(call, permute_view(dims));
}

void transpose(Call& call) {
  const int rank = call.tensor("self").rank();
  const bool axes = call.find("axis0") != nullptr;
  swap_dims(call, rank, axis_of(call, axes ? "axis0" : "dim0", rank, 0),
            axis_of(call, axes ? "axis1" : "dim1", rank, 0));
}

void t(Call& call) {
  const int rank = call.tensor("self").rank();
  if (rank > 2) call.refuse("self", str_cat("has rank ", rank, ", t() takes 2 dims at most"));
  swap_dims(call, rank, 0, rank == 2 ? 1 : 0);
}

void swap_last(Call& call) {
  const int rank = call.tensor("self").rank();
  if (rank < 2) call.refuse("self", str_cat("has rank ", rank, ", but needs two dims"));
  swap_dims(call, rank, rank - 2, rank - 1);
}

void reverse(Call& call) {
  Dims dims = in_order(call.tensor("self").rank());
  std::reverse(dims.begin(), dims.end());
  give_view(call, permute_view(dims));
}

void movedim(Call& call) {
  const int rank = call.tensor("self").rank();
  const auto from = axes_of(call, "source", rank), to = axes_of(call, "destination", rank);
  if (from.size() != to.size()) call.refuse("destination", "differs in length from source");
  std::vector<int> order(rank, -1), rest;
  for (size_t i = 0; i < from.size(); ++i) {
    if (rank > 0) order[to[i]] = from[i];
  }
  for (int d = 0; d < rank; ++d)
    if (std::find(from.begin(), from.end(), d) == from.end()) rest.push_back(d);
  Dims dims;
  size_t next = 0;
  for (int d : order) dims.emplace_back(d >= 0 ? d : rest[next++]);
  give_view(call, permute_view(dims));
}

// A size of -1 keeps the dim.
void expand_row(Call& call) {
  const Shape shape = shape_of(call);
  // -1 keeps a size of the tensor.
  const auto kept = [&](size_t place, const std::vector<Value>& sizes) {
    const size_t added = sizes.size() - std::min(sizes.size(), shape.size());
    const Dim size = place < added ? Dim(-1) : shape[place - added];
    Graph& g = call.graph();
    return g.call("reshape", {g.call("dims", {}, {{"values", Dims{size}}})}, {{"shape", Dims()}});
  };
  Shape size = call.is_of_data("size") ? call.sizes_or("size", kept) : call.sizes("size");
  if (size.size() < shape.size())
    call.refuse("size", str_cat("has fewer dims than the tensor, which is ", shape));
  const size_t added = size.size() - shape.size();
  for (size_t d = 0; d < size.size(); ++d) {
    if (!(size[d] == Dim(-1))) continue;
    if (d < added) call.refuse("size", "has a -1 for a new dim");
    size[d] = shape[d - added];
  }
  give_view(call, expand_view(size));
}

void expand_as(Call& call) { give_view(call, expand_view(call.tensor("other").shape())); }

const std::vector<Item>& listed(const Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  if (item == nullptr || !item->is_list()) call.refuse(argument, "is not a list of tensors");
  const auto& items = std::get<std::shared_ptr<List>>(item->value)->items;
  for (const Item& one : items)
    if (!one.is_tensor()) call.refuse(argument, "holds something else than tensors");
  return items;
}

void broadcast_tensors(Call& call) {
  const std::vector<Item>& items = listed(call, "tensors");
  Shape shape;
  for (const Value& value : call.tensors("tensors"))
    shape = broadcast_shape(call, "tensors", shape, value.shape());
  auto list = std::make_shared<List>();
  for (const Item& item : items)
    list->items.push_back(view_of(call, std::get<TensorRef>(item.value), expand_view(shape)));
  call.returns({Item(std::move(list))});
}

// indexing "ij": tensor k varies along dim k. "xy": the first two dims are swapped.
void meshgrid(Call& call) {
  const std::string indexing = call.string("indexing", "ij");
  if (indexing != "ij" && indexing != "xy") call.refuse("indexing", "is neither 'ij' nor 'xy'");
  const std::vector<Item>& items = listed(call, "tensors");
  const std::vector<Value> values = call.tensors("tensors");
  const size_t rank = values.size();
  std::vector<size_t> place(rank);
  std::iota(place.begin(), place.end(), size_t{0});
  if (indexing == "xy" && rank >= 2) std::swap(place[0], place[1]);
  Shape shape(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (values[i].rank() > 1) call.refuse("tensors", "holds a tensor of more than one dim");
    shape[place[i]] = count(values[i].shape());
  }
  auto list = std::make_shared<List>();
  for (size_t i = 0; i < rank; ++i) {
    Shape along(rank, Dim(1));
    along[place[i]] = shape[place[i]];
    list->items.push_back(view_of(call, std::get<TensorRef>(items[i].value),
                                  then(reshape_view(along), expand_view(shape))));
  }
  call.returns({Item(std::move(list))});
}

void diagonal(Call& call) {
  const int rank = call.tensor("self").rank();
  give_view(call, diagonal_view(diagonal_offset(call, "offset"), axis_of(call, "dim1", rank, 0),
                                axis_of(call, "dim2", rank, 1)));
}

void linalg_diagonal(Call& call) {
  const int rank = call.tensor("A").rank();
  give_view(call,
            diagonal_view(diagonal_offset(call, "offset"), axis_of(call, "dim1", rank, -2),
                          axis_of(call, "dim2", rank, -1)),
            "A");
}

void unfold(Call& call) {
  const Shape shape = call.tensor("self").shape();
  const int dim = axis_of(call, "dimension", static_cast<int>(shape.size()), 0);
  const Dim size = call.size("size"), step = call.size("step");
  // The guard is needed even if the windows are unused.
  call.graph().guard(size, Relation::le, shape.empty() ? Dim(1) : shape[dim], "unfold");
  give_view(call, {[=](Value base) {
                     return base.graph()->call("unfold", {base},
                                               {{"dim", dim}, {"size", size}, {"step", step}});
                   },
                   [](Value, Value) -> Value {
                     throw Refusal{"a write through unfold()", "use clone() before the write"};
                   },
                   [=](const Layout& base, const Shape&) {
                     Layout layout = base;
                     if (layout.strides.empty()) return std::optional(Layout{{1}, base.offset});
                     const Dim stride = layout.strides[dim];
                     layout.strides[dim] = stride * step;
                     layout.strides.push_back(stride);
                     return std::optional(layout);
                   }});
}

NamedAttrs strided_attrs(Call& call) {
  return {{"size", call.sizes("size")},
          {"stride", call.sizes("stride")},
          {"storage_offset", call.size("storage_offset", 0)}};
}

// Returns the order of dims from outermost to innermost in memory. Returns nothing if it is
// unknown, or if the tensor has gaps or an offset.
std::optional<Dims> order_in_memory(const Layout& layout, const Shape& shape) {
  if (layout.offset != Dim(0) || shape.size() > 6) return std::nullopt;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    Layout permuted;
    Shape sizes;
    for (const size_t d : order) {
      permuted.strides.push_back(layout.strides[d]);
      sizes.push_back(shape[d]);
    }
    if (is_row_major(permuted, sizes) == true) {
      Dims dims;
      for (const size_t d : order) dims.emplace_back(static_cast<int64_t>(d));
      return dims;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

void as_strided(Call& call) {
  const NamedAttrs attrs = strided_attrs(call);
  // The op counts elements of its input, torch those of the memory of `self`.
  const auto layout = call.layout(call.ref("self"));
  const auto order = layout ? order_in_memory(*layout, shape_of(call)) : std::nullopt;
  if (!order) call.refuse("self", "does not fill its memory from the start");
  const View memory = permute_view(*order);
  give_view(
      call,
      {[=](Value base) { return base.graph()->call("as_strided", {memory.forward(base)}, attrs); },
       [=](Value base, Value value) {
         const Value all = memory.forward(base);
         return memory.inverse(base, base.graph()->call("as_strided_scatter", {all, value}, attrs));
       },
       [=, strides = call.sizes("stride"), offset = call.size("storage_offset", 0)](const Layout&,
                                                                                    const Shape&) {
         return std::optional(Layout{strides, offset});
       }});
}

constexpr SharedTraits kShared = {.complex = OnComplex::parts};
constexpr Row kRows[] = {
    {.op = "aten::view", .run = view, .fold = {fold::reshape}},
    {"aten::view_copy", view},
    {.op = "aten::reshape",
     .run = reshape_row,
     .layout = ResultLayout::copied,
     .fold = {fold::reshape}},
    {.op = "aten::contiguous",
     .run = contiguous,
     .layout = ResultLayout::row_major,
     .fold = {fold::pass}},
    {.op = "aten::detach", .run = detach, .fold = {fold::pass}},
    {.op = "aten::alias", .run = alias, .fold = {fold::pass}},
    {"aten::_reshape_alias", view},
    {"aten::_unsafe_view", view},
    {"aten::_reshape_copy", view},
    {"aten::view_as", view_as, OnComplex::parts_like_self},
    {"aten::reshape_as", reshape_as, OnComplex::parts_like_self, ResultLayout::copied},
    {.op = "aten::flatten",
     .run = flatten,
     .layout = ResultLayout::copied,
     .fold = {fold::reshape}},
    {.op = "aten::ravel", .run = ravel, .layout = ResultLayout::row_major, .fold = {fold::reshape}},
    {"aten::unflatten", unflatten},
    {.op = "aten::squeeze", .run = squeeze, .fold = {fold::reshape}, .reshapes_in_place = true},
    {"aten::squeeze_copy", squeeze},
    {.op = "aten::unsqueeze", .run = unsqueeze, .fold = {fold::reshape}, .reshapes_in_place = true},
    {"aten::unsqueeze_copy", unsqueeze},
    {"aten::atleast_1d", atleast<1>},
    {"aten::atleast_2d", atleast<2>},
    {"aten::atleast_3d", atleast<3>},
    {.op = "aten::permute", .run = permute_row, .numbers = {{{"dims", DrawnNumbers::order}}}},
    {.op = "aten::permute_copy", .run = permute_row, .numbers = {{{"dims", DrawnNumbers::order}}}},
    {.op = "aten::transpose", .run = transpose, .reshapes_in_place = true},
    {"aten::transpose_copy", transpose},
    {.op = "aten::swapaxes", .run = transpose, .reshapes_in_place = true},
    {.op = "aten::swapdims", .run = transpose, .reshapes_in_place = true},
    {.op = "aten::t", .run = t, .reshapes_in_place = true},
    {"aten::t_copy", t},
    {"aten::numpy_T", reverse},
    {"aten::mT", swap_last},
    {"aten::mH", swap_last, of_complex::adjoint},
    {"aten::matrix_H", t, of_complex::adjoint},
    {"aten::adjoint", swap_last, of_complex::adjoint},
    {"aten::movedim", movedim},
    {"aten::moveaxis", movedim},
    {"aten::expand", expand_row},
    {"aten::expand_copy", expand_row},
    {"aten::broadcast_to", expand_row},
    {"aten::expand_as", expand_as, OnComplex::parts_like_self},
    {"aten::broadcast_tensors", broadcast_tensors, OnComplex::refused},
    {"aten::meshgrid", meshgrid},
    {"aten::diagonal", diagonal},
    {"aten::diagonal_copy", diagonal},
    {"aten::linalg_diagonal", linalg_diagonal},
    {"aten::unfold", unfold},
    {"aten::unfold_copy", unfold},
    {.op = "aten::as_strided",
     .run = as_strided,
     .complex = OnComplex::refused,
     .reshapes_in_place = true},
    {"aten::as_strided_copy", as_strided, OnComplex::refused},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> movement() { return kTable; }

}  // namespace hg::convert::rows
