// SPDX-License-Identifier: Apache-2.0
// Views: tensors that share the memory of another, so that in-place ops write through them.
#include "converter/rows/view.h"

#include <algorithm>

#include "hg/op.h"

namespace hg::convert::rows {

Shape resolved_shape(const Value& x, std::vector<Dim> shape) {
  int unknown = -1;
  Dim rest = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(-1)) {
      if (unknown >= 0) throw Refusal{"two sizes of the new shape are -1", ""};
      unknown = static_cast<int>(i);
    } else {
      rest = rest * shape[i];
    }
  }
  if (unknown < 0) return shape;
  const Dim total = count(x.shape());
  if (rest == Dim(0)) {
    if (total != Dim(0))
      throw Refusal{text("a shape with sizes 0 and -1 does not fit ", x.shape()), ""};
    throw Refusal{"a shape with sizes 0 and -1 has no single meaning", ""};
  }
  shape[static_cast<size_t>(unknown)] = floordiv(total, rest);
  return shape;
}

int checked_axis(Call& call, std::string_view argument, int64_t axis, int rank) {
  const Result<int> result = normalize_axis(axis, rank);
  if (!result.ok()) call.refuse(argument, result.status().message());
  return *result;
}

Value reshape(const Value& x, Shape shape) {
  if (x.shape() == shape) return x;
  return x.graph()->call("reshape", {x}, {{"shape", std::move(shape)}});
}

Value permute(const Value& x, const std::vector<int>& dims) {
  return x.graph()->call("permute", {x}, {{"dims", std::vector<Dim>(dims.begin(), dims.end())}});
}

TensorRef reshaped(Call& call, const TensorRef& self, const Shape& shape) {
  return call.make_view(
      self, [shape](Value base) { return reshape(base, shape); },
      [](Value base, Value value) { return reshape(value, base.shape()); });
}

TensorRef permuted(Call& call, const TensorRef& self, const std::vector<int>& dims) {
  std::vector<int> inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    inverse[static_cast<size_t>(dims[i])] = static_cast<int>(i);
  return call.make_view(
      self, [dims](Value base) { return permute(base, dims); },
      [inverse](Value, Value value) { return permute(value, inverse); });
}

TensorRef sliced(Call& call, const TensorRef& self, int dim, const Dim& start, const Dim& end,
                 const Dim& step) {
  const NamedAttrs attrs = {{"dim", Dim(dim)}, {"start", start}, {"end", end}, {"step", step}};
  return call.make_view(
      self, [attrs](Value base) { return base.graph()->call("slice", {base}, attrs); },
      [attrs](Value base, Value value) {
        return base.graph()->call("slice_scatter", {base, value}, attrs);
      });
}

TensorRef selected(Call& call, const TensorRef& self, int dim, const Dim& index) {
  const TensorRef part = sliced(call, self, dim, index, index + Dim(1), 1);
  Shape shape = call.read(part).shape();
  shape.erase(shape.begin() + dim);
  return reshaped(call, part, shape);
}

namespace {

void give(Call& call, TensorRef tensor) {
  call.returns(std::vector<Item>{Item(std::move(tensor))});
}

void view_row(Call& call) {
  const TensorRef self = call.ref("self");
  if (call.has("dtype")) {  // view(dtype): the same bits
    if (call.dtype("dtype") != call.read(self).dtype())
      call.refuse("dtype", "asks for the same bits as another dtype");
    return give(call, self);
  }
  give(call, reshaped(call, self, resolved_shape(call.read(self), call.integers("size"))));
}

void reshape_row(Call& call) {
  const TensorRef self = call.ref("self");
  give(call, reshaped(call, self, resolved_shape(call.read(self), call.integers("shape"))));
}

void view_as(Call& call) {
  give(call, reshaped(call, call.ref("self"), call.tensor("other").shape()));
}

void flatten(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const int first = checked_axis(call, "start_dim", call.number("start_dim", 0), x.rank());
  const int last = checked_axis(call, "end_dim", call.number("end_dim", -1), x.rank());
  if (first > last) call.refuse("start_dim", "comes after end_dim");
  Shape shape;
  Dim joined = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i >= first && i <= last)
      joined = joined * x.dim(i);
    else
      shape.push_back(x.dim(i));
    if (i == last) shape.push_back(joined);
  }
  if (x.rank() == 0) shape.push_back(1);
  give(call, reshaped(call, self, shape));
}

void ravel(Call& call) {
  const TensorRef self = call.ref("self");
  give(call, reshaped(call, self, {count(call.read(self).shape())}));
}

