// SPDX-License-Identifier: Apache-2.0
// Histograms, and reductions over segments of rows.
#include <limits>

#include "converter/aten/linspace.h"
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

// Returns the edges of `bins` bins of equal width, over the given range or over the range of all
// elements.
Value even_edges(Call& call, const Value& x) {
  Graph& g = call.graph();
  const Dim bins = call.size("bins", 100);
  if (bins.is_constant() && bins.constant() < 1) call.refuse("bins", str_cat("is ", bins));
  Value low, high;
  const std::vector<Real> range = scalars(call, "range");
  const auto widen = [&](const Value& least, const Value& most) {  // an empty range is widened
    const Value half = convert::cast(eq(least, most), x.dtype()) * 0.5;
    low = least - half;
    high = most + half;
  };
  if (!range.empty()) {
    if (range.size() != 2) call.refuse("range", "is not a smaller and a larger number");
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

// The last bin includes its upper edge. NaN and elements outside all bins are not counted.
void histogram(Call& call) {
  Graph& g = call.graph();
  const Value given = call.tensor("self");
  if (given.dtype() != f32 && given.dtype() != f64)
    call.refuse("self", str_cat("is ", given.dtype(), "; histogram takes f32 and f64"));
  const Dim size = count(given.shape());
  const Value x = reshape(given, {size});
  const bool has_edges = call.find("bins") != nullptr && call.find("bins")->is_tensor();
  const Value edges =
      has_edges ? convert::cast(call.tensor("bins"), x.dtype()) : even_edges(call, x);
  if (edges.rank() != 1) call.refuse("bins", str_cat("has the shape ", edges.shape()));
  const Dim bins = edges.dim(0) - 1;
  const auto edge = [&](const Dim& at) { return reshape(slice(edges, 0, at, at + 1), Shape{}); };
  const Value inside = logical_and(ge(x, edge(0)), le(x, edge(bins)));
  const Value last = reshape(g.call("dims", {}, {{"values", Shape{bins - 1}}}), Shape{});
  const Value place = hg::searchsorted(edges, x, true) - g.scalar(int64_t{1}, i64);
  const Value bin = hg::where(inside, minimum(place, last), g.scalar(int64_t{0}, i64));
  Value weight = call.tensor_or_none("weight");
  if (weight)
    weight = reshape(convert::cast(weight, x.dtype()), {size});
  else
    weight = full(g, {size}, 1, x.dtype());
  weight = hg::where(inside, weight, number_like(weight, 0));
  Value y = g.call("index_reduce", {full(g, {bins}, 0, x.dtype()), bin, weight},
                   {{"dim", 0}, {"reduce", "add"}});
  if (call.flag("density", false))
    y = y / sum(y, {0}) / (slice(edges, 0, 1, bins + 1) - slice(edges, 0, 0, bins));
  call.returns(std::vector<Value>{y, edges});
}

// The first segment is rows 0 .. lengths[0] - 1 of the data, and so on.
void segment_reduce(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("data");
  const std::string reduce = call.string("reduce");
  if (!is_float(x.dtype()) || x.rank() == 0)
    call.refuse("data", str_cat("is ", TensorType{x.dtype(), x.shape()}));
  if (call.has("indices")) call.refuse("indices", "are given, which is not supported");
  if (call.number("axis", 0) != 0) call.refuse("axis", "is not 0");
  Value ends, lengths;  // i64[segments]
  Value start;          // i64[1], of the first segment; null if it starts at row 0
  const bool is_open = call.has("offsets") || call.flag("unsafe", false);
  if (call.has("offsets")) {
    const Value offsets = convert::cast(call.tensor("offsets"), i64);
    if (offsets.rank() != 1) call.refuse("offsets", str_cat("has the shape ", offsets.shape()));
    ends = slice(offsets, 0, 1, offsets.dim(0));
    lengths = ends - slice(offsets, 0, 0, offsets.dim(0) - 1);
    start = slice(offsets, 0, 0, 1);
  } else {
    lengths = convert::cast(call.tensor("lengths"), i64);
    if (lengths.rank() != 1) call.refuse("lengths", str_cat("has the shape ", lengths.shape()));
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
  Shape shape = x.shape();
  shape[0] = is_open ? segments + 1 : segments;  // the last one collects ignored rows
  Value y = g.call("index_reduce", {full(g, shape, initial, x.dtype()), segment, x},
                   {{"dim", 0}, {"reduce", std::string(kind)}});
  shape[0] = segments;
  if (is_open) y = slice(y, 0, 0, segments);
  if (mean) {
    Shape column(x.rank(), 1);
    column[0] = segments;
    const Value length = reshape(lengths, column);
    const Value is_empty = eq(length, g.scalar(int64_t{0}, i64));
    const Value nothing =
        has_initial ? y : full(g, shape, std::numeric_limits<double>::quiet_NaN(), x.dtype());
    y = hg::where(is_empty, nothing, y / convert::cast(length, x.dtype()));
  }
  call.returns(y);
}

constexpr Row kRows[] = {
    {"aten::histogram", histogram},
    {.op = "aten::segment_reduce",
     .run = segment_reduce,
     .numbers = {{{"lengths", DrawnNumbers::parts}, {"offsets", DrawnNumbers::offsets}}}},
};

}  // namespace

std::span<const Row> histogram() { return kRows; }

}  // namespace hg::convert::rows
