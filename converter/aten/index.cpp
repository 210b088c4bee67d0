// SPDX-License-Identifier: Apache-2.0
// Reads by index. Advanced indexing moves the indexed dims to the front for the op, and then moves
// the dims of the indices to their place in torch's result.
#include <algorithm>
#include <limits>

#include "converter/aten/indexing.h"
#include "converter/aten/pointwise.h"
#include "converter/containers/container_ops.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "hg/ops/operators.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

Value flat(const Value& x) { return reshaped(x, {count(x.shape())}); }

Value picked(const Value& x, const Indexing& i) {
  if (i.indices.empty()) return x;
  Values inputs = {i.front(x)};
  inputs.insert(inputs.end(), i.indices.begin(), i.indices.end());
  return i.placed(x.graph()->call("index", inputs));
}
Value with_put(const Value& x, const Indexing& i, const Value& values, bool accumulate) {
  Graph& g = *x.graph();
  if (i.indices.empty()) {
    const Value all = expanded(values, x.shape());
    return accumulate ? g.call("add", {x, all}) : all;
  }
  Values inputs = {i.front(x), i.unplaced(fitted(values, i.placed_shape))};
  inputs.insert(inputs.end(), i.indices.begin(), i.indices.end());
  return i.back(g.call("index_put", inputs, {{"accumulate", accumulate}}));
}

void index_row(Call& call) {
  const Value x = call.tensor("self");
  call.returns(picked(x, indexing_of(call, x)));
}

// Clamps indices into the tensor for torch's masked indexing, in which masked indices may be out of
// range.
Indexing clamped_indexing(Call& call, const Value& x) {
  Graph& g = *x.graph();
  Indexing i = indexing_of(call, x);
  for (size_t k = 0; k < i.indices.size(); ++k) {
    const Dim size = x.dim(static_cast<int>(i.order[k].constant()));
    const auto number = [&](const Dim& dim) {
      return reshaped(g.call("dims", {}, {{"values", Dims{dim}}}), {});
    };
    const Value least = g.call("maximum", {i.indices[k], number(Dim(0) - size)});
    i.indices[k] = g.call("minimum", {least, number(size - 1)});
  }
  return i;
}
void masked_index(Call& call) {
  const Value x = call.tensor("self");
  const Value y = picked(x, clamped_indexing(call, x));
  const Value fill = number_as(call, "fill", y.dtype());
  call.returns(call.graph().call("where", {convert::cast(call.tensor("mask"), boolean), y, fill}));
}
void masked_index_put_accumulate(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self"), values = convert::cast(call.tensor("values"), x.dtype());
  const Value none = zeros(g, x.dtype(), {});
  const Value taken = g.call("where", {convert::cast(call.tensor("mask"), boolean), values, none});
  call.returns(with_put(x, clamped_indexing(call, x), taken, true));
}

// Returns x with `values` stored or added at the indices.
void index_put(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self"), values = convert::cast(call.tensor("values"), x.dtype());
  const bool accumulate = call.flag("accumulate", false);
  if (const Value mask = only_mask(call, x); mask && !accumulate && count(values.shape()) == Dim(1))
    return call.returns(g.call("where", {mask, reshaped(values, {}), x}));
  call.returns(with_put(x, indexing_of(call, x), values, accumulate));
}

void index_select(Call& call) {
  const Value x = call.tensor("self");
  const int dim = axis_of(call, "dim", x.rank(), 0);
  const Value y = call.graph().call(
      "index_select", {at_least_1d(x), at_least_1d(wide_index(call, "index"))}, {{"dim", dim}});
  call.returns(x.rank() == 0 ? reshaped(y, {}) : y);
}

Value gathered(Call& call, const Value& x, const Value& index, int dim) {
  Graph& g = call.graph();
  if (count(index.shape()) == Dim(0)) return zeros(g, x.dtype(), index.shape());
  const Value y = g.call("gather", {at_least_1d(x), at_least_1d(index)}, {{"dim", dim}});
  return reshaped(y, index.shape());
}