void unflatten(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  const int dim = checked_axis(call, "dim", call.number("dim"), x.rank());
  const std::vector<Dim> sizes = call.integers("sizes");
  Dim rest = 1;
  int unknown = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Dim(-1))
      unknown = static_cast<int>(i);
    else
      rest = rest * sizes[i];
  }
  Shape shape(x.shape().begin(), x.shape().begin() + dim);
  for (size_t i = 0; i < sizes.size(); ++i)
    shape.push_back(static_cast<int>(i) == unknown ? floordiv(x.dim(dim), rest) : sizes[i]);
  shape.insert(shape.end(), x.shape().begin() + dim + 1, x.shape().end());
  give(call, reshaped(call, self, shape));
}

void unsqueeze(Call& call) {
  const TensorRef self = call.ref("self");
  Shape shape = call.read(self).shape();
  const int dim = checked_axis(call, "dim", call.number("dim"), static_cast<int>(shape.size()) + 1);
  shape.insert(shape.begin() + dim, Dim(1));
  give(call, reshaped(call, self, shape));
}

void squeeze(Call& call) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  std::vector<bool> wanted(static_cast<size_t>(x.rank()), !call.has("dim"));
  for (const Dim& dim : call.integers("dim")) {
    if (!dim.is_constant()) call.refuse("dim", "is not a constant");
    const int axis = checked_axis(call, "dim", dim.constant(), x.rank());
    if (x.rank() > 0) wanted[static_cast<size_t>(axis)] = true;
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (wanted[static_cast<size_t>(i)] && x.dim(i) == Dim(1)) continue;
    if (wanted[static_cast<size_t>(i)] && !x.dim(i).is_constant() && call.has("dim"))
      call.note(text("squeeze() keeps the size ", x.dim(i), ", also where it is 1"));
    shape.push_back(x.dim(i));
  }
  give(call, reshaped(call, self, shape));
}

void transpose(Call& call) {
  const TensorRef self = call.ref("self");
  const int rank = call.read(self).rank();
  const bool axes = call.find("axis0") != nullptr;
  const int a = checked_axis(call, "dim0", call.number(axes ? "axis0" : "dim0"), rank);
  const int b = checked_axis(call, "dim1", call.number(axes ? "axis1" : "dim1"), rank);
  std::vector<int> dims(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) dims[static_cast<size_t>(i)] = i == a ? b : i == b ? a : i;
  give(call, permuted(call, self, dims));
}

void permute_row(Call& call) {
  const TensorRef self = call.ref("self");
  const int rank = call.read(self).rank();
  std::vector<int> dims;
  for (const Dim& dim : call.integers("dims"))
    dims.push_back(checked_axis(call, "dims", dim.constant(), rank));
  give(call, permuted(call, self, dims));
}

void movedim(Call& call) {
  const TensorRef self = call.ref("self");
  const int rank = call.read(self).rank();
  const std::vector<Dim> from = call.integers("source");
  const std::vector<Dim> to = call.integers("destination");
  if (from.size() != to.size()) call.refuse("destination", "has another length than source");
  std::vector<int> dims(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const int source = checked_axis(call, "source", from[i].constant(), rank);
    dims[static_cast<size_t>(checked_axis(call, "destination", to[i].constant(), rank))] = source;
    moved[static_cast<size_t>(source)] = true;
  }
  int next = 0;
  for (int& dim : dims) {
    if (dim >= 0) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    dim = next++;
  }
  give(call, permuted(call, self, dims));
}

void reversed(Call& call) {  // T, numpy_T
  const TensorRef self = call.ref("self");
  const int rank = call.read(self).rank();
  std::vector<int> dims(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) dims[static_cast<size_t>(i)] = rank - 1 - i;
  give(call, permuted(call, self, dims));
}

void last_two(Call& call) {  // mT, mH
  const TensorRef self = call.ref("self");
  const int rank = call.read(self).rank();
  if (rank < 2) call.refuse("self", text("has rank ", rank, ", but needs at least 2"));
  std::vector<int> dims(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) dims[static_cast<size_t>(i)] = i;
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  give(call, permuted(call, self, dims));
}

void expand_to(Call& call, const TensorRef& self, Shape shape) {
  const Value x = call.read(self);
  const size_t added = shape.size() - std::min(shape.size(), x.shape().size());
  if (shape.size() < x.shape().size())
    throw Refusal{text("a tensor of shape ", x.shape(), " is expanded to the lower rank ",
                       static_cast<int64_t>(shape.size())),
                  ""};
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == Dim(-1)) {
      if (i < added) throw Refusal{"a new dimension is expanded to -1", ""};
      shape[i] = x.shape()[i - added];
    }
  if (shape == x.shape()) return give(call, self);
  give(call, call.make_view(
                 self,
                 [shape](Value base) {
                   return base.graph()->call("expand", {base}, {{"shape", shape}});
                 },
                 nullptr));
}

