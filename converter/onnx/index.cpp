// SPDX-License-Identifier: Apache-2.0
// Ops that read and write elements by index, and ops that sort.
#include <algorithm>

#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

// Converts indices to nonnegative i64; negative ones count from the end of an axis of this size.
Value from_start(const Value& given, const Dim& size) {
  Graph& g = *given.graph();
  const Value index = cast(given, i64);
  if (const TensorData* data = g.constant_of(index.id()); data && data->tensor.dtype == i64) {
    const auto* begin = data->tensor.as<const int64_t>();
    if (std::all_of(begin, begin + data->tensor.count(), [](int64_t i) { return i >= 0; }))
      return index;
  }
  return where(lt(index, constant_like(index, 0)), index + size_value(g, size), index);
}

void gathered(Node& n) {
  const Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", 0), x.rank());
  if (const auto known = n.known(1); known && n.type(1).rank() == 0) {
    const Dim place = n.dim(1);
    if (place.is_constant()) {  // one element, as in x[:, 0]
      const Dim size = x.dim(axis), at = place.constant() < 0 ? place + size : place;
      if (size.is_constant() && (at.constant() < 0 || at.constant() >= size.constant()))
        n.refuse(str_cat("index ", place, " is out of range for a dim of ", size));
      Shape rest = x.shape();
      rest.erase(rest.begin() + axis);
      return n.give(reshape(slice(x, axis, at, at + Dim(1)), std::move(rest)));
    }
  }
  const Value index = from_start(n.in(1), x.dim(axis));
  if (axis == 0 && x.rank() == 2 && is_float(x.dtype()))
    return n.give(n.op("embedding", {x, index}));
  const Value flat = reshape(index, {count(index.shape())});
  const Value y = n.op("index_select", {x, flat}, {{"dim", axis}});
  Shape shape(x.shape().begin(), x.shape().begin() + axis);
  shape.insert(shape.end(), index.shape().begin(), index.shape().end());
  shape.insert(shape.end(), x.shape().begin() + axis + 1, x.shape().end());
  n.give(reshape(y, std::move(shape)));
}

void gathered_elements(Node& n) {
  const Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", 0), x.rank());
  n.give(gather(x, from_start(n.in(1), x.dim(axis)), axis));
}

// Converts index tuples [..., k] to positions in the flattened dims [0, batch + k) of x: i64[...].
Value flat_positions(const Value& x, const Value& indices, int batch) {
  Graph& g = *x.graph();
  const int tuple = indices.rank() - 1;
  const int64_t k = indices.dim(-1).constant();
  const Shape outer(indices.shape().begin(), indices.shape().end() - 1);
  Value at = g.scalar(int64_t{0}, i64);
  for (int d = 0; d < batch; ++d) {
    Shape along(outer.size(), Dim(1));
    along[d] = x.dim(d);
    at = at * size_value(g, x.dim(d)) + reshape(g.call("arange", {}, {{"end", x.dim(d)}}), along);
  }
  for (int64_t c = 0; c < k; ++c) {
    const Dim size = x.dim(batch + static_cast<int>(c));
    const Value column = reshape(slice(indices, tuple, c, c + 1), outer);
    at = at * size_value(g, size) + from_start(column, size);
  }
  return expand(at, outer);
}

struct Rest {  // the dims of x that index tuples do not cover
  Shape reached, rest;
};
Rest split_at_tuples(Node& n, const Value& x, const Value& indices, int64_t batch) {
  if (indices.rank() == 0) n.refuse("the indices have no dims");
  if (batch < 0 || batch >= indices.rank()) n.refuse(str_cat("attribute 'batch_dims' is ", batch));
  if (!indices.dim(-1).is_constant()) n.refuse("the last size of the indices is open");
  const int64_t columns = indices.dim(-1).constant();
  if (columns > x.rank() - batch) n.refuse("the indices have more columns than the data has dims");
  const auto at = x.shape().begin() + batch + columns;
  return {Shape(x.shape().begin(), at), Shape(at, x.shape().end())};
}

void gathered_tuples(Node& n) {
  const Value x = n.in(0), indices = n.in(1);
  const int64_t batch = n.integer("batch_dims", 0);
  const auto [reached, rest] = split_at_tuples(n, x, indices, batch);
  const Value at = flat_positions(x, indices, static_cast<int>(batch));
  const Value rows = reshape(x, {count(reached), count(rest)});
  const Value y = n.op("index_select", {rows, reshape(at, {count(at.shape())})}, {{"dim", 0}});
  Shape shape = at.shape();
  shape.insert(shape.end(), rest.begin(), rest.end());
  n.give(reshape(y, std::move(shape)));
}