void gather(Call& call) {
  const Value x = call.tensor("self");
  call.returns(gathered(call, x, wide_index(call, "index"), axis_of(call, "dim", x.rank(), 0)));
}

// Negative indices count from the end of the dim.
Value from_start(const Value& index, const Dim& size) {
  Graph& g = *index.graph();
  const Value sizes = g.call("arange", {}, {{"start", size}, {"end", size + 1}});
  const Value counted = g.call("add", {index, reshaped(sizes, {})});
  return g.call("where", {g.call("lt", {index, g.scalar(int64_t{0}, i64)}), counted, index});
}

// The shapes broadcast, except along dim.
void take_along_dim(Call& call) {
  Value x = call.tensor("self"), index = wide_index(call, "indices");
  if (!call.has("dim")) {
    const Value at = from_start(flat(index), count(x.shape()));
    return call.returns(gathered(call, flat(x), at, 0));
  }
  if (x.rank() != index.rank()) call.refuse("indices", "differs in rank from self");
  const int dim = axis_of(call, "dim", x.rank(), 0);
  const auto widened = [&](const Value& value, const Value& other) {
    Shape shape = other.shape();
    shape[dim] = 1;
    Shape own = value.shape();
    own[dim] = 1;
    shape = broadcast_shape(call, "indices", own, shape);
    shape[dim] = value.dim(dim);
    return expanded(value, shape);
  };
  index = from_start(index, x.rank() == 0 ? Dim(1) : x.dim(dim));
  const Value wide_x = widened(x, index);
  call.returns(gathered(call, wide_x, widened(index, x), dim));
}

void take(Call& call) {
  call.returns(call.graph().call("index", {flat(call.tensor("self")), wide_index(call, "index")}));
}

void put(Call& call) {
  const Value x = call.tensor("self");
  const Value source = convert::cast(call.tensor("source"), x.dtype());
  const Value y =
      call.graph().call("index_put", {flat(x), flat(source), flat(wide_index(call, "index"))},
                        {{"accumulate", call.flag("accumulate", false)}});
  call.returns(reshaped(y, x.shape()));
}

void nonzero(Call& call) { call.returns(nonzero_of(call.tensor("self"))); }

// Returns the first `size` positions, padded with rows of fill_value.
void nonzero_static(Call& call) {
  const Value found = nonzero_of(call.tensor("self"));
  Graph& g = call.graph();
  const Dim size = call.size("size");
  const Value rest = expanded(g.scalar(call.number("fill_value", -1), i64), {size, found.dim(1)});
  const Value all = g.call("concat", {found, rest}, {{"dim", 0}});
  call.returns(reshaped(slice(all, 0, 0, size), {size, found.dim(1)}));
}

void nonzero_lists(Call& call, const Value& x) {
  call.returns_list(columns(nonzero_of(at_least_1d(x))));
}
void nonzero_numpy(Call& call) { nonzero_lists(call, call.tensor("self")); }
void where_nonzero(Call& call) { nonzero_lists(call, call.tensor("condition")); }

void masked_select(Call& call) {
  const Value x = call.tensor("self"), mask = call.tensor("mask");
  const Shape shape = broadcast_shape(call, "mask", x.shape(), mask.shape());
  Values inputs = {at_least_1d(expanded(x, shape))};
  for (const Value& column : columns(nonzero_of(at_least_1d(expanded(mask, shape)))))
    inputs.push_back(column);
  call.returns(call.graph().call("index", inputs));
}

void one_hot(Call& call) {
  const Value x = call.tensor("self");
  if (x.dtype() != i64) call.refuse("self", str_cat("is ", x.dtype(), ", but must be i64"));
  call.returns(call.graph().call("one_hot", {x}, {{"num_classes", call.size("num_classes", -1)}}));
}