void expand(Call& call) { expand_to(call, call.ref("self"), call.integers("size")); }
void expand_as(Call& call) { expand_to(call, call.ref("self"), call.tensor("other").shape()); }

void broadcast_tensors(Call& call) {
  std::vector<Value> values = call.tensors("tensors");
  Shape shape;
  for (const Value& value : values) {
    const Result<Shape> wider = broadcast(shape, value.shape());
    if (!wider.ok()) call.refuse("tensors", wider.status().message());
    shape = *wider;
  }
  for (Value& value : values)
    if (value.shape() != shape) value = call.graph().call("expand", {value}, {{"shape", shape}});
  call.returns_list(values);
}

void diagonal(Call& call) {
  const bool linalg = call.find("A") != nullptr;
  const TensorRef self = call.ref(linalg ? "A" : "self");
  const int rank = call.read(self).rank();
  const NamedAttrs attrs = {
      {"offset", call.integer("offset", 0)},
      {"dim1", Dim(checked_axis(call, "dim1", call.number("dim1", linalg ? -2 : 0), rank))},
      {"dim2", Dim(checked_axis(call, "dim2", call.number("dim2", linalg ? -1 : 1), rank))}};
  give(call,
       call.make_view(
           self, [attrs](Value base) { return base.graph()->call("diagonal", {base}, attrs); },
           [attrs](Value base, Value value) {
             return base.graph()->call("diagonal_scatter", {base, value}, attrs);
           }));
}

void unfold(Call& call) {
  const TensorRef self = call.ref("self");
  const int rank = call.read(self).rank();
  const NamedAttrs attrs = {
      {"dim", Dim(checked_axis(call, "dimension", call.number("dimension"), rank))},
      {"size", call.integer("size")},
      {"step", call.integer("step")}};
  give(call, call.make_view(
                 self, [attrs](Value base) { return base.graph()->call("unfold", {base}, attrs); },
                 nullptr));
}

void atleast(Call& call, int rank) {
  const auto widen = [&](const TensorRef& self) {
    Shape shape = call.read(self).shape();
    const size_t had = shape.size();
    if (static_cast<int>(had) >= rank) return self;
    if (rank == 3 && had == 2)
      shape.push_back(1);
    else if (rank == 3 && had == 1)
      shape = {Dim(1), shape[0], Dim(1)};
    else
      while (static_cast<int>(shape.size()) < rank) shape.insert(shape.begin(), Dim(1));
    return reshaped(call, self, shape);
  };
  if (!call.find("tensors")) return give(call, widen(call.ref("self")));
  auto list = std::make_shared<List>();
  for (const Value& value : call.tensors("tensors"))
    list->items.emplace_back(widen(call.make_tensor(value)));
  call.returns(std::vector<Item>{Item(std::move(list))});
}

constexpr Row kRows[] = {
    {"aten::view", view_row},
    {"aten::_unsafe_view", view_row},
    {"aten::reshape", reshape_row},
    {"aten::_reshape_alias", view_row},
    {"aten::view_as", view_as},
    {"aten::reshape_as", view_as},
    {"aten::flatten", flatten},
    {"aten::ravel", ravel},
    {"aten::unflatten", unflatten},
    {"aten::unsqueeze", unsqueeze},
    {"aten::squeeze", squeeze},
    {"aten::transpose", transpose},
    {"aten::swapaxes", transpose},
    {"aten::swapdims", transpose},
    {"aten::permute", permute_row},
    {"aten::movedim", movedim},
    {"aten::moveaxis", movedim},
    {"aten::t", reversed},
    {"aten::numpy_T", reversed},
    {"aten::matrix_H", last_two},
    {"aten::mT", last_two},
    {"aten::mH", last_two},
    {"aten::adjoint", last_two},
    {"aten::expand", expand},
    {"aten::broadcast_to", expand},
    {"aten::expand_as", expand_as},
    {"aten::broadcast_tensors", broadcast_tensors},
    {"aten::diagonal", diagonal},
    {"aten::linalg_diagonal", diagonal},
    {"aten::unfold", unfold},
    {"aten::atleast_1d", [](Call& call) { atleast(call, 1); }},
    {"aten::atleast_2d", [](Call& call) { atleast(call, 2); }},
    {"aten::atleast_3d", [](Call& call) { atleast(call, 3); }},
};

}  // namespace

std::span<const Row> view() { return kRows; }

}  // namespace hg::convert::rows