std::string reduction_of(Node& n) {
  const std::string given = n.string("reduction", "none");
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"none", "none"}, {"add", "add"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  for (const auto& [name, ours] : kNames)
    if (name == given) return ours;
  n.refuse(str_cat("attribute 'reduction' is '", given, "'"));
}

void scattered_tuples(Node& n) {
  const Value x = n.in(0), indices = n.in(1), updates = n.in(2);
  const auto [reached, rest] = split_at_tuples(n, x, indices, 0);
  const Value at = flat_positions(x, indices, 0);
  const Dim width = count(rest), rows = count(at.shape());
  const Value to = expand(reshape(at, {rows, 1}), {rows, width});
  const Value y =
      n.op("scatter", {reshape(x, {count(reached), width}), to, reshape(updates, {rows, width})},
           {{"dim", 0}, {"reduce", reduction_of(n)}});
  n.give(reshape(y, x.shape()));
}

void scattered_elements(Node& n) {
  const Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", 0), x.rank());
  n.give(n.op("scatter", {x, from_start(n.in(1), x.dim(axis)), n.in(2)},
              {{"dim", axis}, {"reduce", reduction_of(n)}}));
}

// past[b, ..., (start[b] + t) mod size, ...] = update[b, ..., t, ...]
void tensor_scatter(Node& n) {
  const Value past = n.in(0), update = n.in(1);
  const int axis = n.axis(n.integer("axis", -2), past.rank());
  Graph& g = n.graph();
  Shape along(past.rank(), Dim(1));
  along[axis] = update.dim(axis);
  Value at = reshape(g.call("arange", {}, {{"end", update.dim(axis)}}), along);
  if (n.has(2)) {
    Shape first(past.rank(), Dim(1));
    first[0] = past.dim(0);
    at = at + reshape(cast(n.in(2), i64), first);
  }
  if (n.string("mode", "linear") == "circular") {
    if (!past.dim(axis).is_constant()) n.refuse("the size of the circular cache is open");
    at = remainder(at, g.scalar(past.dim(axis).constant(), i64));
  }
  n.give(n.op("scatter", {past, expand(at, update.shape()), update}, {{"dim", axis}}));
}

void one_hot(Node& n) {
  const Value indices = n.in(0), values = n.in(2);
  // The depth may have any dtype.
  const bool exact = is_integer(n.type(1).dtype);
  const Dim depth = exact              ? n.dim(1)
                    : n.is_constant(1) ? Dim(n.integer(1))
                                       : n.call().size_of(cast(reshape(n.in(1), {}), i64));
  Graph& g = n.graph();
  const int axis = n.axis(n.integer("axis", -1), indices.rank() + 1);
  Shape along(indices.rank() + 1, Dim(1)), shape = indices.shape();
  along[axis] = depth;
  shape.insert(shape.begin() + axis, Dim(1));
  const Value places = reshape(g.call("arange", {}, {{"end", depth}}), along);
  const Value whole = is_float(indices.dtype()) ? trunc(indices) : indices;
  const Value hit = eq(reshape(from_start(whole, depth), shape), places);
  n.give(where(hit, reshape(slice(values, 0, 1, 2), {}), reshape(slice(values, 0, 0, 1), {})));
}

void nonzero(Node& n) {
  const Value x = n.in(0);
  if (x.rank() == 0) {
    const Value places = n.op("nonzero", {reshape(x, {1})});
    return n.give(reshape(slice(places, 1, 0, 0), {0, places.dim(0)}));
  }
  n.give(permute(n.op("nonzero", {x}), {1, 0}));
}

void compressed(Node& n) {
  Value x = n.in(0);
  int axis = 0;
  if (n.has("axis"))
    axis = n.axis(n.integer("axis"), x.rank());
  else
    x = reshape(x, {count(x.shape())});
  const Value places = n.op("nonzero", {n.in(1)});
  n.give(n.op("index_select", {x, reshape(places, {places.dim(0)})}, {{"dim", axis}}));
}