void embedding(Call& call) {
  call.returns(call.graph().call("embedding", {call.tensor("weight"), wide_index(call, "indices")},
                                 {{"padding_idx", call.integer("padding_idx", -1)},
                                  {"scale_grad_by_freq", call.flag("scale_grad_by_freq", false)}}));
}

// Scales the rows selected by the indices to norm max_norm if their norm is larger. PyTorch
// computes the scale in f64.
void embedding_renorm(Call& call) {
  Graph& g = call.graph();
  const Value weight = call.tensor("self");
  const Value at = flat(wide_index(call, "indices"));
  const Value most = scalar(call, "max_norm").as(g, f64);
  const Value rows = g.call("embedding", {weight, at});
  const Value norm =
      convert::cast(call_with(g, "norm", {rows}, {{"ord", scalar(call, "norm_type")}},
                              {{"dim", Dims{1}}, {"keepdim", true}}),
                    f64);
  const DType wide = weight.dtype() == f64 ? f64 : f32;
  const Value scale = convert::cast(most / (norm + g.scalar(1e-7, f64)), wide);
  const Value scaled = convert::cast(convert::cast(rows, wide) * scale, weight.dtype());
  const Value changed = g.call("where", {g.call("gt", {norm, most}), scaled, rows});
  call.returns(g.call("index_put", {weight, changed, at}));
}

// Sums, averages or maxima over bags of rows of weight. Bag i starts at offsets[i]. An index
// belongs to the last bag that starts at or before it.
void embedding_bag(Call& call) {
  Graph& g = call.graph();
  const Value weight = call.tensor("weight"), indices = wide_index(call, "indices");
  Value offsets = wide_index(call, "offsets");
  if (indices.rank() != 1 || offsets.rank() != 1)
    call.refuse("indices", "and offsets must have one dim");
  if (call.flag("scale_grad_by_freq", false)) call.refuse("scale_grad_by_freq", "is true");
  const int64_t mode = call.number("mode", 0);
  // embedding_bag counts a negative padding_idx from the end; in _embedding_bag, -1 means none.
  int64_t padding = call.number("padding_idx", -1);
  if (call.has("padding_idx") && call.kind() == "aten::embedding_bag" && padding < 0) {
    if (!weight.dim(0).is_constant()) call.refuse("padding_idx", "is negative for an open size");
    padding += weight.dim(0).constant();
  }
  const bool padded = padding >= 0;
  // If the last offset is less than the count, torch excludes later indices from all bags when it
  // adds in place. Otherwise (f64, padding, maxima) they belong to the last bag.
  const bool closed = call.flag("include_last_offset", false);
  const bool in_place = mode != 2 && !padded && weight.dtype() != f64;
  if (closed && !in_place) offsets = slice(offsets, 0, 0, offsets.dim(0) - 1);
  const Dim n = indices.dim(0), bags = offsets.dim(0), width = weight.dim(1);
  const auto ones = [&](DType dtype, Shape shape) {
    return expanded(g.scalar(int64_t{1}, dtype), std::move(shape));
  };
  const auto added = [&](const Value& x, const Value& at, const Value& src) {
    return g.call("index_reduce", {x, at, src}, {{"dim", 0}, {"reduce", "add"}});
  };
  const auto bag_of_each = [&](const Value& begins) {
    const Value starts = added(zeros(g, i64, {n + 1}), begins, ones(i64, {begins.dim(0)}));
    const Value ranks = g.call("cumsum", {starts}, {{"dim", 0}});
    return g.call("sub", {slice(ranks, 0, 0, n), g.scalar(int64_t{1}, i64)});
  };
  const Value bag = bag_of_each(offsets);
  Value rows = g.call("index_select", {weight, indices}, {{"dim", 0}});  // [n, width]
  if (const Value scale = call.tensor_or_none("per_sample_weights"))
    rows = g.call("mul", {rows, reshaped(convert::cast(scale, rows.dtype()), {n, 1})});
  Value counted = ones(weight.dtype(), {n});
  Value valid;
  if (padded) {
    valid = g.call("ne", {indices, g.scalar(padding, i64)});
    counted = convert::cast(valid, weight.dtype());
    valid = reshaped(valid, {n, 1});
  }
  const auto masked = [&](double value) {
    return padded ? g.call("where", {valid, rows, g.scalar(value, rows.dtype())}) : rows;
  };
  const Value empty = zeros(g, weight.dtype(), {bags, width});
  Value y;
  if (mode == 2) {
    y = g.call("index_reduce", {empty, bag, masked(-std::numeric_limits<double>::infinity())},
               {{"dim", 0}, {"reduce", "amax"}, {"include_self", false}});
  } else {
    y = added(empty, bag, masked(0));
  }
  if (mode == 1 || (mode == 2 && padded)) {
    // torch counts these later indices in the size of the last bag, although it does not add them.
    const bool beyond = closed && in_place;
    const Dim sized = beyond ? bags - 1 : bags;
    const Value owner = beyond ? bag_of_each(slice(offsets, 0, 0, sized)) : bag;
    const Value size =
        reshaped(added(zeros(g, weight.dtype(), {sized}), owner, counted), {sized, 1});
    if (beyond) y = slice(y, 0, 0, sized);
    const Value one = g.scalar(int64_t{1}, weight.dtype());
    if (mode == 1)
      y = g.call("div", {y, g.call("maximum", {size, one})});
    else
      y = g.call("where", {g.call("ge", {size, one}), y, g.scalar(0.0, y.dtype())});
  }
  if (closed && in_place && mode == 0) y = slice(y, 0, 0, bags - 1);
  // Torch needs the other results only for its own gradient.
  call.returns({Item(call.make_tensor(y)), Item(), Item(), Item()});
}

