// SPDX-License-Identifier: Apache-2.0
// Histograms, and reductions over segments of rows.
#include <algorithm>
#include <limits>

#include "converter/aten/linspace.h"
#include "converter/memory/alias.h"
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"
#include "hg/ops/compare.h"
#include "hg/ops/control.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"
#include "hg/ops/search.h"

namespace hg::convert::rows {
namespace {

Value full(Graph& g, const Shape& shape, double value, DType dtype) {
  return g.call("full", {}, {{"shape", shape}, {"value", value}, {"dtype", dtype}});
}

Value number(Graph& g, const Dim& dim) {
  return reshape(g.call("dims", {}, {{"values", Shape{dim}}}), Shape{});
}

// Returns the edges of `bins` bins of equal width, over the given range or, if it is empty, over
// the range of all elements.
Value even_edges(Call& call, const Value& x, const Dim& bins, std::span<const Real> range) {
  Graph& g = call.graph();
  if (bins.is_constant() && bins.constant() < 1) call.refuse("bins", str_cat("is ", bins));
  Value low, high;
  const auto widen = [&](const Value& least, const Value& most) {  // an empty range is widened
    const Value half = convert::cast(eq(least, most), x.dtype()) * 0.5;
    low = least - half;
    high = most + half;
  };
  if (!range.empty()) {
    if (range[0].is_known() && range[1].is_known()) {
      const double from = range[0].known(), to = range[1].known();
      if (!(from <= to)) call.refuse("range", "is not a smaller and a larger number");
      const double half = from == to ? 0.5 : 0;
      low = g.scalar(from - half, x.dtype());
      high = g.scalar(to + half, x.dtype());
    } else {
      assert_true(le(range[0].as(g, f64), range[1].as(g, f64)),
                  "histogram: 'range' is not a smaller and a larger number");
      widen(range[0].like(x), range[1].like(x));
    }
  } else if (count(x.shape()) == Dim(0)) {
    low = g.scalar(0.0, x.dtype());
    high = g.scalar(1.0, x.dtype());
  } else {
    widen(amin(x), amax(x));
  }
  return linspace_between(low, high, bins + 1);
}

std::vector<Real> range_of(Call& call, size_t dims) {
  std::vector<Real> range = scalars(call, "range");
  if (!range.empty() && range.size() != 2 * dims)
    call.refuse("range", "is not a smaller and a larger number for each dim");
  return range;
}

// Returns how many points are in each bin, or their weights: [bins of dim 0, bins of dim 1, ...].
// `columns` has the coordinates of the points, and `edges` those of the bins, both by dim. The last
// bin includes its upper edge. NaN and points outside all bins are not counted.
Value points_in(Call& call, const std::vector<Value>& columns, const std::vector<Value>& edges) {
  Graph& g = call.graph();
  const DType dtype = columns[0].dtype();
  const Dim points = columns[0].dim(0);
  Value inside, bin;
  Shape bins;
  for (size_t d = 0; d < columns.size(); ++d) {
    const Value& x = columns[d];
    if (edges[d].rank() != 1) call.refuse("bins", str_cat("has the shape ", edges[d].shape()));
    const Dim count = edges[d].dim(0) - 1;
    const auto edge = [&](const Dim& i) { return reshape(slice(edges[d], 0, i, i + 1), Shape{}); };
    const Value mine = logical_and(ge(x, edge(0)), le(x, edge(count)));
    const Value place = minimum(hg::searchsorted(edges[d], x, true) - g.scalar(int64_t{1}, i64),
                                number(g, count - 1));
    inside = inside ? logical_and(inside, mine) : mine;
    bin = bin ? bin * number(g, count) + place : place;
    bins.push_back(count);
  }
  bin = hg::where(inside, bin, g.scalar(int64_t{0}, i64));
  Value weight = call.tensor_or_none("weight");
  weight = weight ? reshape(convert::cast(weight, dtype), {points}) : full(g, {points}, 1, dtype);
  weight = hg::where(inside, weight, number_like(weight, 0));
  Value y = g.call("index_reduce", {full(g, {count(bins)}, 0, dtype), bin, weight},
                   {{"dim", 0}, {"reduce", "add"}});
  const bool is_density = call.flag("density", false);
  if (is_density) y = y / sum(y, {0});
  y = reshape(y, bins);
  for (size_t d = 0; is_density && d < edges.size(); ++d) {
    Shape along(bins.size(), 1);
    along[d] = bins[d];
    y = y / reshape(slice(edges[d], 0, 1, bins[d] + 1) - slice(edges[d], 0, 0, bins[d]), along);
  }
  return y;
}

Value points_of(Call& call) {
  const Value given = call.tensor("self");
  if (given.dtype() != f32 && given.dtype() != f64)
    call.refuse("self", str_cat("is ", given.dtype(), "; histograms take f32 and f64"));
  return given;
}

// Whether `bins` has the edges, not how many bins there are.
bool has_edges(Call& call) {
  const auto is_tensor = [](const Item& item) {
    return item.is_tensor() && !std::get<TensorRef>(item.value)->is_number();
  };
  const Item* bins = call.find("bins");
  if (bins == nullptr || !bins->is_list()) return bins != nullptr && is_tensor(*bins);
  const List& list = *std::get<std::shared_ptr<List>>(bins->value);
  return std::any_of(list.items.begin(), list.items.end(), is_tensor);
}

void histogram(Call& call) {
  const Value given = points_of(call);
  const Value x = reshape(given, {count(given.shape())});
  const Value edges = has_edges(call)
                          ? convert::cast(call.tensor("bins"), x.dtype())
                          : even_edges(call, x, call.size("bins", 100), range_of(call, 1));
  call.returns(std::vector<Value>{points_in(call, {x}, {edges}), edges});
}

// The last dim of self has the coordinates of a point.
void histogramdd(Call& call) {
  const Value given = points_of(call);
  if (given.rank() < 2) call.refuse("self", "must have two dims or more");
  const Dim dims = given.dim(-1);
  if (!dims.is_constant()) call.refuse("self", "has a symbolic last dim: give it as a number");
  const Shape outer(given.shape().begin(), given.shape().end() - 1);
  const Value points = reshape(given, {count(outer), dims});
  const auto size = static_cast<size_t>(dims.constant());
  std::vector<Value> columns, edges;
  for (int64_t d = 0; d < dims.constant(); ++d)
    columns.push_back(reshape(slice(points, 1, d, d + 1), {count(outer)}));
  if (has_edges(call)) {
    for (const Value& each : call.tensors("bins"))
      edges.push_back(convert::cast(each, given.dtype()));
  } else {
    const Shape bins = call.sizes("bins", static_cast<int>(size));
    const std::vector<Real> range = range_of(call, size);
    for (size_t d = 0; d < std::min(size, bins.size()); ++d) {
      const std::vector<Real> mine(range.begin() + (range.empty() ? 0 : 2 * d),
                                   range.begin() + (range.empty() ? 0 : 2 * d + 2));
      edges.push_back(even_edges(call, columns[d], bins[d], mine));
    }
  }
  if (edges.size() != size || size == 0)
    call.refuse("bins", str_cat("has ", static_cast<int64_t>(edges.size()), " dims for ", dims));
  auto list = std::make_shared<List>();
  for (const Value& each : edges) list->items.emplace_back(call.make_tensor(each));
  call.returns({Item(call.make_tensor(points_in(call, columns, edges))), Item(std::move(list))});
}

// The first segment is rows 0 .. lengths[0] - 1 of the data, and so on. Beyond dim 0, each index of
// the dims before has such segments, whose lengths add up to the rows: they are one sequence.
void segment_reduce(Call& call) {
  Graph& g = call.graph();
  Value x = call.tensor("data");
  const std::string reduce = call.string("reduce");
  if (!is_float(x.dtype()) || x.rank() == 0)
    call.refuse("data", str_cat("is ", TensorType{x.dtype(), x.shape()}));
  if (call.has("indices")) call.refuse("indices", "are given, which is not supported");
  const int axis = axis_of(call, "axis", x.rank(), 0);
  Shape shape = x.shape();  // of the result
  Value ends, lengths;      // i64[segments]
  Value start;              // i64[1], of the first segment; null if it starts at row 0
  const bool is_open = call.has("offsets") || call.flag("unsafe", false);
  if (axis > 0 && is_open) call.refuse("axis", "is not 0, with offsets or unsafe lengths");
  if (call.has("offsets")) {
    const Value offsets = convert::cast(call.tensor("offsets"), i64);
    if (offsets.rank() != 1) call.refuse("offsets", str_cat("has the shape ", offsets.shape()));
    ends = slice(offsets, 0, 1, offsets.dim(0));
    lengths = ends - slice(offsets, 0, 0, offsets.dim(0) - 1);
    start = slice(offsets, 0, 0, 1);
  } else {
    lengths = convert::cast(call.tensor("lengths"), i64);
    if (lengths.rank() != axis + 1)
      call.refuse("lengths", str_cat("has the shape ", lengths.shape()));
    shape[axis] = lengths.dim(axis);
    if (axis > 0) {
      lengths = reshape(lengths, {count(lengths.shape())});
      Shape rows(x.shape().begin() + axis, x.shape().end());
      for (int d = 0; d < axis; ++d) rows[0] = rows[0] * x.dim(d);
      x = reshape(x, rows);
    }
    ends = g.call("cumsum", {lengths}, {{"dim", 0}});
  }
  const Dim segments = lengths.dim(0), rows = x.dim(0);
  // The run fails if the segments end behind the last row. If they end before it, the other rows
  // are ignored with offsets or `unsafe`; otherwise the run fails, as torch raises.
  const Value end = slice(ends, 0, segments - 1, segments);
  const Value row = g.call("arange", {}, {{"end", rows}});
  const Value checked = g.call("index_select", {full(g, {rows + 1}, 0, i64), end}, {{"dim", 0}});
  Value segment = hg::searchsorted(ends, row, true) + checked;
  if (start)
    segment = hg::where(lt(row, start), g.call("dims", {}, {{"values", Shape{segments}}}), segment);

  const bool mean = reduce == "mean", has_initial = call.has("initial");
  const double infinity = std::numeric_limits<double>::infinity();
  std::string_view kind = "add";
  double initial = 0;
  if (reduce == "max" || reduce == "min") {
    kind = reduce == "max" ? "amax" : "amin";
    initial = reduce == "max" ? -infinity : infinity;
  } else if (reduce == "prod") {
    kind = "prod";
    initial = 1;
  } else if (reduce != "sum" && !mean) {
    call.refuse("reduce", str_cat("is '", reduce, "'"));
  }
  if (has_initial) initial = call.real("initial");
  Shape flat = x.shape();
  flat[0] = is_open ? segments + 1 : segments;  // the last one collects ignored rows
  Value y = g.call("index_reduce", {full(g, flat, initial, x.dtype()), segment, x},
                   {{"dim", 0}, {"reduce", std::string(kind)}});
  flat[0] = segments;
  if (is_open) y = slice(y, 0, 0, segments);
  if (mean) {
    Shape column(x.rank(), 1);
    column[0] = segments;
    const Value length = reshape(lengths, column);
    const Value is_empty = eq(length, g.scalar(int64_t{0}, i64));
    const Value nothing =
        has_initial ? y : full(g, flat, std::numeric_limits<double>::quiet_NaN(), x.dtype());
    y = hg::where(is_empty, nothing, y / convert::cast(length, x.dtype()));
  }
  call.returns(axis > 0 ? reshape(y, shape) : y);
}

constexpr Row kRows[] = {
    {"aten::histogram", histogram},
    {"aten::histogramdd", histogramdd},
    {.op = "aten::segment_reduce",
     .run = segment_reduce,
     .numbers = {{{"lengths", DrawnNumbers::parts}, {"offsets", DrawnNumbers::offsets}}}},
};

}  // namespace

std::span<const Row> histogram() { return kRows; }

}  // namespace hg::convert::rows