void reverse_sequence(Node& n) {
  const Value x = n.in(0);
  const int batch = n.axis(n.integer("batch_axis", 1), x.rank());
  const int time = n.axis(n.integer("time_axis", 0), x.rank());
  Graph& g = n.graph();
  Shape times(x.rank(), Dim(1)), batches = times;
  times[time] = x.dim(time);
  batches[batch] = x.dim(batch);
  const Value at = reshape(g.call("arange", {}, {{"end", x.dim(time)}}), times);
  const Value length = reshape(cast(n.in(1), i64), batches);
  const Value from = where(lt(at, length), length - constant_like(length, 1) - at, at);
  n.give(gather(x, expand(from, x.shape()), time));
}

void top_k(Node& n) {
  const Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", -1), x.rank());
  const bool largest = n.flag("largest", true);
  const Dim k = n.opset() < 10 ? Dim(n.integer("k")) : n.dim(1);
  // Among equal elements the first ones, in order, as a stable sort returns them.
  const Values sorted = n.ops("sort", {x}, {{"dim", axis}, {"descending", largest}});
  n.give({slice(sorted[0], axis, 0, k), slice(sorted[1], axis, 0, k)});
}

void unique_of(Node& n) {
  const Value x = n.in(0);
  Graph& g = n.graph();
  std::optional<int> axis;
  if (n.has("axis")) axis = n.axis(n.integer("axis"), x.rank());
  NamedAttrs attrs;
  if (axis) attrs.push_back({"dim", *axis});
  const Values found = n.ops("unique", {x}, attrs);
  Value values = found[0], inverse = reshape(found[1], {count(found[1].shape())}),
        counts = found[2];
  const Dim unique = counts.dim(0), total = inverse.dim(0);
  // The first occurrence of each: the smallest position among its elements.
  const Value places = g.call("arange", {}, {{"end", total}});
  const Value none = expand(g.scalar(int64_t{INT64_MAX}, i64), {unique});
  Value first = n.op("scatter", {none, inverse, places}, {{"dim", 0}, {"reduce", "amin"}});
  if (!n.flag("sorted", true)) {
    const Value order = n.ops("sort", {first}, {{"dim", 0}})[1];
    const Value rank = n.ops("sort", {order}, {{"dim", 0}})[1];
    values = n.op("index_select", {values, order}, {{"dim", axis.value_or(0)}});
    counts = n.op("index_select", {counts, order}, {{"dim", 0}});
    first = n.op("index_select", {first, order}, {{"dim", 0}});
    inverse = n.op("index_select", {rank, inverse}, {{"dim", 0}});
  }
  n.give({values, first, inverse, counts});
}

void hardmax(Node& n) {
  const Value x = n.in(0);
  const bool old = n.opset() < 13;
  const int axis = n.axis(n.integer("axis", old ? 1 : -1), x.rank());
  Value y = x;
  if (old)
    y = reshape(x, {count(Shape(x.shape().begin(), x.shape().begin() + axis)),
                    count(Shape(x.shape().begin() + axis, x.shape().end()))});
  const int along = old ? 1 : axis;
  if (y.dim(along) == Dim(0)) return n.give(x);  // x is empty, so it has no largest element
  Shape shape(y.rank(), Dim(1));
  shape[along] = y.dim(along);
  const Value places = reshape(n.graph().call("arange", {}, {{"end", y.dim(along)}}), shape);
  n.give(reshape(cast(eq(places, argmax(y, Dim(along), true)), x.dtype()), x.shape()));
}

constexpr Builtin kRows[] = {
    {"onnx::Gather", moving_row<gathered>},
    {"onnx::GatherElements", row<gathered_elements>},
    {"onnx::GatherND", row<gathered_tuples>},
    {"com.microsoft::GatherND", row<gathered_tuples>},
    {"onnx::Scatter", row<scattered_elements>},
    {"onnx::ScatterElements", row<scattered_elements>},
    {"onnx::ScatterND", row<scattered_tuples>},
    {"onnx::TensorScatter", row<tensor_scatter>},
    {"onnx::OneHot", row<one_hot>},
    {"onnx::NonZero", row<nonzero>},
    {"onnx::Compress", row<compressed>},
    {"onnx::ReverseSequence", row<reverse_sequence>},
    {"onnx::TopK", row<top_k>},
    {"onnx::Unique", row<unique_of>},
    {"onnx::Hardmax", row<hardmax>},
};

}  // namespace

Rows index_rows() { return kRows; }

}  // namespace hg::convert::onnx