constexpr Row kRows[] = {
    {.op = "aten::index",
     .run = index_row,
     .complex = OnComplex::parts,
     .script = {grown::by_data, lists::find, texts::find},
     .grown_list = grown::find},
    {"aten::_unsafe_index", index_row, OnComplex::parts},
    {"aten::index_put", index_put, OnComplex::parts},
    {"aten::_index_put_impl", index_put, OnComplex::parts},
    {"aten::_unsafe_index_put", index_put, OnComplex::parts},
    {"aten::_unsafe_masked_index", masked_index},
    {"aten::_unsafe_masked_index_put_accumulate", masked_index_put_accumulate},
    {"aten::index_select", index_select, OnComplex::parts, ResultLayout::row_major},
    {"aten::gather", gather, OnComplex::parts, ResultLayout::row_major},
    {"aten::take", take, OnComplex::parts, ResultLayout::kept},
    {"aten::take_along_dim", take_along_dim, OnComplex::parts},
    {"aten::put", put},
    {"aten::nonzero", nonzero},
    {"aten::argwhere", nonzero},
    {"aten::nonzero_static", nonzero_static},
    {"aten::nonzero_numpy", nonzero_numpy},
    {"aten::where", where_nonzero, OnComplex::parts, ResultLayout::elementwise},
    {"aten::masked_select", masked_select, OnComplex::parts, ResultLayout::kept},
    {.op = "aten::one_hot", .run = one_hot, .layout = ResultLayout::row_major},
    {.op = "aten::embedding", .run = embedding, .layout = ResultLayout::row_major},
    {.op = "aten::embedding_renorm", .run = embedding_renorm, .layout = ResultLayout::kept},
    {.op = "aten::embedding_bag",
     .run = embedding_bag,
     .numbers = {{{"offsets", DrawnNumbers::offsets}}}},
    {.op = "aten::_embedding_bag",
     .run = embedding_bag,
     .numbers = {{{"offsets", DrawnNumbers::offsets}}}},
    {"aten::_embedding_bag_forward_only", embedding_bag},
};

}  // namespace

std::span<const Row> index() { return kRows; }

}  // namespace hg::convert::rows
