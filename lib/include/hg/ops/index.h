// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/index.cpp, scatter.cpp and scatter_view.cpp: elements read and written by
// index. Indices are i64. An index out of range fails the run; only index() and index_put() accept
// negative ones.
#pragma once

#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// For dim 0: y[i, j] = x[index[i, j], j].
inline Value gather(const Value& x, const Value& index, int dim) {
  return x.graph()->call("gather", {x, index}, {{"dim", dim}});
}
// For dim 0: y[i, ...] = x[index[i], ...]. index: [n].
inline Value index_select(const Value& x, const Value& index, int dim) {
  return x.graph()->call("index_select", {x, index}, {{"dim", dim}});
}
// weight: [rows, width], indices: any shape -> [indices..., width]. The row padding_idx receives no
// gradient (-1: none). If scale_grad_by_freq, the gradient of a row is divided by the number of
// times it was read.
inline Value embedding(const Value& weight, const Value& indices, Dim padding_idx = -1,
                       bool scale_grad_by_freq = false) {
  return weight.graph()->call(
      "embedding", {weight, indices},
      {{"padding_idx", padding_idx}, {"scale_grad_by_freq", scale_grad_by_freq}});
}
// y[p, ...] = x[indices[0][p], indices[1][p], ..., ...]: indexes the first dims of x. At least one
// index is needed; all have the same shape. The other dims of x follow.
inline Value index(const Value& x, const std::vector<Value>& indices) {
  std::vector<Value> inputs = {x};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return x.graph()->call("index", inputs);
}
// A copy of x with y[indices[0][p], ..., ...] = values[p, ...] in order of p, or += if accumulate.
// values has the shape of index(x, indices).
inline Value index_put(const Value& x, const Value& values, const std::vector<Value>& indices,
                       bool accumulate = false) {
  std::vector<Value> inputs = {x, values};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return x.graph()->call("index_put", inputs, {{"accumulate", accumulate}});
}
// y[..., k] = (x[...] == k), i64 of shape [x..., num_classes]. -1: one more than the largest
// element of x, a size that depends on data.
inline Value one_hot(const Value& x, Dim num_classes = -1) {
  return x.graph()->call("one_hot", {x}, {{"num_classes", num_classes}});
}
// Positions of the nonzero elements, in row-major order: i64[count, rank of x]. count depends on
// data.
inline Value nonzero(const Value& x) { return x.graph()->call("nonzero", {x}); }
// Repeats i repeats[i] times, in order. repeats: i64[n] -> i64[sum of repeats].
inline Value repeat_interleave(const Value& repeats) {
  return repeats.graph()->call("repeat_interleave", {repeats});
}
// For dim 0: a copy of x in which x[index[i, j], j] is reduced with src[i, j]. Without
// include_self, the old element is not part of the reduction.
inline Value scatter(const Value& x, const Value& index, const Value& src, int dim,
                     ScatterReduce reduce = ScatterReduce::none, bool include_self = true) {
  return x.graph()->call("scatter", {x, index, src},
                         {{"dim", dim}, {"reduce", reduce}, {"include_self", include_self}});
}
// For dim 0: a copy of x in which x[index[i], ...] is reduced with src[i, ...]. index: [n].
inline Value index_reduce(const Value& x, const Value& index, const Value& src, int dim,
                          ScatterReduce reduce = ScatterReduce::none, bool include_self = true) {
  return x.graph()->call("index_reduce", {x, index, src},
                         {{"dim", dim}, {"reduce", reduce}, {"include_self", include_self}});
}
// A copy of x in which the k-th element where mask is true is the k-th element of src. mask: bool,
// of x's shape.
inline Value masked_scatter(const Value& x, const Value& mask, const Value& src) {
  return x.graph()->call("masked_scatter", {x, mask, src});
}
// A copy of x with slice(x, dim, start, end, step) replaced by src; the next two do the same for
// diagonal() and as_strided().
inline Value slice_scatter(const Value& x, const Value& src, int dim, const Dim& start,
                           const Dim& end, const Dim& step = 1) {
  return x.graph()->call("slice_scatter", {x, src},
                         {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}
inline Value diagonal_scatter(const Value& x, const Value& src, const Dim& offset = 0, int dim1 = 0,
                              int dim2 = 1) {
  return x.graph()->call("diagonal_scatter", {x, src},
                         {{"offset", offset}, {"dim1", dim1}, {"dim2", dim2}});
}
inline Value as_strided_scatter(const Value& x, const Value& src, std::vector<Dim> size,
                                std::vector<Dim> stride, const Dim& storage_offset = 0) {
  return x.graph()->call("as_strided_scatter", {x, src},
                         {{"size", Attr(std::move(size))},
                          {"stride", Attr(std::move(stride))},
                          {"storage_offset", storage_offset}});
}

}  // namespace hg
