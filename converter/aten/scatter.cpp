// SPDX-License-Identifier: Apache-2.0
// Writes and accumulation at indices, and masked fills.

#include "converter/aten/indexing.h"
#include "converter/core/cast.h"
#include "converter/rows/view.h"

namespace hg::convert::rows {
namespace {

// Converts torch's name of a reduction to the op's.
std::string reduction(const Call& call, std::string_view name) {
  if (name == "sum" || name == "add") return "add";
  if (name == "multiply" || name == "prod") return "prod";
  if (name == "mean" || name == "amax" || name == "amin") return std::string(name);
  call.refuse("reduce", str_cat("is '", name, "'"));
}

Value scattered(Call& call, const Value& x, const Value& index, const Value& src,
                const std::string& reduce, bool include_self) {
  if (count(index.shape()) == Dim(0)) return x;
  const int dim = axis_of(call, "dim", x.rank(), 0);
  const Value y = call.graph().call(
      "scatter", {at_least_1d(x), at_least_1d(index), at_least_1d(convert::cast(src, x.dtype()))},
      {{"dim", dim}, {"reduce", reduce}, {"include_self", include_self}});
  return reshaped(y, x.shape());
}

// scatter: the argument is `src` or `value`, optionally with `reduce`.
void scatter(Call& call) {
  const Value x = call.tensor("self"), index = wide_index(call, "index");
  const std::string reduce = call.has("reduce") ? reduction(call, call.string("reduce")) : "none";
  const Value src = call.find("src") != nullptr
                        ? call.tensor("src")
                        : expanded(call.tensor_or_number("value", x.dtype()), index.shape());
  call.returns(scattered(call, x, index, src, reduce, true));
}

void scatter_add(Call& call) {
  const Value x = call.tensor("self");
  call.returns(scattered(call, x, wide_index(call, "index"), call.tensor("src"), "add", true));
}

void scatter_reduce(Call& call) {
  const Value x = call.tensor("self");
  call.returns(scattered(call, x, wide_index(call, "index"), call.tensor("src"),
                         reduction(call, call.string("reduce")), call.flag("include_self", true)));
}

Value reduced(Call& call, const Value& x, const Value& src, const std::string& reduce,
              bool include_self) {
  const int dim = axis_of(call, "dim", x.rank(), 0);
  const Value index = wide_index(call, "index");
  if (index.rank() > 1) call.refuse("index", "must have one dim");
  const Value wide = at_least_1d(x);
  Value from = convert::cast(src, x.dtype());
  Shape shape = wide.shape();  // of src; without dims, one element
  shape[dim] = count(index.shape());
  if (from.rank() == 0) from = reshaped(from, Shape(shape.size(), Dim(1)));
  if (from.rank() != wide.rank())
    call.refuse("source", str_cat("is ", from.shape(), ", but the tensor is ", x.shape()));
  const Value y =
      call.graph().call("index_reduce", {wide, at_least_1d(index), from},
                        {{"dim", dim}, {"reduce", reduce}, {"include_self", include_self}});
  return reshaped(y, x.shape());
}

void index_add(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  Value source = call.tensor("source");
  if (call.has("alpha") && !(call.find("alpha")->is_int() && call.integer("alpha") == Dim(1))) {
    if (x.dtype() == boolean)
      source = g.call("logical_and", {source, call.tensor_or_number("alpha", boolean)});
    else
      source = g.call("mul", {source, call.tensor_or_number("alpha", source.dtype())});
  }
  call.returns(reduced(call, x, source, "add", true));
}

void index_copy(Call& call) {
  call.returns(reduced(call, call.tensor("self"), call.tensor("source"), "none", true));
}

void index_reduce(Call& call) {
  call.returns(reduced(call, call.tensor("self"), call.tensor("source"),
                       reduction(call, call.string("reduce")), call.flag("include_self", true)));
}

// Selects with a mask of indexed positions, so that the gradient of value counts each position
// once. Negative positions count from the end.
void index_fill(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  const Value value = call.tensor_or_number("value", x.dtype());
  if (value.rank() != 0) call.refuse("value", "must be one number");
  const int dim = axis_of(call, "dim", x.rank(), 0);
  Shape shape(x.rank(), Dim(1));
  const Dim size = x.rank() == 0 ? Dim(1) : x.dim(dim);
  if (!shape.empty()) shape[dim] = size;
  Value index = at_least_1d(wide_index(call, "index"));
  const Value length =
      reshaped(g.call("arange", {}, {{"start", size}, {"end", size + 1}}), Shape{});
  const Value is_negative = g.call("lt", {index, g.scalar(int64_t{0}, i64)});
  index = g.call("where", {is_negative, g.call("add", {index, length}), index});
  const auto all = [&](int64_t bit, const Dim& n) { return expanded(g.scalar(bit, boolean), {n}); };
  const Value marks = g.call("index_reduce", {all(0, size), index, all(1, index.dim(0))},
                             {{"dim", 0}, {"reduce", "none"}});
  call.returns(g.call("where", {reshaped(marks, shape), value, x}));
}

// Fills the elements whose indices are equal. With `wrap`, the diagonal of a tall matrix starts
// again one row below its end.
void fill_diagonal(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self");
  if (x.rank() < 2) call.refuse("self", "has fewer than two dims");
  const Value value = call.tensor_or_number("fill_value", x.dtype());
  const auto places = [&](int d) {
    Shape shape(x.rank(), Dim(1));
    shape[d] = x.dim(d);
    return reshaped(g.call("arange", {}, {{"start", 0}, {"end", x.dim(d)}}), shape);
  };
  Value marks;
  if (x.rank() == 2 && call.flag("wrap", false)) {
    const Value columns = convert::size_value(g, x.dim(1));
    const Value flat = g.call("add", {g.call("mul", {places(0), columns}), places(1)});
    const Value next = g.call("add", {columns, g.scalar(int64_t{1}, i64)});
    marks = g.call("eq", {g.call("remainder", {flat, next}), g.scalar(int64_t{0}, i64)});
  } else {
    marks = g.call("eq", {places(0), places(1)});
    for (int d = 2; d < x.rank(); ++d)
      marks = g.call("logical_and", {marks, g.call("eq", {places(0), places(d)})});
  }
  call.returns(g.call("where", {marks, value, x}));
}

void masked_fill(Call& call) {
  const Value x = call.tensor("self");
  const Value value = call.tensor_or_number("value", x.dtype());
  if (value.rank() != 0) call.refuse("value", "must be one number");
  call.returns(call.graph().call("where", {convert::cast(call.tensor("mask"), boolean), value, x}));
}

void masked_scatter(Call& call) {
  const Value x = call.tensor("self"), mask = convert::cast(call.tensor("mask"), boolean);
  const Shape shape = broadcast_shape(call, "mask", x.shape(), mask.shape());
  call.returns(
      call.graph().call("masked_scatter", {expanded(x, shape), expanded(mask, shape),
                                           convert::cast(call.tensor("source"), x.dtype())}));
}

constexpr Row kRows[] = {
    {.op = "aten::scatter", .run = scatter, .layout = ResultLayout::row_major},
    {"aten::scatter_add", scatter_add, OnComplex::parts, ResultLayout::row_major},
    {.op = "aten::scatter_reduce", .run = scatter_reduce, .layout = ResultLayout::row_major},
    {"aten::index_add", index_add, OnComplex::parts, ResultLayout::row_major},
    {"aten::index_copy", index_copy, OnComplex::parts, ResultLayout::row_major},
    {"aten::index_reduce", index_reduce},
    {"aten::index_fill", index_fill, OnComplex::parts},
    {"aten::fill_diagonal", fill_diagonal},
    {"aten::masked_fill", masked_fill, OnComplex::parts, ResultLayout::row_major},
    {"aten::masked_scatter", masked_scatter, OnComplex::parts},
};

}  // namespace

std::span<const Row> scatter() { return kRows; }

}  // namespace hg::convert::rows
